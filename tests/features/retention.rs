//! A log that was trimmed: who stands below its beginning is told, on every instance, and everybody else notices nothing.

use proto::Reason;
use proto::feed::v1::WatchRequest;
use proto::feed::v1::feed_client::FeedClient;
use tonic::Code;
use tonic_types::StatusExt;

use crate::harness::stack::Stack;
use crate::harness::truth::{RECORD_SLOT, event_id, put};
use crate::harness::{RUNTIME, eventually};

const ITEM: &str = "feed+rest://tidegate.test/Item/7";
const OTHER: &str = "feed+rest://tidegate.test/Item/8";
const TABLE: &str = "feed+rest://tidegate.test/Item";

/// Every entry may be trimmed at once.
const NO_FLOOR: [(&str, &str); 1] = [("--log-floor", "1ms")];

#[test]
fn field_case_a23_b_4_7_told_a_cursor_below_the_log_is_a_gap() {
    let stack = Stack::start_with(2, &NO_FLOOR, &[]);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    client.subscribe(OTHER);
    client.subscribe(TABLE);
    stack.put("Item/7", "{}");
    stream.update(TABLE);
    let last = stream.update(ITEM);
    stream.close();
    stack.put("Item/7", "{}");
    stack.put("Item/8", "{}");
    let oldest = stack.truth().compact();
    for gateway in &stack.gateways {
        let mut stream = client.on(gateway.application).resume(last);
        // Also what did not change, since nobody can know that any more.
        stream.gap(&[ITEM, OTHER, TABLE]);
        let written = stack.truth().commit(vec![put("Item", "8", "{}")]).head;
        assert!(written >= oldest);
        stream.update(TABLE);
        assert_eq!(stream.update(OTHER), event_id(written, RECORD_SLOT));
        stream.close();
    }
    assert_eq!(stack.truth().verify(), Vec::<String>::new());
}

#[test]
fn b_4_6_a_cursor_at_the_logs_beginning_misses_nothing() {
    let stack = Stack::start_with(2, &NO_FLOOR, &[]);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    let last = stream.update(ITEM);
    stream.close();
    // The stream's end is an entry too; where the log begins must not be above the cursor's next.
    let oldest = last / (1 << 16) + 1;
    stack.truth().compact_until(oldest - 1);
    let written = stack.truth().commit(vec![put("Item", "7", "{}")]).head;
    assert_eq!(stack.truth().status().oldest, oldest);
    for gateway in &stack.gateways {
        let mut stream = client.on(gateway.application).resume(last);
        assert_eq!(stream.update(ITEM), event_id(written, RECORD_SLOT));
        stream.opening();
        stream.close();
    }
}

#[test]
fn a_live_stream_notices_nothing_of_a_compaction() {
    let stack = Stack::start_with(2, &NO_FLOOR, &[]);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    for _ in 0..3 {
        stack.truth().compact();
        let written = stack.truth().commit(vec![put("Item", "7", "{}")]).head;
        assert_eq!(stream.update(ITEM), event_id(written, RECORD_SLOT));
    }
}

#[test]
fn a_gateway_that_comes_back_to_a_trimmed_log_goes_on() {
    let mut stack = Stack::start_with(1, &NO_FLOOR, &[]);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    let last = stream.update(ITEM);
    stack.gateways[0].kill();
    stack.truth().commit(vec![put("Item", "7", "{}")]);
    stack.truth().compact();
    stack.gateways[0].restart();
    let mut stream = client.resume(last);
    stream.gap(&[ITEM]);
    stack.gateways[0].wait_until_ready();
    stack.put("Item/7", "{}");
    stream.update(ITEM);
}

#[test]
fn old_entries_go_by_themselves_and_a_reader_below_is_told() {
    let stack = Stack::start_with(0, &[("--log-floor", "1ms"), ("--log-age", "1ms")], &[]);
    let truth = stack.truth();
    for _ in 0..3 {
        truth.commit(vec![put("Item", "7", "{}")]);
    }
    let status = eventually("the log is trimmed", || match truth.status() {
        status if status.oldest > status.head => Ok(status),
        status => Err(format!("{status:?}")),
    });
    assert_eq!(status.log_bytes, 0);
    let refused = RUNTIME.block_on(async {
        let address = format!("http://{}", stack.feed.address);
        let mut client = FeedClient::connect(address).await.expect("the service is there");
        client
            .watch(WatchRequest::default())
            .await
            .expect_err("its beginning is gone")
    });
    assert_eq!(refused.code(), Code::OutOfRange);
    let info = refused.get_details_error_info().expect("a reason");
    assert_eq!(info.reason, Reason::Compacted.as_str());
    assert_eq!(info.metadata["oldest"], (status.head + 1).to_string());
    assert_eq!(truth.verify(), Vec::<String>::new());
}
