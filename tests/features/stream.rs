//! B-4.1 to B-4.4, B-4.11: one stream per session, its ids, its opening block, and who takes it over.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::event_stream::{EventStream, Next};
use crate::harness::mcp::Client;
use crate::harness::stack::Stack;
use crate::harness::truth::{OPENING_SLOT, RECORD_SLOT, event_id};

const ITEM: &str = "feed+rest://tidegate.test/Item/7";

/// A newer GET, on the same instance or another, ends the older stream and carries on: nothing missed, nothing twice.
fn check_takeover(second_gateway: usize) {
    let stack = Stack::start(2);
    let client = stack.client();
    let mut first = client.listen_opened();
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    let last = first.update(ITEM);
    stack.put("Item/7", "{}");
    let unread = event_id(stack.truth().newest("Item", "7"), RECORD_SLOT);

    // The client has read only the first; the older stream is still open.
    let mut second = client.on(stack.gateways[second_gateway].application).resume(last);
    assert_eq!(second.update(ITEM), unread, "the missed one first");
    second.opening();
    stack.put("Item/7", "{}");
    let newest = event_id(stack.truth().newest("Item", "7"), RECORD_SLOT);
    assert_eq!(second.update(ITEM), newest);
    let left: Vec<u64> = first.ends().iter().map(|frame| frame.number()).collect();
    assert!(
        left.iter().all(|id| *id == unread),
        "the older stream ends without what came after: {left:?}"
    );
}

#[test]
fn field_case_a01_b_4_1_a_newer_get_takes_over_on_the_same_instance() {
    check_takeover(0);
}

#[test]
fn field_case_a01_b_4_1_a_newer_get_takes_over_on_another_instance() {
    check_takeover(1);
}

#[test]
fn field_case_a01_a_get_is_served_at_once_while_a_dead_stream_is_still_open() {
    let stack = Stack::start(1);
    let client = stack.client();
    let _unread = client.listen();
    let begin = Instant::now();
    let mut second = client.listen_opened();
    // A second would do; the bound leaves room for a busy machine, and is far below any time-out of the older one.
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    second.update(ITEM);
}

#[test]
fn b_4_1_a_stopped_owner_that_wakes_up_writes_nothing_more() {
    let stack = Stack::start(2);
    let client = stack.client();
    let mut first = client.listen_opened();
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    let last = first.update(ITEM);

    stack.gateways[0].service.pause();
    let mut second = client.on(stack.gateways[1].application).resume(last);
    second.opening();
    stack.put("Item/7", "{}");
    second.update(ITEM);
    stack.gateways[0].service.resume();
    assert_eq!(first.ends(), []);
    stack.put("Item/7", "{}");
    second.update(ITEM);
}

#[test]
fn b_4_2_ids_rise_across_reconnects_and_instances() {
    let stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    for round in 0..6 {
        stack.put("Item/7", "{}");
        // The reader refuses an id that does not rise, also above the one that it resumed from.
        let last = stream.update(ITEM);
        stream.close();
        stream = client.on(stack.gateways[round % 2].application).resume(last);
        assert!(stream.opening().number() > last);
    }
}

#[test]
fn b_4_2_what_some_clients_take_for_a_line_end_is_escaped() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    for (spelling, path) in [
        ("feed+rest://tidegate.test/Item/a%E2%80%A8b", "Item/a%E2%80%A8b"),
        (
            "feed+rest://tidegate.test/Item/c\u{2028}d\u{2029}",
            "Item/c%E2%80%A8d%E2%80%A9",
        ),
    ] {
        // The second spelling may be refused, since a URI has no such character; then there is nothing to escape.
        let answer = client.send(&client.call("resources/subscribe", &json!({"uri": spelling})));
        if answer.json().get("result").is_some() {
            stack.put(path, "{}");
            // The reader refuses such characters in the bytes.
            stream.update(spelling);
        }
    }
}

#[test]
fn b_4_3_a_change_has_the_same_id_for_every_session_on_every_instance() {
    let stack = Stack::start(2);
    let mut streams: Vec<_> = (0..4)
        .map(|index| {
            let client = stack.client().on(stack.gateways[index % 2].application);
            let stream = client.listen_opened();
            client.subscribe(ITEM);
            stream
        })
        .collect();
    stack.put("Item/7", "{}");
    let expected = event_id(stack.truth().newest("Item", "7"), RECORD_SLOT);
    for stream in &mut streams {
        assert_eq!(stream.update(ITEM), expected);
    }
}

#[test]
fn b_4_4_every_open_of_2025_11_25_has_an_opening_block_at_its_own_log_entry() {
    let stack = Stack::start(1);
    let client = stack.client();
    for _ in 0..3 {
        let mut stream = client.listen();
        let block = stream.frame();
        assert_eq!(
            block.number(),
            event_id(stack.truth().newest_open(&client.session), OPENING_SLOT),
            "{block:?}"
        );
        assert_eq!(block.data.as_deref(), Some(""), "{block:?}");
        assert_eq!(block.event, None, "{block:?}");
        assert!(block.retry.is_some(), "{block:?}");
        stream.close();
    }
}

#[test]
fn b_4_4_older_versions_get_no_event_with_empty_data_and_retry_with_their_first_frame() {
    let stack = Stack::start(1);
    for version in ["2025-06-18", "2025-03-26", "2024-11-05"] {
        let client = Client::initialize(stack.gateways[0].application, version);
        let mut stream = client.listen();
        client.subscribe(ITEM);
        stack.put("Item/7", "{}");
        let first = stream.frame();
        assert_eq!(first.updated_uri().as_deref(), Some(ITEM), "{version}: {first:?}");
        assert!(first.retry.is_some(), "{version}: {first:?}");
        stack.put("Item/7", "{}");
        let second = stream.frame();
        assert_eq!(
            second.updated_uri().as_deref(),
            Some(ITEM),
            "{version}: {second:?}"
        );
        assert_eq!(second.retry, None, "{version}: once");
    }
}

#[test]
fn field_case_a04_b_4_4_retry_is_not_the_same_for_all() {
    let stack = Stack::start(1);
    let retries: HashSet<u64> = (0..20)
        .filter_map(|_| stack.client().listen().opening().retry)
        .collect();
    assert!(retries.len() > 5, "{retries:?}");
}

#[test]
fn field_case_a04_unique_every_id_of_a_session_is_another() {
    let stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen();
    let mut ids = vec![stream.opening().number()];
    client.subscribe(ITEM);
    for round in 0..4 {
        for _ in 0..2 {
            stack.put("Item/7", "{}");
            ids.push(stream.update(ITEM));
        }
        stream.close();
        stream = client
            .on(stack.gateways[round % 2].application)
            .resume(*ids.last().unwrap());
        ids.push(stream.opening().number());
    }
    let distinct: HashSet<&u64> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "{ids:?}");

    // From the first opening block everything comes again, once; older blocks are no news.
    stream.close();
    let mut again = client.resume(ids[0]);
    let updates = ids.iter().filter(|id| **id & 0xffff == RECORD_SLOT);
    for id in updates {
        assert_eq!(again.update(ITEM), *id);
    }
    again.opening();
}

#[test]
fn b_4_11_clients_that_flap_on_one_session_are_slowed_down() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut streams = vec![client.listen_opened()];
    for _ in 0..5 {
        // Each takes over from the one before, which is still open.
        streams.push(client.listen_opened());
    }
    let begin = Instant::now();
    // The sixth take-over may still be served at once, the next one not.
    for _ in 0..2 {
        streams.push(client.listen_opened());
    }
    assert!(
        begin.elapsed() >= Duration::from_secs(4),
        "held for {:?}",
        begin.elapsed()
    );
    // And it works again.
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    streams.pop().unwrap().update(ITEM);
}

#[test]
fn b_4_1_two_gets_at_once_leave_one_stream_and_it_lives() {
    let stack = Stack::start(2);
    let client = stack.client();
    let mut connections: Vec<_> = stack
        .gateways
        .iter()
        .map(|gateway| client.on(gateway.application))
        .map(|client| (client.connect(), client))
        .collect();
    for (connection, client) in &mut connections {
        connection.write(&client.get(None));
    }
    let mut streams: Vec<_> = connections
        .iter_mut()
        .map(|(connection, _)| connection.read_head("GET", Duration::from_secs(20)))
        .map(|answer| EventStream::new(answer, None))
        .collect();
    // Both are opened, one after the other; the earlier one may be over before it got its opening block.
    for stream in &mut streams {
        loop {
            match stream.next_within(Duration::from_secs(20)) {
                Next::Comment => {}
                Next::Frame(_) | Next::End => break,
                other => panic!("{other:?}"),
            }
        }
    }
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    let mut living = 0;
    for stream in &mut streams {
        loop {
            match stream.next_within(Duration::from_secs(20)) {
                Next::Frame(frame) if frame.is_position() => {}
                Next::Frame(frame) => {
                    assert_eq!(frame.updated_uri().as_deref(), Some(ITEM));
                    living += 1;
                    break;
                }
                Next::Comment => {}
                Next::End => break,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(living, 1);
}
