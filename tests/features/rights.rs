//! B-14.3 in processes: a feed service in roles mode behind a gateway, which is trusted, and whose clients are anonymous so far.

use crate::harness::http::Request;
use crate::harness::stack::Stack;
use crate::harness::truth::put;

const READER: &str = r#"{"data":{"tables":{"Item":{"read":true}}}}"#;
const WRITER: &str =
    r#"{"data":{"tables":{"Item":{"read":true,"insert":true,"update":true,"delete":true}}}}"#;

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
