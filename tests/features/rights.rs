//! B-14.3 in processes: a feed service in roles mode behind a gateway, which is trusted, and whose clients are anonymous so far.

use serde_json::json;

use crate::harness::http::Request;
use crate::harness::modern::Modern;
use crate::harness::stack::Stack;
use crate::harness::truth::put;

const READER: &str = r#"{"data":{"tables":{"Item":{"read":true}}}}"#;
const WRITER: &str =
    r#"{"data":{"tables":{"Item":{"read":true,"insert":true,"update":true,"delete":true}}}}"#;

#[test]
fn field_case_a16_b_5_1_b_6_4_who_may_not_read_a_table_cannot_subscribe_to_it_or_its_records() {
    let stack = Stack::start_with(1, &[("--access-mode", "roles")], &[]);
    let client = stack.client();
    let modern = Modern::at(stack.gateways[0].application);
    let uris = [
        "feed+rest://tidegate.test/Item/7",
        "feed+rest://tidegate.test/Item",
    ];
    // A stream that is missing is told first.
    for uri in uris {
        let (code, message) = client.error("resources/subscribe", json!({"uri": uri}));
        assert_eq!(
            (code, &*message),
            (-32602, "open the GET SSE stream before subscribing to resources")
        );
    }
    let mut stream = client.listen_opened();
    let honoured = |count: usize| {
        let listening = modern.listen(&[&modern.uri("Item/7"), &modern.uri("Item"), &modern.uri("Product")]);
        let uris = listening.filter["resourceSubscriptions"]
            .as_array()
            .map_or(0, Vec::len);
        assert_eq!(uris, count, "{}", listening.filter);
        listening.close();
    };
    let denied = || {
        for uri in uris {
            let (code, message) = client.error("resources/subscribe", json!({"uri": uri}));
            assert_eq!((code, message), (-32602, format!("permission denied: {uri}")));
        }
        let record = stack.truth().session(&client.session).expect("a record");
        assert!(record.subscriptions.is_empty(), "{record:?}");
    };
    denied();
    honoured(0);
    // To write is not to read.
    let insert = r#"{"data":{"tables":{"Item":{"insert":true}}}}"#;
    stack.truth().set_role("anonymous", insert);
    denied();
    honoured(0);
    stack.truth().set_role("anonymous", READER);
    honoured(2);
    for uri in uris {
        client.subscribe(uri);
    }
    stack.truth().set_role("anonymous", WRITER);
    stack.put("Item/7", r#"{"name":"y"}"#);
    for _ in uris {
        stream.message();
    }
}

#[test]
fn b_14_3_anonymous_clients_may_do_what_their_role_says_and_no_more() {
    // Ready although nobody has a right yet: the gateway asks for itself as one that is trusted.
    let stack = Stack::start_with(1, &[("--access-mode", "roles")], &[]);
    let address = stack.gateways[0].application;
    let status = |request: Request| request.send(address).status;
    let write = || Request::put("/Item/1", r#"{"name":"x"}"#);
    let check = |read: u16, written: u16, deleted: u16| {
        assert_eq!(status(Request::get("/Item/1")), read);
        assert_eq!(status(write()), written);
        assert_eq!(status(Request::new("DELETE", "/Item/2")), deleted);
    };
    check(403, 403, 403);
    stack.truth().set_role("anonymous", READER);
    check(404, 403, 403);
    stack.truth().set_role("anonymous", WRITER);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe("feed+rest://tidegate.test/Item/7");
    stack.put("Item/7", r#"{"name":"y"}"#);
    stream.update("feed+rest://tidegate.test/Item/7");
    assert!(status(write()) < 300);
    stack.truth().set_role("anonymous", READER);
    check(200, 403, 403);

    let anonymous = stack.truth().try_commit(vec![put("Item", "1", "{}")]);
    assert!(anonymous.is_err_and(|status| status.code() == tonic::Code::PermissionDenied));
}
