//! B-1.3, B-2.1, B-2.2, B-2.6, B-2.7: paths and methods, who may ask from where, content types, CORS, the headers of a stream.

use std::time::Duration;

use serde_json::json;

use crate::harness::event_stream::{EventStream, Next};
use crate::harness::http::{Answer, Connection, Request};
use crate::harness::mcp::{Client, initialize_body};
use crate::harness::stack::Stack;

fn initialize() -> Request {
    Request::mcp(initialize_body(r#""2025-11-25""#))
}

fn preflight(origin: &str, headers: &str) -> Request {
    Request::new("OPTIONS", "/mcp")
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", headers)
}

/// Splits a header's list, in lower case.
fn list(answer: &Answer, name: &str) -> Vec<String> {
    let value = answer
        .header(name)
        .unwrap_or_else(|| panic!("no {name} in {answer:?}"));
    value
        .split(',')
        .map(|item| item.trim().to_ascii_lowercase())
        .collect()
}

#[test]
fn b_1_3_an_unserved_method_is_405_with_allow_and_an_unknown_path_404() {
    let stack = Stack::start(1);
    let (application, admin) = (stack.gateways[0].application, stack.gateways[0].admin);
    let cases = [
        (application, "PUT", "/mcp", 405, vec!["delete", "get", "post"]),
        (application, "PATCH", "/mcp", 405, vec!["delete", "get", "post"]),
        (admin, "POST", "/healthz", 405, vec!["get"]),
        (admin, "DELETE", "/readyz", 405, vec!["get"]),
        (application, "GET", "/nowhere/at/all", 404, vec![]),
        (application, "GET", "/Nowhere/1", 404, vec![]),
        (application, "GET", "/Unseen/1", 404, vec![]),
        (application, "POST", "/mcp/more", 404, vec![]),
        (admin, "GET", "/nowhere", 404, vec![]),
    ];
    for (address, method, path, status, allowed) in cases {
        let answer = Request::new(method, path).send(address);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        if status == 405 {
            let found = list(&answer, "allow");
            assert!(
                allowed
                    .iter()
                    .all(|method| found.iter().any(|found| found == method)),
                "{method} {path}: {answer:?}"
            );
            assert!(
                !found.contains(&method.to_ascii_lowercase()),
                "{method} {path}: {answer:?}"
            );
        }
    }
}

#[test]
fn b_1_1_the_admin_listener_tells_that_it_lives_and_is_ready() {
    let stack = Stack::start(1);
    for path in ["/healthz", "/readyz"] {
        let answer = Request::get(path).send(stack.gateways[0].admin);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
}

#[test]
fn field_case_a20_b_2_1_the_host_must_be_a_loopback_name_or_address() {
    let stack = Stack::start(1);
    let gateway = &stack.gateways[0];
    let port = gateway.application.port();
    let cases = [
        ("127.0.0.1", true),
        ("[::1]:PORT", true),
        ("[::1]", true),
        ("LOCALHOST:PORT", true),
        ("localhost", true),
        ("localhost.:PORT", true),
        ("127.8.9.10:PORT", true),
        ("evil.example", false),
        ("localhost.evil.example:PORT", false),
        ("localhost:PORT@evil.example", false),
        ("evil.example:PORT", false),
        ("127.0.0.1.evil.example", false),
        ("10.0.0.1", false),
        ("0.0.0.0", false),
        ("[::2]", false),
        ("", false),
    ];
    for (host, served) in cases {
        let host = host.replace("PORT", &port.to_string());
        for (address, request) in [
            (gateway.application, initialize()),
            (gateway.application, Request::get("/Item/7")),
        ] {
            let answer = request.header("Host", &host).send(address);
            // The record is absent: 404 tells that the request was served.
            let refused = matches!(answer.status, 400 | 403 | 421);
            assert_eq!(!refused, served, "Host: {host}: {answer:?}");
        }
    }
}

#[test]
fn b_2_1_an_origin_must_be_of_loopback() {
    let stack = Stack::start(1);
    let address = stack.gateways[0].application;
    let cases = [
        ("http://localhost", true),
        ("http://localhost:3000", true),
        ("https://127.0.0.1:8443", true),
        ("http://[::1]:5173", true),
        ("http://evil.example", false),
        ("http://localhost.evil.example:3000", false),
        ("http://localhost:3000@evil.example", false),
        ("http://127.0.0.1.evil.example", false),
        ("null", false),
        ("file://", false),
    ];
    for (origin, allowed) in cases {
        let answer = initialize().header("Origin", origin).send(address);
        assert_eq!(
            answer.status,
            if allowed { 200 } else { 403 },
            "Origin: {origin}: {answer:?}"
        );
        let expected = allowed.then(|| origin.to_owned());
        assert_eq!(
            answer.header("access-control-allow-origin"),
            expected,
            "Origin: {origin}: {answer:?}"
        );
    }
}

#[test]
fn field_case_a20_b_2_7_a_preflight_allows_what_mcp_needs() {
    let stack = Stack::start(1);
    let address = stack.gateways[0].application;
    let asked = [
        "content-type",
        "accept",
        "authorization",
        "last-event-id",
        "mcp-session-id",
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "mcp-param-region",
        "if-match",
        "if-none-match",
        "prefer",
        "traceparent",
        "tracestate",
    ];
    let answer = preflight("http://localhost:3000", &asked.join(", ")).send(address);
    assert!(matches!(answer.status, 200 | 204), "{answer:?}");
    assert_eq!(
        answer.header("access-control-allow-origin").as_deref(),
        Some("http://localhost:3000"),
        "{answer:?}"
    );
    let allowed = list(&answer, "access-control-allow-headers");
    for name in asked {
        assert!(
            allowed.iter().any(|allowed| allowed == name),
            "{name}: {answer:?}"
        );
    }
    let methods = list(&answer, "access-control-allow-methods");
    assert!(
        ["get", "post", "delete"]
            .iter()
            .all(|name| methods.iter().any(|method| method == name)),
        "{answer:?}"
    );
    assert!(list(&answer, "vary").contains(&"origin".to_owned()), "{answer:?}");

    let foreign = preflight("http://evil.example", "content-type").send(address);
    assert_eq!(foreign.status, 403, "{foreign:?}");
    assert_eq!(foreign.header("access-control-allow-origin"), None, "{foreign:?}");

    let unheard = preflight("http://localhost:3000", "x-unheard-of").send(address);
    let allowed = unheard.header("access-control-allow-headers").unwrap_or_default();
    assert!(!allowed.contains("x-unheard-of"), "{unheard:?}");
}

#[test]
fn b_2_7_every_answer_to_an_allowed_origin_can_be_read_by_it() {
    let stack = Stack::start(1);
    let client = stack.client();
    let cases = [
        (initialize(), 200),
        (client.call("nope", &json!({})), 200),
        (client.post("{"), 400),
        (
            Request::mcp(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
                .header("Mcp-Session-Id", "unknown-session-id"),
            404,
        ),
        (client.post("{}").with("Content-Type", Some("text/plain")), 415),
        (
            client.call("ping", &json!({})).with("Accept", Some("text/html")),
            406,
        ),
        (Request::new("PUT", "/mcp"), 405),
        (Request::get("/nowhere/at/all"), 404),
        (Request::get("/Item/absent"), 404),
    ];
    for (request, status) in cases {
        let answer = request
            .clone()
            .header("Origin", "http://localhost:3000")
            .send(client.address);
        assert_eq!(answer.status, status, "{request:?}: {answer:?}");
        let origin = answer.header("access-control-allow-origin");
        assert_eq!(
            origin.as_deref(),
            Some("http://localhost:3000"),
            "{request:?}: {answer:?}"
        );
        assert!(
            list(&answer, "vary").contains(&"origin".to_owned()),
            "{request:?}: {answer:?}"
        );
        let exposed = list(&answer, "access-control-expose-headers");
        for name in [
            "mcp-session-id",
            "www-authenticate",
            "retry-after",
            "etag",
            "location",
        ] {
            assert!(
                exposed.iter().any(|exposed| exposed == name),
                "{name}: {request:?}: {answer:?}"
            );
        }
    }
    let (head, _) = client
        .get(None)
        .header("Origin", "http://localhost:3000")
        .open(client.address);
    assert_eq!(
        head.header("access-control-allow-origin").as_deref(),
        Some("http://localhost:3000"),
        "{head:?}"
    );
}

#[test]
fn field_case_a08_b_2_2_a_post_is_served_in_what_its_client_accepts() {
    let stack = Stack::start(1);
    let client = stack.client();
    let json = Some("application/json");
    let cases = [
        (Some("application/json, text/event-stream"), json),
        (Some("*/*"), json),
        (None, json),
        (Some("application/json"), json),
        (Some("application/*"), json),
        (Some("text/event-stream;q=0.5, APPLICATION/JSON;q=0.9"), json),
        (Some("text/html, */*;q=0.1"), json),
        (Some("text/event-stream"), Some("text/event-stream")),
        (Some("text/html"), None),
        (Some("application/json;q=0, text/html"), None),
        (Some("application/jsonx"), None),
    ];
    for (accept, expected) in cases {
        let answer = client.send(&client.call("ping", &json!({})).with("Accept", accept));
        match expected {
            Some(content_type) => {
                assert_eq!(answer.status, 200, "Accept: {accept:?}: {answer:?}");
                assert_eq!(
                    answer.header("content-type").as_deref(),
                    Some(content_type),
                    "Accept: {accept:?}"
                );
            }
            None => assert_eq!(answer.status, 406, "Accept: {accept:?}: {answer:?}"),
        }
    }
}

#[test]
fn field_case_a08_b_2_2_a_get_needs_an_event_stream() {
    let stack = Stack::start(1);
    for accept in [
        Some("text/event-stream"),
        Some("*/*"),
        Some("text/*"),
        Some("application/json, text/event-stream"),
        None,
    ] {
        let client = stack.client();
        let mut stream = EventStream::new(client.get(None).with("Accept", accept).open(client.address), None);
        stream.opening();
    }
    let client = stack.client();
    for accept in ["application/json", "text/html", "text/event-stream;q=0"] {
        let answer = client.send(&client.get(None).with("Accept", Some(accept)));
        assert_eq!(answer.status, 406, "Accept: {accept}: {answer:?}");
    }
}

#[test]
fn b_2_2_a_post_must_say_that_it_is_json() {
    let stack = Stack::start(1);
    let client = stack.client();
    let cases = [
        ("application/json", 200),
        ("Application/JSON", 200),
        ("application/json; charset=utf-8", 200),
        ("application/json;charset=UTF-8", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/jsonx", 415),
        ("multipart/form-data; boundary=application/json", 415),
    ];
    for (content_type, status) in cases {
        let answer = client.send(
            &client
                .call("ping", &json!({}))
                .with("Content-Type", Some(content_type)),
        );
        assert_eq!(answer.status, status, "Content-Type: {content_type}: {answer:?}");
    }
}

#[test]
fn b_2_6_a_stream_is_neither_cached_nor_buffered_nor_compressed_and_begins_at_once() {
    let stack = Stack::start(1);
    for version in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let client = Client::initialize(stack.gateways[0].application, version);
        let request = client.get(None).header("Accept-Encoding", "gzip, br, deflate");
        let mut stream = EventStream::new(request.open(client.address), None);
        let head = &stream.head;
        assert_eq!(
            head.header("cache-control").as_deref(),
            Some("no-cache, no-store, no-transform"),
            "{head:?}"
        );
        assert_eq!(
            head.header("x-accel-buffering").as_deref(),
            Some("no"),
            "{head:?}"
        );
        assert_eq!(head.header("content-encoding"), None, "{head:?}");
        // Well before the first keep-alive comment is due.
        match stream.next_within(Duration::from_secs(5)) {
            Next::Frame(frame) => assert!(
                frame.is_position() && version == "2025-11-25",
                "{version}: {frame:?}"
            ),
            Next::Comment => {}
            other => panic!("{version}: {other:?}"),
        }
    }
}

#[test]
fn b_2_6_a_quiet_stream_gets_a_comment_after_15_s_with_no_blank_line() {
    let stack = Stack::start(1);
    let mut stream = stack.client().listen_opened();
    let before = stream.comments.len();
    // The reader refuses a blank line that ends no event.
    match stream.next_within(Duration::from_secs(30)) {
        Next::Comment => assert_eq!(stream.comments.len(), before + 1),
        other => panic!("expected a comment, got {other:?}"),
    }
}

#[test]
fn b_2_1_who_is_meant_must_be_clear() {
    let stack = Stack::start(1);
    let address = stack.gateways[0].application;
    let check = |head: &str, status: u16| {
        let mut connection = Connection::open(address);
        connection.write_bytes(format!("{head}Connection: close\r\n\r\n").as_bytes());
        assert_eq!(connection.read("GET").status, status, "{head:?}");
    };
    check("GET /Item/none HTTP/1.1\r\nHost: 127.0.0.1\r\n", 404);
    check(
        "GET /Item/none HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n",
        400,
    );
    check(
        "GET http://evil.example/Item/none HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        403,
    );
    check(
        "GET http://localhost/Item/none HTTP/1.1\r\nHost: evil.example\r\n",
        404,
    );
    let origins = "Origin: http://localhost\r\nOrigin: http://evil.example\r\n";
    check(
        &format!("GET /Item/none HTTP/1.1\r\nHost: 127.0.0.1\r\n{origins}"),
        400,
    );
    let sessions = "Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\n";
    check(
        &format!("GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{sessions}"),
        400,
    );
}

#[test]
fn b_2_3_a_client_that_sends_all_of_a_large_body_before_it_reads_gets_the_413() {
    let stack = Stack::start(1);
    let address = stack.gateways[0].application;
    for target in ["POST /mcp", "PUT /Item/7"] {
        let body = vec![b' '; 32 * 1024 * 1024];
        let head = format!(
            "{target} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut connection = Connection::open(address);
        connection.write_bytes(head.as_bytes());
        connection.try_write_bytes(&body).unwrap_or_else(|error| {
            panic!("{target}: the connection broke while the body was sent: {error}")
        });
        assert_eq!(connection.read("POST").status, 413, "{target}");
    }
}
