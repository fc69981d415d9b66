//! B-4.5 to B-4.7, B-4.10: what a stream gets that was opened after another one broke.

use serde_json::json;

use crate::harness::event_stream::EventStream;
use crate::harness::http::Request;
use crate::harness::mcp::Client;
use crate::harness::stack::Stack;
use crate::harness::truth::{RECORD_SLOT, TABLE_SLOT, event_id, put};

const ITEM: &str = "feed+rest://tidegate.test/Item/7";
const OTHER: &str = "feed+rest://tidegate.test/Item/8";
const TABLE: &str = "feed+rest://tidegate.test/Item";

/// Opens the stream with this `Last-Event-ID`, whatever it is.
fn open_with(client: &Client, last_event_id: &[u8]) -> EventStream {
    let request = client.get(None).header("Last-Event-ID", last_event_id);
    EventStream::new(request.open(client.address), None)
}

/// The instance that a resuming client meets.
#[derive(Clone, Copy, Debug)]
enum Instance {
    Same,
    Another,
    /// The instance crashed and came back.
    Restarted,
}

/// Reads some, breaks off, misses this many changes, resumes, and expects exactly those, then what follows.
fn check_resume(instance: Instance, missed: usize) {
    let mut stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    client.subscribe(TABLE);
    stack.put("Item/7", "{}");
    stream.update(TABLE);
    let last = stream.update(ITEM);
    stream.close();

    let truth = stack.truth();
    let mut expected = Vec::new();
    for index in 0..missed {
        // Some in batches, some of another record.
        let answer = truth.commit(vec![
            put("Item", "7", "{}"),
            put("Item", &format!("k{index}"), "{}"),
        ]);
        let [first, second] = [answer.results[0].revision, answer.results[1].revision];
        expected.extend([
            (TABLE, event_id(first, TABLE_SLOT)),
            (ITEM, event_id(first, RECORD_SLOT)),
            (TABLE, event_id(second, TABLE_SLOT)),
        ]);
    }
    let resuming = match instance {
        Instance::Same => client,
        Instance::Another => client.on(stack.gateways[1].application),
        Instance::Restarted => {
            stack.gateways[0].kill();
            stack.gateways[0].restart();
            stack.gateways[0].wait_until_ready();
            client
        }
    };
    let mut stream = resuming.resume(last);
    for (index, (uri, id)) in expected.iter().enumerate() {
        assert_eq!(
            stream.update(uri),
            *id,
            "missed frame {index} of {}, {instance:?}",
            expected.len()
        );
    }
    stream.opening();
    stack.put("Item/7", "{}");
    let next = truth.newest("Item", "7");
    assert_eq!(stream.update(TABLE), event_id(next, TABLE_SLOT));
    assert_eq!(stream.update(ITEM), event_id(next, RECORD_SLOT));
}

#[test]
fn field_case_a05_resumable_nothing_missed_means_only_the_opening_block() {
    check_resume(Instance::Same, 0);
    check_resume(Instance::Another, 0);
}

#[test]
fn field_case_a05_b_4_5_resumable_on_the_same_instance_gets_exactly_what_was_missed() {
    check_resume(Instance::Same, 3);
}

#[test]
fn field_case_a05_b_4_6_resumable_on_another_instance_gets_exactly_what_was_missed() {
    check_resume(Instance::Another, 3);
}

#[test]
fn b_4_6_resumable_on_a_restarted_instance_gets_exactly_what_was_missed() {
    check_resume(Instance::Restarted, 3);
}

#[test]
fn b_4_6_resumable_beyond_the_replay_buffer_gets_exactly_what_was_missed() {
    // 600 frames: far above the hundred that are kept, below the thousand that may be folded.
    check_resume(Instance::Same, 200);
    check_resume(Instance::Another, 200);
    check_resume(Instance::Restarted, 200);
}

#[test]
fn field_case_a23_atomic_a_resume_within_a_commit_brings_the_rest_of_it() {
    let stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    client.subscribe(OTHER);
    let written = stack
        .truth()
        .commit(vec![put("Item", "7", "{}"), put("Item", "8", "{}")]);
    let first = stream.update(ITEM);
    stream.close();
    for gateway in &stack.gateways {
        let mut stream = client.on(gateway.application).resume(first);
        assert_eq!(
            stream.update(OTHER),
            event_id(written.results[1].revision, RECORD_SLOT)
        );
        stream.opening();
        stream.close();
    }
}

#[test]
fn b_4_5_uris_no_longer_subscribed_are_left_out_of_a_resume() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    client.subscribe(OTHER);
    stack.put("Item/8", "{}");
    let last = stream.update(OTHER);
    stream.close();
    stack.put("Item/7", "{}");
    stack.put("Item/8", "{}");
    client.unsubscribe(ITEM);
    let mut stream = client.resume(last);
    stream.update(OTHER);
    stream.opening();
}

#[test]
fn field_case_a05_b_4_10_told_a_get_without_a_last_event_id_is_a_gap() {
    let stack = Stack::start(2);
    let client = stack.client();
    let stream = client.listen_opened();
    client.subscribe(ITEM);
    client.subscribe(OTHER);
    stream.close();
    stack.put("Item/7", "{}");
    stack.put("Item/7", "{}");
    stack.put("Item/7", "{}");
    for gateway in &stack.gateways {
        let mut stream = client.on(gateway.application).listen();
        stream.gap(&[ITEM, OTHER]);
        stack.put("Item/7", "{}");
        stream.update(ITEM);
        stream.close();
    }
}

#[test]
fn b_4_10_told_older_versions_are_told_of_a_gap_too() {
    let stack = Stack::start(1);
    for version in ["2025-06-18", "2025-03-26", "2024-11-05"] {
        let client = Client::initialize(stack.gateways[0].application, version);
        let stream = client.listen();
        client.subscribe(ITEM);
        stream.close();
        let mut stream = client.listen();
        let frames: Vec<_> = (0..4).map(|_| stream.frame()).collect();
        assert!(
            frames
                .iter()
                .all(|frame| frame.id.is_none() && !frame.is_position()),
            "{version}: {frames:?}"
        );
        let told = frames
            .iter()
            .filter(|frame| frame.updated_uri().as_deref() == Some(ITEM))
            .count();
        assert_eq!(told, 1, "{version}: {frames:?}");
        assert_eq!(
            frames.iter().filter(|frame| frame.retry.is_some()).count(),
            1,
            "{version}: {frames:?}"
        );
        stack.put("Item/7", "{}");
        stream.update(ITEM);
    }
}

#[test]
fn field_case_a02_b_4_5_an_id_that_is_no_number_is_a_gap_after_the_whole_buffer() {
    let stack = Stack::start(1);
    for garbage in [b"zz-404".as_slice(), b"-1", b"1.5", b"0x10", b"\xc3\x28", b"1 2"] {
        let client = stack.client();
        let stream = client.listen_opened();
        client.subscribe(ITEM);
        stream.close();
        open_with(&client, garbage).gap(&[ITEM]);
    }
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    let written: Vec<u64> = (0..3)
        .map(|_| stack.truth().commit(vec![put("Item", "7", "{}")]).head)
        .collect();
    for _ in &written {
        stream.update(ITEM);
    }
    stream.close();
    let mut stream = open_with(&client, b"zz-404");
    for revision in written {
        assert_eq!(
            stream.update(ITEM),
            event_id(revision, RECORD_SLOT),
            "the buffer again"
        );
    }
    stream.gap(&[ITEM]);
    stack.put("Item/7", "{}");
    stream.update(ITEM);
}

#[test]
fn field_case_a02_b_4_5_an_empty_id_counts_as_absent() {
    let stack = Stack::start(1);
    let client = stack.client();
    open_with(&client, b"").opening();
}

#[test]
fn field_case_a02_b_4_7_told_an_id_ahead_of_the_log_is_a_gap() {
    let stack = Stack::start(1);
    let digits = vec![b'9'; 4000];
    // The last one is above u64, the others above the head.
    for ahead in [
        b"4611686018427387904".as_slice(),
        b"18446744073709551615",
        b"18446744073709551616",
        &digits,
    ] {
        let client = stack.client();
        let stream = client.listen_opened();
        client.subscribe(ITEM);
        stream.close();
        let mut stream = open_with(&client, ahead);
        stream.gap(&[ITEM]);
        stack.put("Item/7", "{}");
        stream.update(ITEM);
        assert_eq!(client.result("ping", json!({})), json!({}));
    }
}

#[test]
fn field_case_a03_b_4_5_another_sessions_id_brings_nothing_of_it() {
    let stack = Stack::start(1);
    let first = stack.client();
    let mut stream = first.listen_opened();
    first.subscribe(ITEM);
    stack.put("Item/7", "{}");
    stack.put("Item/7", "{}");
    let early = stream.update(ITEM);

    for deleted in [false, true] {
        if deleted {
            assert_eq!(first.delete().status, 204);
        }
        let second = stack.client();
        let mut stream = second.resume(early);
        stream.opening();
        second.subscribe(OTHER);
        stack.put("Item/7", "{}");
        stack.put("Item/8", "{}");
        // Whatever would have come for the other session lies before this.
        stream.update(OTHER);
    }
}

#[test]
fn b_4_6_changes_while_no_gateway_was_there_are_not_lost() {
    let mut stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    let last = stream.update(ITEM);
    stack.gateways[0].kill();
    let written = stack.truth().commit(vec![put("Item", "7", "{}")]).head;
    stack.gateways[0].restart();
    // Not waited for: a gateway that does not know the log yet must hold the stream, not call it a gap.
    let mut stream = client.resume(last);
    assert_eq!(stream.update(ITEM), event_id(written, RECORD_SLOT));
    stream.opening();
}

/// Misses more than are replayed singly, and expects the newest of each URI once, in rising order, and nothing told as a gap.
fn check_folded(instance: Instance) {
    const KEYS: u64 = 3;
    let mut stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen_opened();
    for key in 0..KEYS {
        client.subscribe(&format!("{TABLE}/{key}"));
    }
    client.subscribe(TABLE);
    stack.put("Item/0", "{}");
    stream.update(TABLE);
    let last = stream.update(&format!("{TABLE}/0"));
    stream.close();
    let truth = stack.truth();
    for _ in 0..250 {
        truth.commit((0..KEYS).map(|key| put("Item", &key.to_string(), "{}")).collect());
    }
    let mut expected: Vec<(String, u64)> = (0..KEYS)
        .map(|key| {
            let newest = truth.newest("Item", &key.to_string());
            (format!("{TABLE}/{key}"), event_id(newest, RECORD_SLOT))
        })
        .collect();
    let newest = truth.newest("Item", &(KEYS - 1).to_string());
    expected.push((TABLE.to_owned(), event_id(newest, TABLE_SLOT)));
    expected.sort_by_key(|(_, id)| *id);
    let resuming = match instance {
        Instance::Same => client,
        Instance::Another => client.on(stack.gateways[1].application),
        Instance::Restarted => {
            stack.gateways[0].kill();
            stack.gateways[0].restart();
            stack.gateways[0].wait_until_ready();
            client
        }
    };
    let mut stream = resuming.resume(last);
    for (uri, id) in expected {
        assert_eq!(stream.update(&uri), id, "{instance:?}: {uri}");
    }
    stream.opening();
    stack.put("Item/1", "{}");
    stream.update(TABLE);
    stream.update(&format!("{TABLE}/1"));
}

#[test]
fn b_4_6_a_resume_after_very_many_changes_is_folded() {
    for instance in [Instance::Same, Instance::Another, Instance::Restarted] {
        check_folded(instance);
    }
}

#[test]
fn b_4_7_told_an_id_above_every_number_is_a_gap() {
    let stack = Stack::start(1);
    let client = stack.client();
    let stream = client.listen_opened();
    client.subscribe(ITEM);
    stream.close();
    for id in ["18446744073709551616", &"9".repeat(4_000)] {
        open_with(&client, id.as_bytes()).gap(&[ITEM]);
    }
}

#[test]
fn b_4_5_an_id_that_is_no_number_brings_the_newest_hundred_frames_and_no_more() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    let committed = stack
        .truth()
        .commit((0..150).map(|_| put("Item", "7", "{}")).collect());
    for _ in 0..150 {
        stream.update(ITEM);
    }
    stream.close();
    let mut stream = open_with(&client, b"zz-404");
    for revision in committed.head - 99..=committed.head {
        assert_eq!(stream.update(ITEM), event_id(revision, RECORD_SLOT));
    }
    stream.gap(&[ITEM]);
}

#[test]
fn b_4_3_the_id_of_a_post_stream_that_is_not_there_is_refused_and_the_stream_stays() {
    let stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    let record = stack.truth().session(&client.session).expect("a record");
    for gateway in &stack.gateways {
        let client = client.on(gateway.application);
        // Of an instance that is there: no such stream. Of one that is gone: what it answered is gone with it.
        let of_the_living = format!("p{}.1.2", record.owner_instance);
        for (id, code) in [(&*of_the_living, -32600), ("p0123abc.1.2", -32603)] {
            let answer = client.send(&client.get(Some(id)));
            assert_eq!(
                (answer.status, answer.error_code()),
                (400, code),
                "{id}: {answer:?}"
            );
            let lost = answer.error_message() == "the result of this call was lost, call again";
            assert_eq!(lost, code == -32603, "{answer:?}");
        }
        // Whose session is not there hears of that and of nothing else.
        let answer = Request::get("/mcp")
            .header("Accept", "text/event-stream")
            .header("Mcp-Session-Id", "nobody-nobody-nobody")
            .header("Last-Event-ID", &of_the_living)
            .send(gateway.application);
        assert_eq!(answer.status, 404, "{answer:?}");
    }
    stack.put("Item/7", "{}");
    stream.update(ITEM);
}
