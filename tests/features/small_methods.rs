//! B-13: ping, completions, log levels.

use serde_json::{Value, json};

use crate::harness::mcp::Client;
use crate::harness::stack::Stack;

const SCHEMA_TEMPLATE: &str = "feed://schema/{database}/{table}";

#[test]
fn b_13_a_ping_is_answered_by_nothing() {
    let stack = Stack::start(1);
    assert_eq!(stack.client().result("ping", json!({})), json!({}));
}

fn complete(uri: &str, name: &str, value: &str, context: Value) -> Value {
    json!({
        "ref": {"type": "ref/resource", "uri": uri},
        "argument": {"name": name, "value": value},
        "context": {"arguments": context},
    })
}

fn check_completed(client: &Client, params: Value, values: &[&str]) {
    let result = client.result("completion/complete", params.clone());
    let expected = json!({"completion": {"values": values, "total": values.len(), "hasMore": false}});
    assert_eq!(result, expected, "{params}");
}

#[test]
fn b_13_names_of_databases_and_tables_are_completed() {
    let stack = Stack::start(1);
    let client = stack.client();
    check_completed(
        &client,
        complete(SCHEMA_TEMPLATE, "database", "", json!({})),
        &["data"],
    );
    check_completed(
        &client,
        complete(SCHEMA_TEMPLATE, "database", "x", json!({})),
        &[],
    );
    let exported = ["Item", "Number", "Product"];
    check_completed(
        &client,
        complete(SCHEMA_TEMPLATE, "table", "", json!({})),
        &exported,
    );
    check_completed(
        &client,
        complete(SCHEMA_TEMPLATE, "table", "P", json!({"database": "data"})),
        &["Product"],
    );
    check_completed(
        &client,
        complete(SCHEMA_TEMPLATE, "table", "", json!({"database": "x"})),
        &[],
    );
}

#[test]
fn b_13_what_cannot_be_completed_is_named() {
    let stack = Stack::start(1);
    let client = stack.client();
    let cases = [
        (json!({}), "params.ref"),
        (
            json!({"ref": {"type": "ref/resource", "uri": SCHEMA_TEMPLATE}}),
            "params.argument",
        ),
        (
            complete("feed://nothing/{x}", "x", "", json!({})),
            "feed://nothing/{x}",
        ),
        (
            complete("feed+rest://h/Unseen/{key}", "key", "", json!({})),
            "feed+rest://h/Unseen/{key}",
        ),
        (complete(SCHEMA_TEMPLATE, "column", "", json!({})), "column"),
        (
            json!({"ref": {"type": "ref/prompt", "name": "nobody"}, "argument": {"name": "a", "value": ""}}),
            "nobody",
        ),
    ];
    for (params, named) in cases {
        let (code, message) = client.error("completion/complete", params.clone());
        assert_eq!(code, -32602, "{params}: {message}");
        assert!(message.contains(named), "{params}: {message}");
    }
}

#[test]
fn b_13_a_log_level_is_one_of_eight() {
    let stack = Stack::start(1);
    let client = stack.client();
    for level in [
        "debug",
        "info",
        "notice",
        "warning",
        "error",
        "critical",
        "alert",
        "emergency",
    ] {
        assert_eq!(
            client.result("logging/setLevel", json!({"level": level})),
            json!({})
        );
    }
    for params in [
        json!({}),
        json!({"level": "loud"}),
        json!({"level": 3}),
        json!({"level": "DEBUG"}),
    ] {
        assert_eq!(
            client.error("logging/setLevel", params.clone()).0,
            -32602,
            "{params}"
        );
    }
}
