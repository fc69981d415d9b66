//! B-4.9: clients that are gone without a word.

use socket2::{SockFilter, SockRef};

use super::metrics::scrape;
use crate::harness::eventually;
use crate::harness::modern::Modern;
use crate::harness::stack::{Gateway, Stack};

const ITEM: &str = "feed+rest://tidegate.test/Item/7";

/// `BPF_RET | BPF_K`: the filter ends, and lets so many bytes through as it says.
const BPF_RETURN: u16 = 0x06;

#[test]
fn field_case_a19_b_4_9_a_peer_that_is_dead_is_found_although_nothing_fails() {
    // Whoever does not read is ended after hours only; a comment is all that is written.
    let quick = [
        ("TIDEGATE_HTTP__PEER_TIMEOUT", "1s"),
        ("TIDEGATE_STREAM__KEEP_ALIVE", "1s"),
    ];
    let stack = Stack::start(1);
    let gateway = Gateway::start_in(&quick, stack.feed.address, &[("--write-timeout", "1h")]);
    gateway.wait_until_ready();
    let [dead, alive] = [(); 2].map(|()| gateway.client());
    let modern = Modern::at(gateway.application);
    let mut others = alive.listen_opened();
    let sockets = [
        dead.listen_opened().into_socket().0,
        modern.listen(&[&modern.uri("Item/7")]).stream.into_socket().0,
    ];
    let streams = |what: &str, count: u64| {
        eventually(what, || match scrape(&gateway)["tidegate_streams"] {
            now if now == count => Ok(()),
            now => Err(format!("{now} streams")),
        });
    };
    streams("all are open", 3);
    for socket in &sockets {
        // As from a machine without power: nothing of it is acknowledged, and nothing refused.
        let drop_all = [SockFilter::new(BPF_RETURN, 0, 0, 0)];
        SockRef::from(socket).attach_filter(&drop_all).expect("a filter");
    }
    streams("those of the dead have ended", 1);
    let truth = stack.truth();
    eventually("the session's stream is given back", || {
        match truth.session(&dead.session).map(|session| session.owner_instance) {
            Some(owner) if owner.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    alive.subscribe(ITEM);
    gateway.put("Item/7", "{}");
    others.update(ITEM);
    drop(sockets);
}
