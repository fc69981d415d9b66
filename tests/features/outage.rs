//! The feed service goes away and comes back: streams stay open, nothing is lost, requests say what is the matter.

use std::time::{Duration, Instant};

use serde_json::json;

use proto::feed::v1::{Entry, entry::Body, session_command::Command};
use rustix::process::Signal;

use crate::harness::event_stream::{EventStream, Next};
use crate::harness::frames::{HEADERS, RST_STREAM};
use crate::harness::http::Connection;
use crate::harness::mcp::Client;
use crate::harness::modern::{Listening, Modern, cursor_id, request};
use crate::harness::stack::{Gateway, Stack};
use crate::harness::truth::{RECORD_SLOT, event_id, put};
use crate::harness::wire::{Cut, Proxy};
use crate::harness::{PATIENCE, eventually};

const ITEM: &str = "feed+rest://tidegate.test/Item/7";

fn is_open_of(entry: &Entry, session: &str) -> bool {
    match &entry.body {
        Some(Body::Session(command)) => {
            command.session_id == session && matches!(command.command, Some(Command::Opened(_)))
        }
        _ => false,
    }
}

#[test]
fn field_case_a23_a_write_after_the_feed_services_crash_arrives_on_the_same_stream() {
    let mut stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    stack.put("Item/7", r#"{"name":"before"}"#);
    stream.update(ITEM);

    for round in 0..3 {
        stack.feed.kill();
        stack.feed.restart();
        let record = format!(r#"{{"id":"7","name":"round {round}"}}"#);
        stack.truth().commit(vec![put("Item", "7", &record)]);
        let id = stream.update(ITEM);
        assert_eq!(id, event_id(stack.truth().newest("Item", "7"), RECORD_SLOT));
        stack.gateways[0].wait_until_ready();
        assert_eq!(client.read(ITEM), record);
    }
}

#[test]
fn b_2_8_while_the_feed_service_is_away_requests_say_so_and_the_session_stays() {
    let mut stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    stack.feed.kill();

    let begin = Instant::now();
    let answer = client.send(&client.call("resources/read", &json!({"uri": ITEM})));
    assert!(begin.elapsed() < PATIENCE / 2, "at once, not after a time-out");
    assert_eq!((answer.status, answer.error_code()), (503, -32603), "{answer:?}");
    assert_eq!(answer.error_message(), "feed service unavailable");
    assert!(
        answer
            .header("retry-after")
            .is_some_and(|seconds| seconds.parse::<u32>().is_ok()),
        "{answer:?}"
    );
    let reason = eventually("not ready", || match stack.gateways[0].readiness() {
        answer if answer.status == 503 => Ok(answer.text()),
        answer => Err(format!("{answer:?}")),
    });
    assert!(reason.trim().len() > 10, "says why: {reason:?}");

    stack.feed.restart();
    stack.gateways[0].wait_until_ready();
    stack.put("Item/7", "{}");
    stream.update(ITEM);
}

#[test]
fn b_2_8_a_get_of_a_known_session_is_served_while_the_feed_service_is_away() {
    let mut stack = Stack::start(1);
    let client = stack.client();
    client.listen_opened().close();
    stack.feed.kill();

    let (head, body) = client.get(None).open(client.address);
    assert_eq!(head.status, 200, "{head:?}");
    stack.feed.restart();
    let mut stream = EventStream::new((head, body), None);
    stream.opening();
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    stream.update(ITEM);
}

#[test]
fn b_2_8_a_get_of_a_session_from_elsewhere_is_held_until_the_feed_service_is_back() {
    let mut stack = Stack::start(2);
    let client = stack.client();
    client.listen_opened().close();
    stack.feed.kill();

    let elsewhere = client.on(stack.gateways[1].application);
    let mut connection = elsewhere.connect();
    connection.write(&elsewhere.get(None));
    stack.feed.restart();
    let mut stream = EventStream::new(connection.read_head("GET", Duration::from_secs(60)), None);
    stream.opening();
    elsewhere.subscribe(ITEM);
    stack.put("Item/7", "{}");
    stream.update(ITEM);
}

#[test]
fn b_2_8_a_get_that_was_held_for_its_time_is_503_and_the_session_stays() {
    let mut stack = Stack::start(1);
    // Nothing else ends a call that is not answered.
    let patient = [
        ("TIDEGATE_FEED__CALL_TIMEOUT", "1h"),
        ("TIDEGATE_FEED__KEEP_ALIVE_TIMEOUT", "1h"),
    ];
    let gateway = Gateway::start_in(&patient, stack.feed.address, &[("--open-wait", "500ms")]);
    gateway.wait_until_ready();
    let elsewhere = stack.client().on(gateway.application);
    // Away, and there but silent: both are held, and no longer than that.
    type Break = fn(&mut Stack);
    let outages: [(Break, Break); 2] = [
        (|stack| stack.feed.kill(), |stack| stack.feed.restart()),
        (
            |stack| stack.feed.service().pause(),
            |stack| stack.feed.service().resume(),
        ),
    ];
    for (begin, end) in outages {
        begin(&mut stack);
        let asked = Instant::now();
        let answer = elsewhere.send(&elsewhere.get(None));
        assert!(asked.elapsed() >= Duration::from_millis(500), "held first");
        assert_eq!((answer.status, answer.error_code()), (503, -32603), "{answer:?}");
        assert_eq!(answer.error_message(), "feed service unavailable");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        end(&mut stack);
    }
    gateway.wait_until_ready();
    elsewhere.listen_opened();
}

#[test]
fn a_gateway_that_starts_before_the_feed_service_works_as_soon_as_it_is_there() {
    let mut stack = Stack::start(0);
    stack.feed.kill();
    let gateway = Gateway::start(stack.feed.address);
    let answer = gateway.readiness();
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(!answer.text().trim().is_empty(), "says why");

    stack.feed.restart();
    gateway.wait_until_ready();
    let client = gateway.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    gateway.put("Item/7", "{}");
    stream.update(ITEM);
}

/// Breaks the wire between the feed service and a gateway, writes meanwhile, mends it, and expects each write's notice.
fn check_wire(break_it: impl Fn(&Proxy), mend: impl Fn(&Proxy)) {
    let stack = Stack::start(1);
    let proxy = Proxy::to(stack.feed.address);
    let gateway = Gateway::start(proxy.address);
    gateway.wait_until_ready();
    let client = gateway.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    for round in 0..3 {
        break_it(&proxy);
        let written = stack.truth().commit(vec![
            put("Item", "7", "{}"),
            put("Item", "8", "{}"),
            put("Item", "7", "{}"),
        ]);
        mend(&proxy);
        for result in [0, 2] {
            let id = event_id(written.results[result].revision, RECORD_SLOT);
            assert_eq!(stream.update(ITEM), id, "round {round}");
        }
    }
}

#[test]
fn reliable_a_watch_that_was_reset_goes_on_where_it_was() {
    check_wire(|proxy| proxy.cut(Cut::Reset), |_| {});
}

#[test]
fn reliable_a_watch_that_was_ended_goes_on_where_it_was() {
    check_wire(|proxy| proxy.cut(Cut::End), |_| {});
}

#[test]
fn reliable_a_watch_that_was_stalled_and_then_cut_goes_on_where_it_was() {
    check_wire(
        |proxy| proxy.set(|weather| weather.stalled_down = true),
        |proxy| {
            proxy.cut(Cut::Reset);
            proxy.set(|weather| weather.stalled_down = false);
        },
    );
}

#[test]
fn reliable_a_feed_service_that_refuses_for_a_while_is_found_again() {
    check_wire(
        |proxy| {
            proxy.set(|weather| weather.refuses = true);
            proxy.cut(Cut::Reset);
        },
        |proxy| proxy.set(|weather| weather.refuses = false),
    );
}

#[test]
fn a_client_that_left_while_the_feed_service_was_away_takes_nothing_over() {
    let mut stack = Stack::start(2);
    let clients: Vec<Client> = (0..12).map(|_| stack.client()).collect();
    let elsewhere: Vec<Client> = clients
        .iter()
        .map(|client| client.on(stack.gateways[1].application))
        .collect();
    for client in &elsewhere {
        client.result("ping", json!({}));
    }
    stack.feed.kill();
    // Each asks one gateway for its stream, gives up, and asks the other one.
    for client in &clients {
        client.listen().close();
    }
    let mut streams: Vec<EventStream> = elsewhere.iter().map(Client::listen).collect();
    stack.feed.restart();
    for (client, stream) in elsewhere.iter().zip(&mut streams) {
        stream.opening();
        client.subscribe(ITEM);
    }
    // Long enough for those that left to have come back, if they did.
    for round in 0..5 {
        stack.put("Item/7", &format!(r#"{{"name":"round {round}"}}"#));
        for stream in &mut streams {
            stream.update(ITEM);
        }
    }
    let opens = |session: &str| {
        let log = stack.truth().log();
        log.iter().filter(|entry| is_open_of(entry, session)).count()
    };
    for client in &clients {
        assert_eq!(opens(&client.session), 1, "one open for the stream that is read");
    }
}

#[test]
fn b_2_8_a_get_that_is_held_is_answered_when_the_gateway_ends() {
    let mut stack = Stack::start(2);
    let client = stack.client().on(stack.gateways[1].application);
    stack.feed.kill();
    let mut connection = client.connect();
    connection.write(&client.get(None));
    // The request is there once a later one on another connection was answered.
    client.send(&client.call("ping", &json!({})));
    stack.gateways[1].service.end_by(Signal::TERM);
    let answer = connection.read("GET");
    assert_eq!((answer.status, answer.error_code()), (503, -32603), "{answer:?}");
}

#[test]
fn b_4_7_resumable_a_cursor_ahead_of_an_instance_that_is_merely_behind_waits() {
    let stack = Stack::start(1);
    let proxy = Proxy::to(stack.feed.address);
    // The watch must not find out that it is held up.
    let patient = [("TIDEGATE_FEED__KEEP_ALIVE_TIMEOUT", "1h")];
    let behind = Gateway::start_in(&patient, proxy.address, &[]);
    behind.wait_until_ready();
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    let modern = Modern::at(client.address);
    let uri = modern.uri("Item/7");
    let mut listening = modern.listen(&[&uri]);

    // Calls pass: the watch has a connection of its own, which is the first.
    proxy.set(|weather| weather.stalled_down_on_first = true);
    stack.put("Item/7", "{}");
    let cursor = stream.update(ITEM);
    listening.updated();
    let missed: Vec<u64> = (0..2)
        .map(|_| {
            stack.put("Item/7", "{}");
            event_id(stack.truth().newest("Item", "7"), RECORD_SLOT)
        })
        .collect();
    let owner = |client: &Client| {
        let session = stack.truth().session(&client.session);
        session.map(|session| session.owner_instance).unwrap_or_default()
    };
    let before = owner(&client);
    let mut resumed = client.on(behind.application).resume(cursor);
    let mut connection = Connection::open(behind.application);
    let filter = json!({"resourceSubscriptions": [uri]});
    connection.write(&modern.request(&json!(1), filter, Some(&listening.cursor)));
    eventually("the stream is the other instance's", || match owner(&client) {
        now if now != before && !now.is_empty() => Ok(()),
        now => Err(now),
    });
    assert_eq!(behind.readiness().status, 200, "as far as it knows all is well");
    loop {
        match resumed.next_within(Duration::from_millis(300)) {
            Next::Comment => {}
            Next::Late => break,
            other => panic!("told before it can know: {other:?}"),
        }
    }

    proxy.set(|weather| weather.stalled_down_on_first = false);
    for id in &missed {
        assert_eq!(resumed.update(ITEM), *id);
    }
    resumed.opening();
    let answer = connection.read_head("POST", PATIENCE);
    let mut listening = Listening::of(EventStream::of_listen(answer), json!(1));
    assert!(listening.resumed);
    for id in &missed {
        assert!(listening.updated().ends_with("/Item/7"));
        assert_eq!(cursor_id(&listening.cursor), *id);
    }
    // And both are live.
    stack.put("Item/7", "{}");
    let newest = event_id(stack.truth().newest("Item", "7"), RECORD_SLOT);
    assert_eq!(resumed.update(ITEM), newest);
    listening.updated();
    assert_eq!(cursor_id(&listening.cursor), newest);
}

#[test]
fn b_6_9_closing_the_connection_of_a_modern_request_cancels_its_call() {
    let stack = Stack::start(1);
    let proxy = Proxy::to(stack.feed.address);
    let patient = [("TIDEGATE_FEED__KEEP_ALIVE_TIMEOUT", "1h")];
    let gateway = Gateway::start_in(&patient, proxy.address, &[]);
    gateway.wait_until_ready();
    // Reads never end from now on.
    proxy.set(|weather| weather.stalled_down = true);
    let sent = |kind| proxy.frames_up.of(kind);
    let (calls, broken_off) = (sent(HEADERS), sent(RST_STREAM));
    let mut connections: Vec<Connection> = (0..3).map(|_| Connection::open(gateway.application)).collect();
    for connection in &mut connections {
        connection.write(&request(&json!(1), "resources/read", json!({"uri": ITEM})));
    }
    let reaches = |what: &str, kind, count| {
        eventually(what, || match sent(kind) {
            now if now == count => Ok(()),
            now => Err(format!("{now} of {count}")),
        });
    };
    reaches("each has its call", HEADERS, calls + 3);
    assert_eq!(sent(RST_STREAM), broken_off, "and goes on with it");
    drop(connections.pop());
    reaches("the call of who left is cancelled", RST_STREAM, broken_off + 1);
    drop(connections);
    reaches("the others were not", RST_STREAM, broken_off + 3);
}
