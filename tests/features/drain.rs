//! B-4.12: an instance that ends.

use rustix::process::Signal;

use crate::harness::http::{Connection, Request};
use crate::harness::mcp::Client;
use crate::harness::stack::{Gateway, Stack};
use crate::harness::{PATIENCE, eventually};

const ITEM: &str = "feed+rest://tidegate.test/Item/7";

/// A request whose body is still to come, so that an end has to wait for it.
struct Unfinished {
    connection: Connection,
    rest: &'static [u8],
}

impl Unfinished {
    fn begin(client: &Client) -> Unfinished {
        let body: &[u8] = br#"{"jsonrpc":"2.0","id":"slow","method":"ping"}"#;
        let (first, rest) = body.split_at(10);
        let mut connection = client.connect();
        // The length is told, and only the first bytes sent.
        connection.write(
            &client
                .post(first)
                .header("Content-Length", body.len().to_string()),
        );
        Unfinished { connection, rest }
    }

    fn finish(mut self) {
        self.connection.write_bytes(self.rest);
        let answer = self.connection.read("POST");
        assert_eq!(
            (answer.status, answer.json()["id"].as_str()),
            (200, Some("slow")),
            "{answer:?}"
        );
    }
}

fn wait_until_draining(gateway: &Gateway) {
    eventually("the instance says that it ends", || {
        let answer = gateway.readiness();
        if answer.status == 503 && answer.text().contains("ending") {
            Ok(())
        } else {
            Err(format!("{answer:?}"))
        }
    });
}

#[test]
fn b_4_12_streams_end_as_planned_and_are_resumed_elsewhere_with_nothing_lost() {
    let mut stack = Stack::start(2);
    let other = stack.gateways[1].application;
    let mut clients: Vec<_> = (0..30)
        .map(|_| {
            let client = stack.client();
            let stream = client.listen_opened();
            client.subscribe(ITEM);
            (client, stream)
        })
        .collect();
    stack.put("Item/7", "{}");
    for (_, stream) in &mut clients {
        stream.update(ITEM);
    }
    // Moves the head on without a frame, so that a bookmark has something to tell.
    stack.put("Product/1", "{\"name\":\"p\"}");
    let head = stack.truth().newest("Product", "1");
    stack.gateways[0].service.terminate();
    // Some come while streams end, some after.
    for _ in 0..3 {
        stack.put("Item/7", "{}");
    }
    let revisions: Vec<u64> = stack
        .truth()
        .changes("Item", Some("7"))
        .iter()
        .map(|(revision, _)| *revision)
        .collect();
    for (client, stream) in &mut clients {
        let mut seen = 1 + stream.ends().len();
        let last = stream.last_id.unwrap();
        assert!(last >> 16 >= head, "no bookmark before the end: {last}");
        let mut resumed = client.on(other).resume(last);
        while seen < revisions.len() {
            resumed.update(ITEM);
            seen += 1;
        }
        resumed.opening();
    }
    let ended = stack.gateways[0].service.wait();
    assert!(ended.status.success(), "{:?}", ended.status);
}

#[test]
fn b_4_12_an_instance_that_ends_tells_its_load_balancer_and_finishes_what_it_began() {
    let mut stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen_opened();
    let unfinished = Unfinished::begin(&client);
    // Not before it is under way: a request that waits in the socket may be lost with it.
    assert_eq!(
        client.result("ping", serde_json::json!({})),
        serde_json::json!({})
    );
    stack.gateways[0].service.terminate();
    wait_until_draining(&stack.gateways[0]);
    // Those who still come are served; a stream gets what it missed and then ends as planned.
    let late = stack.gateways[0].client();
    let mut late_stream = late.listen();
    late_stream.opening();
    assert_eq!(late_stream.ends().len(), 0);
    assert_eq!(stream.ends().len(), 0);
    unfinished.finish();
    let ended = stack.gateways[0].service.wait();
    assert!(ended.status.success(), "{:?}", ended.status);
    // The session that was made at the end is there for the others.
    assert_eq!(
        late.on(stack.gateways[1].application)
            .result("ping", serde_json::json!({})),
        serde_json::json!({})
    );
}

#[test]
fn b_4_12_an_instance_ends_at_the_deadline_whatever_is_under_way() {
    let mut stack = Stack::start_with(1, &[], &[("--drain-deadline", "500ms")]);
    let client = stack.client();
    let _unfinished = Unfinished::begin(&client);
    assert_eq!(
        client.result("ping", serde_json::json!({})),
        serde_json::json!({})
    );
    let ended = stack.gateways[0].service.end_by(Signal::TERM);
    assert!(ended.status.success(), "within {PATIENCE:?}: {:?}", ended.status);
}

#[test]
fn b_4_12_a_second_signal_does_not_wait() {
    let mut stack = Stack::start(1);
    let client = stack.client();
    let _unfinished = Unfinished::begin(&client);
    assert_eq!(
        client.result("ping", serde_json::json!({})),
        serde_json::json!({})
    );
    stack.gateways[0].service.terminate();
    wait_until_draining(&stack.gateways[0]);
    // A refused connection would hide it: the process has to be gone.
    stack.gateways[0].service.end_by(Signal::TERM);
    assert!(
        Request::get("/healthz")
            .try_open(stack.gateways[0].admin)
            .is_err()
    );
}
