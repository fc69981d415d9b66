//! The main path across processes: a write through one gateway, or by gRPC, reaches the sessions of another.

use serde_json::json;

use crate::harness::event_stream::EventStream;
use crate::harness::stack::Stack;
use crate::harness::truth::{RECORD_SLOT, TABLE_SLOT, delete, event_id, put};

const RECORD: &str = "feed+rest://tidegate.test/Product/42";
const TABLE: &str = "feed+rest://tidegate.test/Product";

/// The exact bytes of a notice.
fn notice(revision: u64, slot: u64, uri: &str) -> String {
    let id = event_id(revision, slot);
    format!(
        "id: {id}\nevent: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{{\"uri\":\"{uri}\"}}}}\n\n"
    )
}

/// Reads as many messages as there are expected and compares their bytes.
fn check(stream: &mut EventStream, expected: &[String]) {
    let found: Vec<String> = expected.iter().map(|_| stream.message().raw).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_rest_write_through_one_gateway_reaches_a_session_of_another() {
    let stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(RECORD);

    let writer = &stack.gateways[1];
    writer.put("Product/42", r#"{"id":"42","name":"Lamp","price":1.0}"#);
    writer.put("Product/7", r#"{"name":"Chair"}"#);
    writer.put("Product/42", r#"{"name":"Lamp","price":0.1,"stock":3}"#);
    writer.delete("Product/42");

    let revisions: Vec<u64> = stack
        .truth()
        .changes("Product", Some("42"))
        .iter()
        .map(|(revision, _)| *revision)
        .collect();
    assert_eq!(revisions.len(), 3);
    let expected: Vec<String> = revisions
        .iter()
        .map(|revision| notice(*revision, RECORD_SLOT, RECORD))
        .collect();
    check(&mut stream, &expected);
}

#[test]
fn after_a_notice_the_record_is_read_as_it_was_written() {
    let stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe("feed+rest://tidegate.test/Item/7");
    for round in 0..20 {
        let record = format!(r#"{{"id":"7","name":"round {round}","data":[9007199254740993,{round}.10]}}"#);
        stack.put("Item/7", &record);
        stream.update("feed+rest://tidegate.test/Item/7");
        assert_eq!(client.read("feed+rest://tidegate.test/Item/7"), record);
    }
}

#[test]
fn a_table_and_its_record_are_two_frames_of_one_revision() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(RECORD);
    client.subscribe(TABLE);

    stack.put("Product/42", r#"{"name":"Lamp"}"#);
    stack.put("Product/43", r#"{"name":"Chair"}"#);

    let truth = stack.truth();
    let (first, second) = (truth.newest("Product", "42"), truth.newest("Product", "43"));
    let expected = [
        notice(first, TABLE_SLOT, TABLE),
        notice(first, RECORD_SLOT, RECORD),
        notice(second, TABLE_SLOT, TABLE),
    ];
    check(&mut stream, &expected);
}

#[test]
fn b_5_6_a_batch_of_n_changes_to_one_table_is_n_notices() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(TABLE);

    let record = r#"{"name":"Lamp"}"#;
    let mut batch: Vec<_> = (0..50)
        .map(|key| put("Product", &key.to_string(), record))
        .collect();
    batch.push(put("Item", "7", "{}"));
    batch.push(delete("Product", "3"));
    batch.push(delete("Product", "absent"));
    let answer = stack.truth().commit(batch);

    let revisions: Vec<u64> = answer.results.iter().map(|result| result.revision).collect();
    let first = revisions[0];
    assert_eq!(revisions[51], first + 51, "consecutive revisions");
    assert_eq!(revisions[52], 0, "a delete of an absent record is no change");
    let expected: Vec<String> = (first..first + 50)
        .chain([first + 51])
        .map(|at| notice(at, TABLE_SLOT, TABLE))
        .collect();
    check(&mut stream, &expected);
}

#[test]
fn b_5_6_insert_update_and_delete_notify_and_the_present_value_does_not() {
    let stack = Stack::start(1);
    stack.put("Product/42", r#"{"name":"before"}"#);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(RECORD);

    let truth = stack.truth();
    let mut expected = Vec::new();
    for operation in [
        put("Product", "42", r#"{"name":"after"}"#),
        delete("Product", "42"),
        put("Product", "42", r#"{"name":"again"}"#),
    ] {
        expected.push(notice(truth.commit(vec![operation]).head, RECORD_SLOT, RECORD));
    }
    check(&mut stream, &expected);
}

#[test]
fn atomic_who_was_told_of_one_change_of_a_commit_reads_all_of_them() {
    let stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe("feed+rest://tidegate.test/Item/0");
    let truth = stack.truth();
    for round in 0..20 {
        let record = json!({"name": round.to_string()}).to_string();
        truth.commit(
            (0..10)
                .map(|key| put("Item", &key.to_string(), &record))
                .collect(),
        );
        stream.update("feed+rest://tidegate.test/Item/0");
        let last = client.read("feed+rest://tidegate.test/Item/9");
        assert!(last.contains(&format!("\"name\":\"{round}\"")), "{last}");
    }
}
