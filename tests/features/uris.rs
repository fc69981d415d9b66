//! B-5.4: which record a URI names, and in which spelling its notices come.

use serde_json::json;

use crate::harness::stack::Stack;

/// Subscribes `spelling`, writes the record at `path`, and expects the notice in that spelling, and the record by that URI.
fn check(cases: &[(&str, &str)]) {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    for (spelling, path) in cases {
        client.subscribe(spelling);
        stack.put(path, r#"{"name":"here"}"#);
        stream.update(spelling);
        assert!(client.read(spelling).contains(r#""name":"here""#), "{spelling}");
        client.unsubscribe(spelling);
    }
}

#[test]
fn b_5_4_only_the_path_counts() {
    check(&[
        ("feed+rest://tidegate.test:9926/Item/7", "Item/7"),
        ("feed+rest://another.example/Item/7", "Item/7"),
        ("feed+rest://[::1]:1/Item/7", "Item/7"),
        ("http://tidegate.test/Item/7", "Item/7"),
        ("https://tidegate.test:8443/Item/7", "Item/7"),
        ("FEED+REST://tidegate.test/Item/7", "Item/7"),
    ]);
}

#[test]
fn field_case_a17_keys_hold_any_character() {
    check(&[
        ("feed+rest://h/Item/a%2Fb", "Item/a%2Fb"),
        ("feed+rest://h/Item/100%25", "Item/100%25"),
        ("feed+rest://h/Item/%C3%BC", "Item/%C3%BC"),
        ("feed+rest://h/Item/%c3%bc", "Item/%C3%BC"),
        ("feed+rest://h/Item/x%3Fy", "Item/x%3Fy"),
        ("feed+rest://h/Item/x%23y", "Item/x%23y"),
        ("feed+rest://h/Item/%2E", "Item/%2E"),
        ("feed+rest://h/Item/%2E%2E", "Item/%2E%2E"),
        (
            "feed+rest://h/Item/%2E%2E%2FProduct%2F42",
            "Item/%2E%2E%2FProduct%2F42",
        ),
        ("feed+rest://h/Item/%37", "Item/7"),
        ("feed+rest://h/Item/with%20space", "Item/with%20space"),
        ("feed+rest://h/Item/a+b", "Item/a+b"),
        (
            "feed+rest://h/Item/a:b@c!$&'()*,;=~-_.",
            "Item/a%3Ab%40c%21%24%26%27%28%29%2A%2C%3B%3D~-_.",
        ),
    ]);
}

#[test]
fn field_case_a17_distinct_records_stay_distinct() {
    let stack = Stack::start(1);
    let client = stack.client();
    let keys = [
        "a%2Fb", "a%252Fb", "100%25", "100%2525", "%C3%BC", "u", "x%3Fy", "x", "%2E", "%2E%2E", "a+b",
        "a%20b", "A%2FB",
    ];
    for key in keys {
        stack.put(&format!("Item/{key}"), &json!({"name": key}).to_string());
    }
    for key in keys {
        let text = client.read(&format!("feed+rest://h/Item/{key}"));
        assert!(text.contains(&format!("\"name\":\"{key}\"")), "{key}: {text}");
    }
    assert_eq!(
        stack.truth().changes("Item", None).len(),
        keys.len(),
        "one insert each"
    );
    assert_eq!(
        stack.truth().changes("Item", Some("a/b")).len(),
        1,
        "decoded once"
    );
    assert_eq!(
        stack.truth().changes("Item", Some("..")).len(),
        1,
        "no way out of the table"
    );
}

#[test]
fn field_case_a17_what_names_no_record_is_refused() {
    let stack = Stack::start(1);
    let client = stack.client();
    let _stream = client.listen_opened();
    let uris = [
        "feed+rest://h/Item/%zz",
        "feed+rest://h/Item/%",
        "feed+rest://h/Item/%2",
        "feed+rest://h/Item/%ff",
        "feed+rest://h/Item/7?x=1",
        "feed+rest://h/Item?x=1",
        "feed+rest://h/Item/7#part",
        "feed+rest://h/Item/a/b",
    ];
    for uri in uris {
        for method in ["resources/subscribe", "resources/read"] {
            let (code, message) = client.error(method, json!({"uri": uri}));
            assert!(
                code == -32602 || (code == -32002 && method == "resources/read"),
                "{method} {uri}: {code} {message}"
            );
        }
    }
}

#[test]
fn field_case_a17_b_5_4_equivalent_spellings_are_one_subscription_in_the_first_spelling() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    let groups: [&[&str]; 3] = [
        &[
            "feed+rest://h/Item/%C3%BC",
            "feed+rest://h/Item/%c3%bc",
            "https://other/Item/%C3%BC",
            "feed+rest://h:1/Item/%C3%BC",
        ],
        &["feed+rest://h/Item/%37", "feed+rest://h/Item/7"],
        &["feed+rest://h/Item/", "feed+rest://h/Item"],
    ];
    for spellings in groups {
        for spelling in spellings {
            client.subscribe(spelling);
        }
    }
    let record = stack.truth().session(&client.session).expect("a record");
    assert_eq!(record.subscriptions.len(), groups.len(), "{record:?}");

    stack.put("Item/%C3%BC", "{}");
    stream.update("feed+rest://h/Item/");
    stream.update("feed+rest://h/Item/%C3%BC");
    stack.put("Item/7", "{}");
    stream.update("feed+rest://h/Item/");
    stream.update("feed+rest://h/Item/%37");

    // Unsubscribed by any spelling; a later subscribe may choose another one.
    client.unsubscribe("feed+rest://h/Item");
    client.unsubscribe("feed+rest://elsewhere/Item/7");
    client.subscribe("feed+rest://h/Item/7");
    stack.put("Item/7", "{}");
    stream.update("feed+rest://h/Item/7");
}
