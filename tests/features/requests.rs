//! B-2.3 to B-2.5, B-2.8, B-2.9: what a POST may hold, and how it is refused.

use serde_json::{Value, json};

use crate::harness::http::{Answer, Connection, Request};
use crate::harness::mcp::{Client, initialize_body};
use crate::harness::stack::Stack;

/// What a POST is answered with.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// 200 with a result and this id, as JSON text.
    Result(&'static str),
    /// 200 with this error.
    Error(i64),
    /// 400 with this error and no id.
    Refused(i64),
    /// 400 with this error and this id, as JSON text.
    RefusedWithId(i64, &'static str),
    /// 202 and nothing else.
    Accepted,
}

/// Posts each body in a session of this version and compares the answer.
fn check(version: &str, cases: &[(&[u8], Expect)]) {
    let stack = Stack::start(1);
    let client = Client::initialize(stack.gateways[0].application, version);
    for (body, expected) in cases {
        let answer = client.send(&client.post(body));
        let shown = String::from_utf8_lossy(&body[..body.len().min(200)]);
        expect(&answer, *expected, &format!("{shown} under {version}"));
    }
    // None of it hurt the session.
    client.result("ping", json!({}));
}

fn expect(answer: &Answer, expected: Expect, case: &str) {
    let found = format!("{case}: expected {expected:?}, got {answer:?}");
    match expected {
        Expect::Result(id) => {
            assert_eq!(answer.status, 200, "{found}");
            assert_eq!(
                answer.json()["id"],
                serde_json::from_str::<Value>(id).unwrap(),
                "{found}"
            );
            // Digits and all.
            assert_eq!(answer.json()["id"].to_string(), id, "{found}");
            assert!(answer.json().get("result").is_some(), "{found}");
        }
        Expect::Error(code) => {
            assert_eq!(answer.status, 200, "{found}");
            assert_eq!(answer.json()["error"]["code"], code, "{found}");
        }
        Expect::Refused(code) => {
            assert_eq!(answer.status, 400, "{found}");
            assert_eq!(answer.json()["error"]["code"], code, "{found}");
            assert_eq!(answer.json().get("id"), None, "{found}");
        }
        Expect::RefusedWithId(code, id) => {
            assert_eq!(answer.status, 400, "{found}");
            assert_eq!(answer.json()["error"]["code"], code, "{found}");
            assert_eq!(answer.json()["id"].to_string(), id, "{found}");
        }
        Expect::Accepted => {
            assert_eq!((answer.status, answer.body.len()), (202, 0), "{found}");
            assert_eq!(answer.header("content-type"), None, "{found}");
        }
    }
}

#[test]
fn field_case_a09_b_2_4_an_id_comes_back_as_it_was_sent() {
    check(
        "2025-11-25",
        &[
            (
                br#"{"jsonrpc":"2.0","id":"1","method":"ping"}"#,
                Expect::Result(r#""1""#),
            ),
            (
                br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
                Expect::Result("1"),
            ),
            (
                br#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#,
                Expect::Result("0"),
            ),
            (
                br#"{"jsonrpc":"2.0","id":-1,"method":"ping"}"#,
                Expect::Result("-1"),
            ),
            (
                br#"{"jsonrpc":"2.0","id":"","method":"ping"}"#,
                Expect::Result(r#""""#),
            ),
            (
                r#"{"jsonrpc":"2.0","id":"req-ä","method":"ping"}"#.as_bytes(),
                Expect::Result(r#""req-ä""#),
            ),
            (
                br#"{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}"#,
                Expect::Result("9007199254740993"),
            ),
            (
                br#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#,
                Expect::Result("18446744073709551615"),
            ),
            (
                br#"{"jsonrpc":"2.0","id":-9223372036854775808,"method":"ping"}"#,
                Expect::Result("-9223372036854775808"),
            ),
            (
                br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                Expect::Refused(-32600),
            ),
            (
                br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
                Expect::Refused(-32600),
            ),
            (
                br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
                Expect::Refused(-32600),
            ),
            (
                br#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
                Expect::Refused(-32600),
            ),
            (
                br#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
                Expect::Refused(-32600),
            ),
            (br#"{"jsonrpc":"2.0","method":"ping"}"#, Expect::Accepted),
        ],
    );
}

#[test]
fn b_2_4_what_is_no_json_has_no_id() {
    check(
        "2025-11-25",
        &[
            (b"", Expect::Refused(-32700)),
            (b"{", Expect::Refused(-32700)),
            (
                br#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#,
                Expect::Refused(-32700),
            ),
            (
                br#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#,
                Expect::Refused(-32700),
            ),
            (
                br#"{'jsonrpc':'2.0','id':1,'method':'ping'}"#,
                Expect::Refused(-32700),
            ),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xc3\x28ng\"}",
                Expect::Refused(-32700),
            ),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}",
                Expect::Refused(-32700),
            ),
            (
                br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}"#,
                Expect::Refused(-32700),
            ),
        ],
    );
}

#[test]
fn b_2_4_a_byte_order_mark_is_passed_over() {
    check(
        "2025-11-25",
        &[
            (
                b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
                Expect::Result("1"),
            ),
            (
                b" \r\n\t{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n",
                Expect::Result("1"),
            ),
        ],
    );
}

#[test]
fn b_2_4_what_is_no_message_is_refused_with_the_id_where_it_could_be_read() {
    check(
        "2025-11-25",
        &[
            (b"null", Expect::Refused(-32600)),
            (b"7", Expect::Refused(-32600)),
            (br#""ping""#, Expect::Refused(-32600)),
            (b"{}", Expect::Refused(-32600)),
            (br#"{"id":7,"method":"ping"}"#, Expect::RefusedWithId(-32600, "7")),
            (
                br#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#,
                Expect::RefusedWithId(-32600, "7"),
            ),
            (
                br#"{"jsonrpc":2.0,"id":7,"method":"ping"}"#,
                Expect::RefusedWithId(-32600, "7"),
            ),
            (
                br#"{"jsonrpc":"2.0","id":"a"}"#,
                Expect::RefusedWithId(-32600, r#""a""#),
            ),
            (
                br#"{"jsonrpc":"2.0","id":7,"Method":"ping"}"#,
                Expect::RefusedWithId(-32600, "7"),
            ),
            (
                br#"{"jsonrpc":"2.0","id":7,"method":7}"#,
                Expect::RefusedWithId(-32600, "7"),
            ),
        ],
    );
}

#[test]
fn field_case_a11_b_2_4_a_key_twice_is_refused() {
    check(
        "2025-11-25",
        &[
            (
                br#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"resources/read","params":{"uri":"feed+rest://h/Item/1","uri":"feed+rest://h/Item/2"}}"#,
                Expect::RefusedWithId(-32600, "1"),
            ),
            (br#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#, Expect::RefusedWithId(-32600, "1")),
            (br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, Expect::Refused(-32600)),
            (
                br#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"feed+rest://h/Item/1","uri":"feed+rest://h/Item/2"}}"#,
                Expect::RefusedWithId(-32600, "1"),
            ),
            (
                br#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"feed+rest://h/Item/1","\u0075ri":"feed+rest://h/Item/2"}}"#,
                Expect::RefusedWithId(-32600, "1"),
            ),
            (br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}"#, Expect::RefusedWithId(-32600, "1")),
            (
                br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":1,"a":2}}}"#,
                Expect::RefusedWithId(-32600, "1"),
            ),
            (
                br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{},"_meta":{}}}"#,
                Expect::RefusedWithId(-32600, "1"),
            ),
            (br#"{"jsonrpc":"2.0","method":"notifications/x","method":"notifications/y"}"#, Expect::Refused(-32600)),
            (br#"{"jsonrpc":"2.0","id":1,"method":"nope","params":{"arguments":{"a":1,"a":2}}}"#, Expect::Error(-32601)),
        ],
    );
}

/// A ping whose JSON is nested this deep in all.
fn nested(depth: usize) -> Vec<u8> {
    // The envelope and `params` are the first two levels.
    let (open, close) = ("[".repeat(depth - 2), "]".repeat(depth - 2));
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{open}{close}}}}}"#).into_bytes()
}

#[test]
fn b_2_3_json_may_be_nested_128_deep_and_no_deeper() {
    check(
        "2025-11-25",
        &[
            (&nested(128), Expect::Result("1")),
            (&nested(129), Expect::Refused(-32700)),
            (&nested(100_000), Expect::Refused(-32700)),
        ],
    );
}

#[test]
fn field_case_a12_b_2_5_batches_exist_in_2025_03_26_only() {
    let batch = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
    let notifications = br#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#;
    for version in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        check(
            version,
            &[
                (batch, Expect::Refused(-32600)),
                (b"[]", Expect::Refused(-32600)),
                (notifications, Expect::Refused(-32600)),
                (
                    br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
                    Expect::Accepted,
                ),
            ],
        );
    }
    let many = |count: usize| {
        format!(
            "[{}]",
            vec![r#"{"jsonrpc":"2.0","method":"notifications/x"}"#; count].join(",")
        )
    };
    let with_initialize = format!("[{}]", initialize_body(r#""2025-03-26""#));
    check(
        "2025-03-26",
        &[
            (b"[]", Expect::Refused(-32600)),
            (notifications, Expect::Accepted),
            (many(100).as_bytes(), Expect::Accepted),
            (many(101).as_bytes(), Expect::Refused(-32600)),
            (with_initialize.as_bytes(), Expect::Refused(-32600)),
        ],
    );
}

#[test]
fn field_case_a12_a_batch_is_answered_by_an_array_of_the_answers() {
    let stack = Stack::start(1);
    let client = Client::initialize(stack.gateways[0].application, "2025-03-26");
    let batch = r#"[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":2,"method":"nope"}]"#;
    let answer = client.send(&client.post(batch));
    assert_eq!(answer.status, 200, "{answer:?}");
    let answers = answer.json();
    let answers = answers
        .as_array()
        .unwrap_or_else(|| panic!("no array: {answer:?}"));
    assert_eq!(answers.len(), 2, "{answer:?}");
    let of = |id: Value| {
        answers
            .iter()
            .find(|one| one["id"] == id)
            .unwrap_or_else(|| panic!("{id} in {answer:?}"))
    };
    assert_eq!(of(json!("a"))["result"], json!({}));
    assert_eq!(of(json!(2))["error"]["code"], -32601);
}

#[test]
fn b_2_3_a_body_over_the_limit_is_413_however_its_length_is_told() {
    let stack = Stack::start(1);
    let client = stack.client();
    let limit = 4 * 1024 * 1024;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let of_length = |length: usize| format!("{ping}{}", " ".repeat(length - ping.len()));
    assert_eq!(client.send(&client.post(of_length(limit))).status, 200);
    assert_eq!(client.send(&client.post(of_length(limit + 1))).status, 413);

    let chunk = format!("{:x}\r\n{}\r\n", limit, of_length(limit));
    let chunked = |body: String| client.post(body).header("Transfer-Encoding", "chunked");
    assert_eq!(client.send(&chunked(format!("{chunk}0\r\n\r\n"))).status, 200);
    assert_eq!(
        client
            .send(&chunked(format!("{chunk}1\r\n \r\n0\r\n\r\n")))
            .status,
        413
    );

    let announced = client.post(ping).header("Content-Length", "99999999999");
    assert_eq!(client.send(&announced).status, 413, "by its announcement alone");
}

#[test]
fn b_2_3_a_header_block_over_16_kib_is_431() {
    let stack = Stack::start(1);
    let client = stack.client();
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let padded = |length: usize| client.post(ping).header("X-Padding", "x".repeat(length));
    assert_eq!(client.send(&padded(15 * 1024)).status, 200);
    assert_eq!(client.send(&padded(17 * 1024)).status, 431);
    assert_eq!(client.send(&padded(200 * 1024)).status, 431);
    let many = (0..400).fold(client.post(ping), |request, index| {
        request.header(&format!("X-{index}"), "x".repeat(50))
    });
    assert_eq!(client.send(&many).status, 431, "many small ones too");
}

#[test]
fn b_2_8_a_refused_request_does_not_end_the_connection() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut connection = Connection::open(client.address);
    let bodies = [
        "{",
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/x"}"#,
    ];
    for body in bodies {
        connection.send(&client.post(body));
        let answer = connection.send(&client.call("ping", &json!({})));
        assert_eq!(answer.status, 200, "after {body}: {answer:?}");
    }
    assert_eq!(connection.send(&Request::get("/nowhere/at/all")).status, 404);
    assert_eq!(connection.send(&client.call("ping", &json!({}))).status, 200);
}

#[test]
fn field_case_a22_b_2_9_a_second_request_in_flight_with_the_same_id_is_refused() {
    let stack = Stack::start(1);
    let client = stack.client();
    // It waits for a stream that nobody opens, so both are in flight together; whichever came first is served.
    let subscribe = client.post(
        r#"{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"feed+rest://h/Item/7"}}"#,
    );
    let mut connections = [client.connect(), client.connect()];
    connections
        .iter_mut()
        .for_each(|connection| connection.write(&subscribe));
    let mut found: Vec<_> = connections
        .iter_mut()
        .map(|connection| connection.read("POST"))
        .map(|answer| (answer.status, answer.error_code()))
        .collect();
    found.sort();
    assert_eq!(found, [(200, -32602), (400, -32600)]);
    client.result("ping", json!({}));
}
