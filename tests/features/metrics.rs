//! `/metrics` of the admin listener: every number moves when what it counts happens, and there are no others.

use std::collections::BTreeMap;

use serde_json::json;

use crate::harness::event_stream::EventStream;
use crate::harness::eventually;
use crate::harness::http::Request;
use crate::harness::http_sse::HttpSseClient;
use crate::harness::modern::Modern;
use crate::harness::stack::{Gateway, Stack};
use crate::harness::truth::put;
use crate::harness::wire::{Cut, Proxy};

const ITEM: &str = "feed+rest://tidegate.test/Item/7";

/// What a scrape shows, each once and from the beginning.
const NAMES: [&str; 25] = [
    r#"tidegate_fences_refused_total"#,
    r#"tidegate_folded_notices_total"#,
    r#"tidegate_head_revision"#,
    r#"tidegate_replayed_frames_total"#,
    r#"tidegate_resumes_total{outcome="buffer"}"#,
    r#"tidegate_resumes_total{outcome="gap"}"#,
    r#"tidegate_resumes_total{outcome="log"}"#,
    r#"tidegate_resumes_total{outcome="ring"}"#,
    r#"tidegate_ring_bytes"#,
    r#"tidegate_sessions"#,
    r#"tidegate_stream_ends_total{reason="cancelled"}"#,
    r#"tidegate_stream_ends_total{reason="client_left"}"#,
    r#"tidegate_stream_ends_total{reason="lost_history"}"#,
    r#"tidegate_stream_ends_total{reason="session_ended"}"#,
    r#"tidegate_stream_ends_total{reason="shutdown"}"#,
    r#"tidegate_stream_ends_total{reason="slow"}"#,
    r#"tidegate_stream_ends_total{reason="taken_over"}"#,
    r#"tidegate_stream_opens_total{transport="http_sse"}"#,
    r#"tidegate_stream_opens_total{transport="listen"}"#,
    r#"tidegate_stream_opens_total{transport="streamable_http"}"#,
    r#"tidegate_streams"#,
    r#"tidegate_subscriptions"#,
    r#"tidegate_takeovers_total"#,
    r#"tidegate_takeovers_with_pending_total"#,
    r#"tidegate_watch_live"#,
];

pub fn scrape(gateway: &Gateway) -> BTreeMap<String, u64> {
    let answer = Request::get("/metrics").send(gateway.admin);
    assert_eq!(answer.status, 200, "{answer:?}");
    let form = answer.header("content-type").unwrap_or_default();
    assert!(form.starts_with("text/plain; version=0.0.4"), "{form}");
    let text = answer.text();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a number");
            let value: f64 = value.parse().expect("a number");
            (name.to_owned(), value as u64)
        })
        .collect()
}

fn metric(gateway: &Gateway, name: &str) -> u64 {
    let metrics = scrape(gateway);
    *metrics
        .get(name)
        .unwrap_or_else(|| panic!("no {name} in {metrics:?}"))
}

/// Waits until a number is what it should be.
fn reaches(gateway: &Gateway, name: &str, expected: u64) {
    eventually(name, || match metric(gateway, name) {
        value if value == expected => Ok(()),
        value => Err(format!("{value} instead of {expected}")),
    });
}

/// Reads so many frames and the opening block behind them, whose id it returns.
fn opening_after(stream: &mut EventStream, count: usize) -> u64 {
    for _ in 0..count {
        stream.message();
    }
    stream.opening().number()
}

#[test]
fn a_scrape_shows_every_number_from_the_beginning_and_no_others() {
    let stack = Stack::start(1);
    let metrics = scrape(&stack.gateways[0]);
    let names: Vec<&str> = metrics.keys().map(String::as_str).collect();
    assert_eq!(names, NAMES, "the names, in their order");
    let risen: Vec<_> = metrics
        .iter()
        .filter(|(name, value)| name.contains("_total") && **value > 0)
        .collect();
    assert!(risen.is_empty(), "{risen:?}");
}

#[test]
fn gauges_say_what_is_there() {
    let mut stack = Stack::start(1);
    let gateway = &stack.gateways[0];
    let client = gateway.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    client.subscribe("feed+rest://tidegate.test/Item");
    stack.put("Item/7", "{}");
    stream.message();
    reaches(gateway, "tidegate_sessions", 1);
    reaches(gateway, "tidegate_streams", 1);
    reaches(gateway, "tidegate_subscriptions", 2);
    reaches(gateway, "tidegate_watch_live", 1);
    reaches(gateway, "tidegate_head_revision", stack.truth().status().head);
    assert!(metric(gateway, "tidegate_ring_bytes") > 0);
    stream.close();
    reaches(gateway, "tidegate_streams", 0);
    reaches(gateway, "tidegate_subscriptions", 0);
    stack.feed.kill();
    reaches(&stack.gateways[0], "tidegate_watch_live", 0);
}

#[test]
fn streams_are_counted_by_transport_and_by_why_they_ended() {
    let stack = Stack::start(1);
    let gateway = &stack.gateways[0];
    let client = gateway.client();

    let mut older = client.listen_opened();
    let mut newer = client.listen();
    older.ends();
    newer.opening();
    reaches(
        gateway,
        r#"tidegate_stream_opens_total{transport="streamable_http"}"#,
        2,
    );
    reaches(gateway, r#"tidegate_stream_ends_total{reason="taken_over"}"#, 1);
    reaches(gateway, "tidegate_takeovers_total", 1);
    reaches(gateway, "tidegate_takeovers_with_pending_total", 0);
    assert_eq!(client.delete().status, 204);
    newer.ends();
    reaches(
        gateway,
        r#"tidegate_stream_ends_total{reason="session_ended"}"#,
        1,
    );

    let older_transport = HttpSseClient::open(gateway.application);
    reaches(gateway, r#"tidegate_stream_opens_total{transport="http_sse"}"#, 1);
    drop(older_transport);
    reaches(gateway, r#"tidegate_stream_ends_total{reason="client_left"}"#, 1);

    let listening = Modern::at(gateway.application).listen(&[ITEM]);
    reaches(gateway, r#"tidegate_stream_opens_total{transport="listen"}"#, 1);
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 1, "_meta": crate::harness::modern::meta()},
    });
    let answer = Request::mcp(cancelled.to_string())
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "notifications/cancelled")
        .send(gateway.application);
    assert_eq!(answer.status, 202, "{answer:?}");
    listening.ends();
    reaches(gateway, r#"tidegate_stream_ends_total{reason="cancelled"}"#, 1);
}

#[test]
fn resumes_are_counted_by_where_what_was_missed_came_from() {
    let mut stack = Stack::start_with(2, &[], &[("--set", "replay.catch_up=20")]);
    let client = stack.client();
    let stream = client.listen_opened();
    client.subscribe(ITEM);
    let last = stream.last_id.expect("an opening block");
    let uris: Vec<String> = (0..3)
        .map(|key| format!("feed+rest://tidegate.test/Item/{key}"))
        .collect();
    uris.iter().for_each(|uri| client.subscribe(uri));
    stream.close();
    let missed = |stack: &Stack, count: usize| {
        let puts = (0..count).map(|number| put("Item", &(number % 3).to_string(), "{}"));
        stack.truth().commit(puts.collect());
    };

    // Where its stream was before.
    missed(&stack, 6);
    let mut stream = client.resume(last);
    let last = opening_after(&mut stream, 6);
    reaches(
        &stack.gateways[0],
        r#"tidegate_resumes_total{outcome="buffer"}"#,
        1,
    );
    reaches(&stack.gateways[0], "tidegate_replayed_frames_total", 6);
    stream.close();

    // On another instance, which has it in its ring.
    missed(&stack, 3);
    let elsewhere = client.on(stack.gateways[1].application);
    let mut stream = elsewhere.resume(last);
    let last = opening_after(&mut stream, 3);
    reaches(&stack.gateways[1], r#"tidegate_resumes_total{outcome="ring"}"#, 1);
    reaches(&stack.gateways[1], "tidegate_replayed_frames_total", 3);
    stream.close();

    // On one that began later, from the log; and so much that it is folded.
    missed(&stack, 60);
    stack.gateways[1].kill();
    stack.gateways[1].restart();
    stack.gateways[1].wait_until_ready();
    let elsewhere = client.on(stack.gateways[1].application);
    let mut stream = elsewhere.resume(last);
    let last = opening_after(&mut stream, 3);
    reaches(&stack.gateways[1], r#"tidegate_resumes_total{outcome="log"}"#, 1);
    reaches(&stack.gateways[1], "tidegate_folded_notices_total", 3);
    stream.close();
    reaches(&stack.gateways[1], "tidegate_streams", 0);

    // From a ring, folded too.
    missed(&stack, 60);
    let mut stream = elsewhere.resume(last);
    opening_after(&mut stream, 3);
    reaches(&stack.gateways[1], "tidegate_folded_notices_total", 6);
    stream.close();

    // Without a cursor.
    let mut stream = elsewhere.listen();
    stream.gap(&[ITEM, &uris[0], &uris[1], &uris[2]]);
    reaches(&stack.gateways[1], r#"tidegate_resumes_total{outcome="gap"}"#, 1);
}

#[test]
fn a_takeover_with_frames_that_were_not_written_is_counted() {
    let stack = Stack::start_with(1, &[], &[("--write-timeout", "1h")]);
    let gateway = &stack.gateways[0];
    let client = stack.client();
    let stalled = client.listen_opened();
    // Long, so that few of them fill the buffers of the connection.
    let key = "k".repeat(400);
    client.subscribe(&format!("feed+rest://tidegate.test/Item/{key}"));
    let truth = stack.truth();
    for _ in 0..20 {
        truth.commit((0..500).map(|_| put("Item", &key, "{}")).collect());
    }
    reaches(gateway, "tidegate_head_revision", truth.status().head);
    let _newer = client.listen();
    reaches(gateway, "tidegate_takeovers_with_pending_total", 1);
    drop(stalled);
}

#[test]
fn a_late_write_of_an_old_owner_is_counted_where_it_was_refused() {
    let stack = Stack::start(1);
    let wire = Proxy::to(stack.feed.address);
    let old = Gateway::start(wire.address);
    old.wait_until_ready();
    let client = old.client();
    let stream = client.listen_opened();
    // It hears nothing any more, not even that its stream was taken over, and cannot say that its client left.
    wire.set(|weather| weather.refuses = true);
    wire.cut(Cut::Reset);
    let elsewhere = client.on(stack.gateways[0].application);
    stream.close();
    reaches(&old, "tidegate_streams", 0);
    let mut newer = elsewhere.listen();
    newer.opening();
    wire.set(|weather| weather.refuses = false);
    reaches(&old, "tidegate_fences_refused_total", 1);
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    newer.update(ITEM);
}
