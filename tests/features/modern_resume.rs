//! B-6.7: the resume extension. A cursor goes on anywhere with exactly what was missed.

use serde_json::json;

use crate::harness::modern::{Modern, cursor_id};
use crate::harness::stack::Stack;
use crate::harness::truth::{RECORD_SLOT, event_id, put};

/// The part of a URI that is the same on every instance.
fn path(uri: &str) -> &str {
    uri.splitn(4, '/').nth(3).unwrap_or_default()
}

#[test]
fn b_6_7_resumable_read_at_a_cursor_and_listen_from_it_without_a_gap() {
    let stack = Stack::start(2);
    let [here, there] = [0, 1].map(|index| Modern::at(stack.gateways[index].application));
    stack.put("Item/7", r#"{"name":"a"}"#);
    for uri in [here.uri("Item/7"), here.uri("Item")] {
        let (_, cursor) = here.read(&uri);
        let revisions: Vec<u64> = (0..3)
            .map(|_| {
                stack.put("Item/7", r#"{"name":"b"}"#);
                stack.truth().newest("Item", "7")
            })
            .collect();
        let mut listening = there.resume(&[&uri], &cursor);
        assert!(listening.resumed, "{uri}");
        assert_eq!(
            listening.cursor, cursor,
            "a break behind the acknowledgement loses nothing"
        );
        for revision in revisions {
            assert_eq!(path(&listening.updated()), path(&uri));
            assert_eq!(cursor_id(&listening.cursor) >> 16, revision);
        }
        listening.close();
    }
    // What a session's client read goes on as well.
    let read = stack
        .client()
        .result("resources/read", json!({"uri": here.uri("Item/7")}));
    let cursor = read["_meta"]["dev.tidegate/cursor"]
        .as_str()
        .expect("a cursor")
        .to_owned();
    stack.put("Item/7", "{}");
    let mut listening = here.resume(&[&here.uri("Item/7")], &cursor);
    assert!(listening.resumed);
    listening.updated();
}

#[test]
fn b_6_7_bookmarkable_a_quiet_listen_that_is_opened_anew_has_its_cursor_moved_on() {
    let stack = Stack::start(2);
    let [here, there] = [0, 1].map(|index| Modern::at(stack.gateways[index].application));
    let uri = here.uri("Item/7");
    let uris = [uri.as_str()];
    let mut quiet = here.listen(&uris);
    let truth = stack.truth();
    truth.commit((0..10).map(|_| put("Item", "8", "{}")).collect());
    let elsewhere = truth.newest("Item", "8");
    assert!(
        cursor_id(&quiet.cursor) >> 16 < elsewhere,
        "nothing was told of it"
    );
    for modern in [there, here] {
        let before = cursor_id(&quiet.cursor);
        quiet = modern.resume(&uris, &quiet.cursor);
        assert!(quiet.resumed);
        let now = cursor_id(&quiet.cursor);
        assert!(now >= before && now >> 16 >= elsewhere, "{before} {now}");
    }
    // From there on nothing is missed, whether it came before the break or behind it.
    let cursor = quiet.cursor.clone();
    let mut missed = Vec::new();
    for _ in 0..2 {
        truth.commit(vec![put("Item", "7", "{}")]);
        missed.push(event_id(truth.newest("Item", "7"), RECORD_SLOT));
    }
    let mut again = there.resume(&uris, &cursor);
    assert_eq!(again.cursor, cursor, "not moved on, since something was missed");
    for id in missed {
        for listening in [&mut quiet, &mut again] {
            listening.updated();
            assert_eq!(cursor_id(&listening.cursor), id);
        }
    }
}

#[test]
fn b_6_7_resumable_on_another_instance_after_a_crash_with_exactly_what_was_missed() {
    let mut stack = Stack::start(2);
    let here = Modern::at(stack.gateways[0].application);
    let there = Modern::at(stack.gateways[1].application);
    let mut listening = here.listen(&[&here.uri("Item/7"), &here.uri("Item/8")]);
    let truth = stack.truth();
    truth.commit(vec![put("Item", "7", "{}")]);
    listening.updated();
    let cursor = listening.cursor.clone();
    stack.gateways[0].kill();
    // Within one commit, and records that are not listened to in between.
    truth.commit(vec![
        put("Item", "7", "{}"),
        put("Item", "9", "{}"),
        put("Item", "8", "{}"),
        put("Item", "7", "{}"),
    ]);
    stack.feed.kill();
    stack.feed.restart();
    stack.gateways[1].wait_until_ready();
    truth.commit(vec![put("Item", "8", "{}")]);
    let changes = |key: &str| {
        truth
            .changes("Item", Some(key))
            .into_iter()
            .map(|(revision, _)| revision)
    };
    let mut expected: Vec<u64> = changes("7")
        .skip(1)
        .chain(changes("8"))
        .map(|revision| event_id(revision, RECORD_SLOT))
        .collect();
    expected.sort_unstable();

    let mut listening = there.resume(&[&here.uri("Item/7"), &here.uri("Item/8")], &cursor);
    assert!(listening.resumed);
    let told: Vec<u64> = expected
        .iter()
        .map(|_| {
            listening.updated();
            cursor_id(&listening.cursor)
        })
        .collect();
    assert_eq!(told, expected);
    // Live, and from each of the cursors what came behind it.
    truth.commit(vec![put("Item", "7", "{}")]);
    listening.updated();
    let newest = cursor_id(&listening.cursor);
    assert_eq!(newest >> 16, truth.newest("Item", "7"));
    let mut again = there.resume(&[&here.uri("Item/7"), &here.uri("Item/8")], &cursor);
    for id in expected.into_iter().chain([newest]) {
        again.updated();
        assert_eq!(cursor_id(&again.cursor), id);
    }
}

#[test]
fn b_6_7_told_a_cursor_that_cannot_be_resumed_is_a_gap_told_once_per_uri() {
    let stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    let elsewhere = Stack::start(1);
    elsewhere.put("Item/7", "{}");
    let foreign_gateway = Modern::at(elsewhere.gateways[0].application);
    let (_, foreign) = foreign_gateway.read(&foreign_gateway.uri("Item/7"));
    stack.put("Item/7", "{}");
    let (_, own) = modern.read(&modern.uri("Item/7"));
    // The last eight bytes are the place: far ahead of the log.
    let ahead = format!("{}__________8", &own[..12]);
    for cursor in ["bogus", "", "AAAA", foreign.as_str(), ahead.as_str()] {
        let uris = [modern.uri("Item/7"), modern.uri("Item/8"), modern.uri("Product")];
        let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
        let mut listening = modern.resume(&uris, cursor);
        assert!(!listening.resumed, "{cursor:?}");
        // Until all of it was told, who goes on from what he has is in the same gap.
        let mut told = Vec::new();
        for left in (0..3).rev() {
            let place = listening.cursor.clone();
            let again = modern.resume(&uris, &place);
            assert!(!again.resumed, "{cursor:?} with {} to come", left + 1);
            again.close();
            told.push(listening.updated());
        }
        told.sort();
        let mut expected: Vec<String> = uris.iter().map(|uri| (*uri).to_owned()).collect();
        expected.sort();
        assert_eq!(told, expected, "{cursor:?}");
        let again = modern.resume(&uris, &listening.cursor);
        assert!(again.resumed, "the gap is over");
        stack.put("Item/8", "{}");
        assert_eq!(listening.updated(), uris[1], "and then live");
        listening.close();
    }
    let nothing = modern.resume(&[], "bogus");
    assert!(!nothing.resumed);
    assert!(
        modern.resume(&[], &nothing.cursor).resumed,
        "nothing was to be told"
    );
}

#[test]
fn b_6_7_a_listen_that_missed_very_much_is_told_the_newest_of_each_uri() {
    let stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    let mut listening = modern.listen(&[&modern.uri("Item/1"), &modern.uri("Item/2")]);
    let cursor = listening.cursor.clone();
    let truth = stack.truth();
    for _ in 0..3 {
        truth.commit((0..500).map(|_| put("Item", "1", "{}")).collect());
    }
    truth.commit(vec![put("Item", "2", "{}"), put("Item", "1", "{}")]);
    let [one, two] = ["1", "2"].map(|key| event_id(truth.newest("Item", key), RECORD_SLOT));
    let mut folded = modern.resume(&[&modern.uri("Item/1"), &modern.uri("Item/2")], &cursor);
    assert!(folded.resumed);
    for id in [two, one] {
        folded.updated();
        assert_eq!(cursor_id(&folded.cursor), id);
    }
    // The one that was there all the time got each of them.
    let mut count = 0;
    while cursor_id(&listening.cursor) < one {
        listening.updated();
        count += 1;
    }
    assert_eq!(count, 1_502);
}
