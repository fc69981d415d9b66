//! Many listens of one client on one HTTP/2 connection, by curl.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::harness::modern::{Modern, meta};
use crate::harness::stack::Stack;

/// Whether this machine's curl speaks HTTP/2; in CI it must.
fn curl_has_http2() -> bool {
    let version = Command::new("curl").arg("--version").output();
    let has = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("HTTP2"));
    assert!(
        has || std::env::var_os("CI").is_none(),
        "CI needs a curl with HTTP/2"
    );
    if !has {
        println!("skipped: no curl with HTTP/2");
    }
    has
}

/// Counts the connections that a server on this port has now.
fn connections_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table of connections");
    let local = format!(":{port:04X}");
    let is_established = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|address| address.ends_with(&local)) && fields.nth(1) == Some("01")
    };
    table.lines().filter(is_established).count()
}

struct Curl(Child);

impl Drop for Curl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn b_6_5_many_listens_share_one_http2_connection() {
    if !curl_has_http2() {
        return;
    }
    const LISTENS: usize = 40;
    let stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--no-buffer",
        "--parallel",
        "--parallel-max",
        "50",
        "--http2-prior-knowledge",
    ]);
    for index in 0..LISTENS {
        if index > 0 {
            curl.arg("--next");
            curl.args(["--silent", "--no-buffer", "--http2-prior-knowledge"]);
        }
        let body = json!({"jsonrpc": "2.0", "id": format!("l{index}"), "method": "subscriptions/listen", "params": {
            "_meta": meta(), "notifications": {"resourceSubscriptions": [modern.uri(&format!("Item/{index}"))]}}});
        curl.args(["--header", "Content-Type: application/json"])
            .args(["--header", "Accept: application/json, text/event-stream"])
            .args(["--header", "MCP-Protocol-Version: 2026-07-28"])
            .args(["--header", "Mcp-Method: subscriptions/listen"])
            .args([
                "--data-raw",
                &body.to_string(),
                &format!("http://{}/mcp", modern.address),
            ]);
    }
    let mut curl = Curl(curl.stdout(Stdio::piped()).spawn().expect("curl starts"));
    let output = BufReader::new(curl.0.stdout.take().expect("a piped output"));
    let (mut acknowledged, mut updated) = (0, 0);
    for line in output.lines() {
        let line = line.expect("text");
        let Some(data) = line.strip_prefix("data: ") else {
            continue;
        };
        let message: serde_json::Value = serde_json::from_str(data).expect("JSON");
        match message["method"].as_str() {
            Some("notifications/subscriptions/acknowledged") => acknowledged += 1,
            Some("notifications/resources/updated") => {
                let id = message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
                    .as_str()
                    .expect("an id");
                let uri = message["params"]["uri"].as_str().expect("a uri");
                assert_eq!(uri, modern.uri(&format!("Item/{}", &id[1..])));
                updated += 1;
            }
            _ => panic!("{message}"),
        }
        if acknowledged == LISTENS && updated == 0 {
            let connections = connections_to(modern.address.port());
            assert!(
                connections <= 2,
                "{LISTENS} listens took {connections} connections"
            );
            for index in 0..LISTENS {
                stack.put(&format!("Item/{index}"), "{}");
            }
            acknowledged += 1;
        }
        if updated == LISTENS {
            return;
        }
    }
    panic!("curl ended: {acknowledged} acknowledged, {updated} updated");
}
