//! B-13: ping, completions, log levels.

use proto::feed::v1::{entry::Body, session_command::Command};
use serde_json::{Value, json};

use crate::harness::mcp::Client;
use crate::harness::modern::Modern;
use crate::harness::stack::Stack;
use crate::harness::truth::put;

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
fn b_13_keys_are_completed_by_prefix_a_hundred_at_most_with_the_number_of_all() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut keys: Vec<String> = (0..150).map(|number| format!("k{number:03}")).collect();
    keys.extend(["a/b", "ü 7", "K001", "Ä"].map(str::to_owned));
    stack
        .truth()
        .commit(keys.iter().map(|key| put("Item", key, "{}")).collect());
    let item = |prefix: &str| complete("feed+rest://tidegate.test/Item/{key}", "key", prefix, json!({}));
    check_completed(&client, item("a/"), &["a/b"]);
    check_completed(&client, item("ü"), &["ü 7"]);
    check_completed(&client, item("K"), &["K001"]);
    check_completed(&client, item("nobody"), &[]);
    let ten: Vec<&str> = keys[10..20].iter().map(String::as_str).collect();
    check_completed(&client, item("k01"), &ten);

    let many = client.result("completion/complete", item("k"));
    let expected = json!({"completion": {"values": keys[..100], "total": 150, "hasMore": true}});
    assert_eq!(many, expected);
    // A hundred are all there are.
    check_completed(
        &client,
        item("k0"),
        &keys[..100].iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let of_all = client.result("completion/complete", item(""));
    assert_eq!(of_all["completion"]["total"], 154, "{of_all}");
    assert_eq!(of_all["completion"]["hasMore"], true, "{of_all}");
    // The modern era has the same.
    let modern = Modern::at(stack.gateways[0].application).result("completion/complete", item("a/"));
    assert_eq!(modern["completion"]["values"], json!(["a/b"]), "{modern}");
}

#[test]
fn b_13_keys_are_completed_as_far_as_the_principal_may_read_them() {
    let stack = Stack::start_with(1, &[("--access-mode", "roles")], &[]);
    let truth = stack.truth();
    truth.set_role(
        "anonymous",
        r#"{"data":{"tables":{"Item":{"read":true,"insert":true}}}}"#,
    );
    let client = stack.client();
    for key in ["mine-1", "mine-2", "other-1"] {
        stack.put(&format!("Item/{key}"), "{}");
    }
    let item = || complete("feed+rest://tidegate.test/Item/{key}", "key", "", json!({}));
    check_completed(&client, item(), &["mine-1", "mine-2", "other-1"]);
    let filter = r#"{"data":{"tables":{"Item":{"read":true,
        "row_filter":{"attribute":"id","comparator":"starts_with","value":"mine"}}}}}"#;
    truth.set_role("anonymous", filter);
    check_completed(&client, item(), &["mine-1", "mine-2"]);
    truth.set_role("anonymous", "{}");
    check_completed(&client, item(), &[]);
}

#[test]
fn b_13_b_3_8_a_log_level_is_kept_on_the_session_whatever_instance_it_came_to() {
    let stack = Stack::start(2);
    let client = stack.client();
    let elsewhere = client.on(stack.gateways[1].application);
    let level = || {
        stack
            .truth()
            .session(&client.session)
            .expect("a record")
            .log_level
    };
    assert_eq!(level(), "");
    for (client, wanted) in [(&client, "debug"), (&elsewhere, "error"), (&client, "error")] {
        assert_eq!(
            client.result("logging/setLevel", json!({"level": wanted})),
            json!({})
        );
        assert_eq!(level(), wanted);
    }
    client.error("logging/setLevel", json!({"level": "loud"}));
    assert_eq!(level(), "error");
    // Commands of the log, in order with the others; one that changes nothing is none.
    let log = stack.truth().log();
    let levels: Vec<&str> = log
        .iter()
        .filter_map(|entry| match &entry.body {
            Some(Body::Session(command)) => match &command.command {
                Some(Command::LogLevelSet(set)) => Some(set.level.as_str()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(levels, ["debug", "error"]);
    // Of a session that is gone none is kept.
    assert_eq!(client.delete().status, 204);
    let answer = elsewhere.send(&elsewhere.call("logging/setLevel", &json!({"level": "info"})));
    assert_eq!(answer.status, 404, "{answer:?}");
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
