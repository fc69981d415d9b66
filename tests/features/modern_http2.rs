//! Many listens of one client on one HTTP/2 connection, without TLS by prior knowledge.

use std::time::Duration;

use h2::client::SendRequest;
use h2::{RecvStream, client};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::harness::modern::{Modern, SUBSCRIPTION_ID, VERSION, meta};
use crate::harness::stack::Stack;
use crate::harness::{PATIENCE, RUNTIME};

/// The one connection of a client.
struct Connection {
    requests: SendRequest<bytes::Bytes>,
    address: std::net::SocketAddr,
}

/// The answer to one listen, cut into messages.
struct Listen {
    body: RecvStream,
    text: String,
}

impl Connection {
    async fn open(address: std::net::SocketAddr) -> Connection {
        let socket = TcpStream::connect(address).await.expect("a connection");
        let (requests, connection) = client::Builder::new()
            // Room for those that stall, or they hold up all others of the connection.
            .initial_connection_window_size(8 * 1024 * 1024)
            .handshake(socket)
            .await
            .expect("the server speaks HTTP/2");
        tokio::spawn(async move {
            // It ends with the server or with the test.
            let _ = connection.await;
        });
        Connection { requests, address }
    }

    async fn post(&mut self, id: &str, method: &str, mut params: Value) -> RecvStream {
        params["_meta"] = meta();
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let request = http::Request::post(format!("http://{}/mcp", self.address))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", method)
            .body(())
            .expect("a request");
        self.requests = self.requests.clone().ready().await.expect("room for a request");
        let (answer, mut sender) = self.requests.send_request(request, false).expect("it is sent");
        sender.send_data(body.into(), true).expect("it is sent");
        let answer = timeout(PATIENCE, answer)
            .await
            .expect("in time")
            .expect("an answer");
        assert_eq!(answer.status(), 200, "{answer:?}");
        answer.into_body()
    }

    async fn listen(&mut self, id: &str, uri: &str) -> Listen {
        let filter = json!({"notifications": {"resourceSubscriptions": [uri]}});
        let body = self.post(id, "subscriptions/listen", filter).await;
        Listen {
            body,
            text: String::new(),
        }
    }
}

impl Listen {
    /// Returns the next message; `None` at the clean end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let data = frame
                    .lines()
                    .find_map(|line| line.strip_prefix("data: "))
                    .expect("a data line");
                let message = serde_json::from_str(data).expect("JSON");
                self.text = rest.to_owned();
                return Some(message);
            }
            let part = timeout(PATIENCE, self.body.data())
                .await
                .expect("in time")?
                .expect("no reset");
            self.body
                .flow_control()
                .release_capacity(part.len())
                .expect("it was taken");
            self.text += std::str::from_utf8(&part).expect("text");
        }
    }
}

#[test]
fn b_6_5_b_6_6_many_listens_share_one_http2_connection_and_end_with_their_results() {
    const LISTENS: usize = 300;
    let mut stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    let uri = |index: usize| modern.uri(&format!("Item/{}", index % 50));
    RUNTIME.block_on(async {
        let mut connection = Connection::open(modern.address).await;
        let mut listens = Vec::new();
        for index in 0..LISTENS {
            let mut listen = connection.listen(&index.to_string(), &uri(index)).await;
            let message = listen.next().await.expect("an acknowledgement");
            assert_eq!(
                message["method"], "notifications/subscriptions/acknowledged",
                "{message}"
            );
            listens.push(listen);
        }
        let commits = (0..50).map(|key| crate::harness::truth::put("Item", &key.to_string(), "{}"));
        stack.truth().commit_soon(commits.collect()).await;
        for (index, listen) in listens.iter_mut().enumerate() {
            let message = listen.next().await.expect("an update");
            assert_eq!(message["params"]["uri"], uri(index), "{message}");
            assert_eq!(
                message["params"]["_meta"][SUBSCRIPTION_ID],
                index.to_string(),
                "{message}"
            );
        }
        // A request in between has its answer, and one that goes away takes only itself along.
        let mut discovered = connection.post("d", "server/discover", json!({})).await;
        let part = timeout(PATIENCE, discovered.data())
            .await
            .expect("in time")
            .expect("a body")
            .expect("no reset");
        assert!(part.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":\"d\""), "{part:?}");
        drop(listens.remove(0));
        stack
            .truth()
            .commit_soon(vec![crate::harness::truth::put("Item", "1", "{}")])
            .await;
        let message = listens[0].next().await.expect("an update");
        assert_eq!(message["params"]["uri"], uri(1), "{message}");

        stack.gateways[0].service.end_by(Signal::TERM);
        for (index, listen) in listens.iter_mut().enumerate() {
            let mut last = listen.next().await.expect("a result");
            while last["method"] == "notifications/resources/updated" {
                last = listen.next().await.expect("a result");
            }
            assert_eq!(last["id"], (index + 1).to_string(), "{last}");
            assert_eq!(last["result"]["resultType"], "complete", "{last}");
            assert_eq!(listen.next().await, None, "and then the clean end");
        }
    });
}

#[test]
fn an_http2_client_that_reads_nothing_of_one_listen_hears_of_the_others() {
    let stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    RUNTIME.block_on(async {
        let mut connection = Connection::open(modern.address).await;
        let mut stalled = connection.listen("stalled", &modern.uri("Item")).await;
        stalled.next().await.expect("an acknowledgement");
        let mut other = connection.listen("other", &modern.uri("Product/1")).await;
        other.next().await.expect("an acknowledgement");
        // Far more than its window, which is 64 KiB.
        for _ in 0..3 {
            let commits = (0..1_000).map(|_| crate::harness::truth::put("Item", "7", "{}"));
            stack.truth().commit_soon(commits.collect()).await;
        }
        let product = crate::harness::truth::put("Product", "1", r#"{"name":"x"}"#);
        stack.truth().commit_soon(vec![product]).await;
        let message = timeout(Duration::from_secs(20), other.next())
            .await
            .expect("not held up");
        assert_eq!(
            message.expect("an update")["params"]["uri"],
            modern.uri("Product/1")
        );
        // And the stalled one goes on when it is read.
        for _ in 0..3_000 {
            stalled.next().await.expect("an update");
        }
    });
}

#[test]
fn b_4_9_a_listen_that_stalls_by_its_own_window_is_ended_as_slow_and_its_connection_goes_on() {
    let stack = Stack::start_with(1, &[], &[("--write-timeout", "2s")]);
    let modern = Modern::at(stack.gateways[0].application);
    RUNTIME.block_on(async {
        let mut connection = Connection::open(modern.address).await;
        let mut stalled = connection.listen("stalled", &modern.uri("Item")).await;
        stalled.next().await.expect("an acknowledgement");
        let mut other = connection.listen("other", &modern.uri("Product/1")).await;
        other.next().await.expect("an acknowledgement");
        let puts = (0..1_000).map(|_| crate::harness::truth::put("Item", "7", "{}"));
        stack.truth().commit_soon(puts.collect()).await;
        // The other one is read all the while.
        let slow = r#"tidegate_stream_ends_total{reason="slow"} 1"#;
        let ended = async {
            loop {
                let product = crate::harness::truth::put("Product", "1", r#"{"name":"x"}"#);
                stack.truth().commit_soon(vec![product]).await;
                other.next().await.expect("an update");
                let admin = stack.gateways[0].admin;
                let scraped = tokio::task::spawn_blocking(move || {
                    crate::harness::http::Request::get("/metrics").send(admin).text()
                });
                if scraped.await.expect("a scrape").contains(slow) {
                    return;
                }
            }
        };
        timeout(PATIENCE, ended).await.expect("it is ended as slow");
        // Whoever reads on finds what was written before, the reason, and a clean end.
        let mut last = stalled.next().await.expect("an update");
        while last["method"] == "notifications/resources/updated" {
            last = stalled.next().await.expect("an update, or the end");
        }
        assert_eq!(last["method"], "notifications/cancelled", "{last}");
        assert_eq!(last["params"]["reason"], "slow", "{last}");
        assert_eq!(stalled.next().await, None);
        let product = crate::harness::truth::put("Product", "1", r#"{"name":"z"}"#);
        stack.truth().commit_soon(vec![product]).await;
        other.next().await.expect("an update");
    });
}
