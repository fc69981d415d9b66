//! B-2.8: internal failures, as the client sees them and as the log tells them.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::http::{Answer, Request};
use crate::harness::modern::{self, Modern};
use crate::harness::stack::Stack;
use crate::harness::truth::put;

const PAGE_BYTES: usize = 4096;

/// Fills some pages of the table.
const RECORDS: usize = 200;

/// A record whose page is damaged; the first of the table, at which rights are asked for too.
const DAMAGED: &str = "feed+rest://tidegate.test/Item/0";

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const OTHER_TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Damages the pages that hold the first record, while the feed service does not run.
fn damage(stack: &mut Stack) {
    let record = |number: usize| format!(r#"{{"id":"{number}","name":"needle-{number:04}"}}"#);
    // In the midst of the others, so that in the log neither the beginning nor the end is damaged.
    let numbers = (1..RECORDS / 2).chain([0]).chain(RECORDS / 2..RECORDS);
    let records = numbers.map(|number| put("Item", &number.to_string(), &record(number)));
    stack.truth().commit(records.collect());
    assert!(stack.feed.service().end_by(Signal::TERM).status.success());
    let file = stack.feed.data().join("feed.sqlite");
    // Frames of the write-ahead log have checksums of their own; pages of the database have none.
    let database = rusqlite::Connection::open(&file).expect("a database");
    let checkpoint = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    checkpoint.expect("everything is in the database file");
    drop(database);
    let mut pages = std::fs::read(&file).expect("the database");
    let needle = b"needle-0000";
    for page in pages.chunks_mut(PAGE_BYTES) {
        if page.windows(needle.len()).any(|window| window == needle) {
            page.fill(0);
        }
    }
    std::fs::write(&file, pages).expect("the damage is done");
    stack.feed.restart();
    stack
        .gateways
        .iter()
        .for_each(|gateway| gateway.wait_until_ready());
}

/// Checks an answer and that the log has its trace with the cause; returns the trace.
fn check(stack: &Stack, answer: &Answer, status: u16, message: &str) -> String {
    assert_eq!(
        (answer.status, answer.error_code()),
        (status, -32603),
        "{answer:?}"
    );
    assert_eq!(answer.error_message(), message, "{answer:?}");
    let data = answer.json()["error"]["data"].clone();
    let trace = data["traceId"]
        .as_str()
        .unwrap_or_else(|| panic!("no trace: {answer:?}"));
    assert_eq!(data, json!({"traceId": trace}), "nothing besides it");
    assert!(
        trace.len() == 32
            && trace
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
        "{trace:?}"
    );
    let line = stack.gateways[0].service.wait_for_error(trace);
    assert!(line.contains("the feed service refused a call"), "{line}");
    trace.to_owned()
}

#[test]
fn b_2_8_an_internal_failure_is_a_fixed_text_with_the_trace_by_which_the_log_tells_the_cause() {
    let mut stack = Stack::start(1);
    damage(&mut stack);
    let client = stack.client();
    let _stream = client.listen_opened();
    let named = |request: Request, traceparent: &str| request.header("traceparent", traceparent);

    // The legacy era: 200, since the id could be read.
    let read = || client.call("resources/read", &json!({"uri": DAMAGED}));
    let answer = client.send(&named(read(), TRACEPARENT));
    assert_eq!(check(&stack, &answer, 200, "internal error"), TRACE);
    let params = json!({"uri": DAMAGED, "_meta": {"traceparent": OTHER_TRACEPARENT}});
    let subscribe = client.call("resources/subscribe", &params);
    let answer = client.send(&named(subscribe, TRACEPARENT));
    let message = format!("failed to subscribe: {DAMAGED}");
    assert_eq!(
        check(&stack, &answer, 200, &message),
        OTHER_TRACE,
        "what the message says itself is nearer"
    );
    let mut own = Vec::new();
    for dropped in ["", "nonsense", &TRACEPARENT.to_uppercase()] {
        let answer = client.send(&named(read(), dropped));
        own.push(check(&stack, &answer, 200, "internal error"));
    }

    // The modern era: 500.
    let modern = Modern::at(client.address);
    let read = |meta: Value| {
        modern::request(
            &json!(1),
            "resources/read",
            json!({"uri": DAMAGED, "_meta": meta}),
        )
    };
    let meta = modern::meta();
    let answer = named(read(meta.clone()), OTHER_TRACEPARENT).send(modern.address);
    assert_eq!(check(&stack, &answer, 500, "internal error"), OTHER_TRACE);
    let mut traced = meta.clone();
    traced["traceparent"] = TRACEPARENT.into();
    let answer = named(read(traced), OTHER_TRACEPARENT).send(modern.address);
    assert_eq!(check(&stack, &answer, 500, "internal error"), TRACE);
    own.push(check(
        &stack,
        &read(meta).send(modern.address),
        500,
        "internal error",
    ));

    // And by REST.
    let answer = named(Request::get("/Item/0"), TRACEPARENT).send(modern.address);
    assert_eq!(answer.status, 500, "{answer:?}");
    let expected = json!({
        "title": "Internal Server Error", "status": 500, "detail": "internal error", "traceId": TRACE,
    });
    let problem: Value = serde_json::from_str(&answer.text()).expect("JSON");
    assert_eq!(problem, expected);

    let count = own.len();
    own.sort();
    own.dedup();
    assert_eq!(own.len(), count, "each request has a trace of its own");
}
