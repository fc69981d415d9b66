//! B-8 and the REST surface as far as they go: lists, reads, and numbers that keep their digits.

use serde_json::{Value, json};

use crate::harness::http::Request;
use crate::harness::stack::Stack;
use crate::harness::truth::put;

#[test]
fn field_case_a10_b_8_7_numbers_come_back_digit_for_digit() {
    let stack = Stack::start(2);
    let client = stack.client();
    let digits = [
        "9007199254740993",
        "-9223372036854775808",
        "9223372036854775807",
        "18446744073709551615",
        "123456789012345678901234567890",
        "0.1",
        "1.0",
        "-0.0",
        "1.10",
        "3.141592653589793238462643383279",
        "1e-7",
        "1E+2",
    ];
    let list = digits.join(",");
    let record = format!(
        r#"{{"id":"7","any":{{"list":[{list}],"nested":{{"deep":{}}}}}}}"#,
        digits[3]
    );
    stack.put("Number/7", &record);
    assert_eq!(client.read("feed+rest://h/Number/7"), record, "resources/read");
    assert_eq!(
        Request::get("/Number/7").send(client.address).text(),
        record,
        "REST"
    );
    stack.truth().commit(vec![put(
        "Number",
        "8",
        &record.replace(r#""id":"7""#, r#""id":"8""#),
    )]);
    assert_eq!(
        client.read("feed+rest://h/Number/8"),
        record.replace(r#""id":"7""#, r#""id":"8""#),
        "after a gRPC commit"
    );
}

#[test]
fn field_case_a10_b_8_6_a_typed_attribute_holds_what_its_type_can_and_nothing_else() {
    let stack = Stack::start(1);
    let client = stack.client();
    let thousand_digits = "9".repeat(1000);
    let too_many_digits = "9".repeat(1001);
    let cases = [
        ("int", "2147483647", true),
        ("int", "-2147483648", true),
        ("int", "2147483648", false),
        ("int", "1.5", false),
        ("int", r#""7""#, false),
        ("long", "9223372036854775807", true),
        ("long", "9007199254740993", true),
        ("long", "9223372036854775808", false),
        ("bigInt", "18446744073709551615", true),
        ("bigInt", &thousand_digits, true),
        ("bigInt", &too_many_digits, false),
        ("bigInt", "0.5", false),
        ("float", "0.1", true),
        ("float", "1.0", true),
        ("float", "0.1000000000000000055511151231257827", true),
        ("float", "1e400", false),
        ("float", "true", false),
        ("any", "18446744073709551615", true),
        ("undeclared", "1", false),
    ];
    for (attribute, number, accepted) in cases {
        let record = format!(r#"{{"id":"7","{attribute}":{number}}}"#);
        let answer = Request::put("/Number/7", &record).send(client.address);
        if accepted {
            assert!(answer.status < 300, "{record}: {answer:?}");
            assert_eq!(client.read("feed+rest://h/Number/7"), record);
        } else {
            assert!(matches!(answer.status, 400 | 422), "{record}: {answer:?}");
            assert!(
                answer.text().contains(attribute),
                "names the attribute: {answer:?}"
            );
        }
    }
}

#[test]
fn field_case_a10_a_number_beyond_every_type_is_refused_or_kept() {
    let stack = Stack::start(1);
    let client = stack.client();
    let record = r#"{"id":"7","any":1e400}"#;
    let answer = Request::put("/Number/7", record).send(client.address);
    if answer.status < 300 {
        assert_eq!(client.read("feed+rest://h/Number/7"), record);
    } else {
        assert!(matches!(answer.status, 400 | 422), "{answer:?}");
    }
}

#[test]
fn b_8_1_every_exported_table_is_listed_sorted() {
    let stack = Stack::start(1);
    let client = stack.client();
    let result = client.result("resources/list", json!({}));
    let resources = result["resources"]
        .as_array()
        .unwrap_or_else(|| panic!("{result}"));
    let uris: Vec<&str> = resources
        .iter()
        .map(|resource| resource["uri"].as_str().expect("a uri"))
        .collect();
    let mut sorted = uris.clone();
    sorted.sort_unstable();
    assert_eq!(uris, sorted);
    let host = client.address;
    for table in ["Product", "Item", "Number"] {
        assert!(
            uris.contains(&format!("feed+rest://{host}/{table}").as_str()),
            "{table}: {uris:?}"
        );
    }
    assert!(!result.to_string().contains("Unseen"), "not exported: {result}");
    assert!(
        resources
            .iter()
            .all(|resource| resource["name"].as_str().is_some_and(|name| !name.is_empty())),
        "{result}"
    );
    // What is listed can be read, and tables can be subscribed.
    let _stream = client.listen_opened();
    for uri in uris {
        client.result("resources/read", json!({"uri": uri}));
        if uri.starts_with("feed+rest:") {
            client.subscribe(uri);
        }
    }
}

#[test]
fn field_case_a21_b_8_1_a_cursor_that_was_not_issued_is_refused() {
    let stack = Stack::start(1);
    let client = stack.client();
    for cursor in [json!("bogus"), json!(""), json!(7), json!("MjAw")] {
        let (code, message) = client.error("resources/list", json!({"cursor": cursor}));
        assert_eq!(code, -32602, "{cursor}: {message}");
    }
}

#[test]
fn b_8_3_a_record_is_read_as_json_and_a_table_as_its_descriptor() {
    let stack = Stack::start(1);
    let client = stack.client();
    stack.put("Item/7", r#"{"id":"7","name":"seven","data":{"b":1,"a":2}}"#);
    stack.put("Item/8", r#"{"id":"8"}"#);
    let uri = "feed+rest://tidegate.test/Item/7";
    let result = client.result("resources/read", json!({"uri": uri}));
    let contents = &result["contents"][0];
    assert_eq!(
        (&contents["uri"], &contents["mimeType"]),
        (&json!(uri), &json!("application/json")),
        "{result}"
    );
    assert_eq!(
        contents["text"],
        r#"{"id":"7","name":"seven","data":{"b":1,"a":2}}"#
    );

    let uri = "feed+rest://tidegate.test/Item";
    let descriptor: Value = serde_json::from_str(&client.read(uri)).expect("JSON");
    assert!(
        descriptor["uri"]
            .as_str()
            .is_some_and(|uri| uri.starts_with("feed+rest://") && uri.ends_with("/Item"))
    );
    assert_eq!(
        descriptor["path"]
            .as_str()
            .map(|path| path.trim_start_matches('/')),
        Some("Item"),
        "{descriptor}"
    );
    assert_eq!(
        (&descriptor["database"], &descriptor["table"]),
        (&json!("data"), &json!("Item"))
    );
    assert!(
        descriptor["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
        "{descriptor}"
    );
    assert_eq!(descriptor["recordCount"], 2);
    assert!(
        descriptor["revision"].as_u64() >= Some(stack.truth().newest("Item", "8")),
        "{descriptor}"
    );
}

#[test]
fn b_8_3_what_is_not_there_is_an_error_with_its_uri() {
    let stack = Stack::start(1);
    let client = stack.client();
    stack.put("Item/7", "{}");
    stack.gateways[0].delete("Item/7");
    for uri in [
        "feed+rest://h/Item/7",
        "feed+rest://h/Item/absent",
        "feed+rest://h/Nowhere",
        "feed+rest://h/Unseen/1",
        "x://y",
    ] {
        let answer = client.send(&client.call("resources/read", &json!({"uri": uri})));
        assert_eq!(
            (answer.status, answer.error_code()),
            (200, -32002),
            "{uri}: {answer:?}"
        );
        assert_eq!(answer.json()["error"]["data"]["uri"], uri, "{answer:?}");
    }
    assert_eq!(client.error("resources/read", json!({})).0, -32602);
    assert_eq!(client.error("resources/read", json!({"uri": 7})).0, -32602);
}

#[test]
fn rest_writes_reads_and_removes_a_record() {
    let stack = Stack::start(1);
    let address = stack.gateways[0].application;
    let get = || Request::get("/Product/42").send(address);
    assert_eq!(get().status, 404);
    stack.put("Product/42", r#"{"name":"Lamp","price":1.50,"tags":["a","b"]}"#);
    let answer = get();
    assert_eq!(answer.status, 200, "{answer:?}");
    let record = answer.json();
    assert_eq!(
        (&record["id"], &record["name"], &record["tags"]),
        (&json!("42"), &json!("Lamp"), &json!(["a", "b"]))
    );
    assert!(answer.text().contains("1.50"), "{answer:?}");
    for time in ["createdAt", "updatedAt"] {
        assert!(!record[time].is_null(), "{time}: {answer:?}");
    }
    // A whole record replaces a whole record, but not its creation time.
    stack.put("Product/42", r#"{"name":"Chair"}"#);
    let replaced = get().json();
    assert_eq!(
        (&replaced["name"], &replaced["price"], &replaced["createdAt"]),
        (&json!("Chair"), &Value::Null, &record["createdAt"])
    );
    stack.gateways[0].delete("Product/42");
    assert_eq!(get().status, 404);
    let gone = Request::new("DELETE", "/Product/42").send(address);
    assert!(gone.status == 404 || gone.status < 300, "{gone:?}");
}

#[test]
fn rest_refuses_what_the_schema_does_not_allow_and_changes_nothing() {
    let stack = Stack::start(1);
    let address = stack.gateways[0].application;
    let refused = [
        ("/Product/42", "{}"),
        ("/Product/42", r#"{"name":null}"#),
        ("/Product/42", r#"{"name":7}"#),
        ("/Product/42", r#"{"name":"x","tags":[null]}"#),
        ("/Product/42", r#"{"id":"43","name":"another key"}"#),
        ("/Product/42", r#"["name"]"#),
        ("/Product/42", "{"),
        ("/Product/42", ""),
    ];
    for (path, record) in refused {
        let answer = Request::put(path, record).send(address);
        assert!(matches!(answer.status, 400 | 422), "{path} {record}: {answer:?}");
    }
    for path in ["/Nowhere/1", "/Unseen/1", "/Item/%zz", "/Item/a/b"] {
        assert_eq!(Request::put(path, "{}").send(address).status, 404, "{path}");
    }
    assert_eq!(stack.truth().changes("Product", None), []);
}

#[test]
fn a_conditional_write_loses_no_update() {
    let stack = Stack::start(1);
    let address = stack.gateways[0].application;
    let put = |name: &str, value: &str| {
        let request = Request::put("/Item/9", r#"{"name":"x"}"#);
        let request = if name.is_empty() {
            request
        } else {
            request.header(name, value)
        };
        let answer = request.send(address);
        (answer.status, answer.header("etag").unwrap_or_default())
    };
    assert_eq!(put("If-Match", "*").0, 412);
    let (status, first) = put("If-None-Match", "*");
    assert_eq!(status, 201);
    assert_eq!(put("If-None-Match", "*").0, 412);
    let (status, second) = put("If-Match", &first);
    assert_eq!(status, 200);
    assert_ne!(first, second);
    assert_eq!(put("If-Match", &first).0, 412);
    assert_eq!(put("If-Match", "\"x\"").0, 412);
    assert_eq!(put("If-None-Match", &second).0, 501);
    let delete = |tag: &str| {
        Request::new("DELETE", "/Item/9")
            .header("If-Match", tag)
            .send(address)
            .status
    };
    assert_eq!((delete(&first), delete(&second)), (412, 204));
}

#[test]
fn field_case_a11_b_2_4_of_a_key_twice_in_a_record_the_last_counts() {
    let stack = Stack::start(1);
    let client = stack.client();
    stack.put("Item/7", r#"{"name":"first","data":{"a":1,"a":2},"name":"last"}"#);
    let record = client.read("feed+rest://tidegate.test/Item/7");
    let value: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(
        (&value["name"], &value["data"]["a"]),
        (&json!("last"), &json!(2)),
        "{record}"
    );
    assert_eq!(record.matches("\"name\"").count(), 1, "one is kept: {record}");
    assert_eq!(record.matches("\"a\"").count(), 1, "one is kept: {record}");
}
