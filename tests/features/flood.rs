//! A thousand sessions, a thousand changes, at full speed: each session's ids are compared with the log.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::io::AsyncReadExt;

use crate::harness::RUNTIME;
use crate::harness::http::Chunks;
use crate::harness::mcp::Client;
use crate::harness::stack::Stack;
use crate::harness::truth::{RECORD_SLOT, TABLE_SLOT, event_id, put};

const SESSIONS: usize = 1_000;
const CHANGES: usize = 1_000;
const WRITERS: usize = 32;
const RECORD: &str = "feed+rest://tidegate.test/Item/7";
const TABLE: &str = "feed+rest://tidegate.test/Item";

/// A stream's socket, its decoder, and what that has not seen yet.
type Socket = (TcpStream, Chunks, Vec<u8>);

/// What one session listens to, and which frames it must get.
#[derive(Clone, Copy)]
struct Listener {
    uri: &'static str,
    slot: u64,
}

const LISTENERS: [Listener; 2] = [
    Listener {
        uri: TABLE,
        slot: TABLE_SLOT,
    },
    Listener {
        uri: RECORD,
        slot: RECORD_SLOT,
    },
];

#[test]
fn ordered_unique_reliable_a_thousand_sessions_get_a_thousand_changes_each() {
    raise_descriptor_limit();
    let stack = Stack::start(1);
    let sessions = open_sessions(&stack);

    let readers: Vec<_> = sessions
        .into_iter()
        .map(|(listener, socket)| RUNTIME.spawn(read_ids(listener, socket)))
        .collect();
    let begin = Instant::now();
    write_all(&stack);
    let revisions: Vec<u64> = stack
        .truth()
        .changes("Item", Some("7"))
        .iter()
        .map(|(revision, _)| *revision)
        .collect();
    assert_eq!(revisions.len(), CHANGES);
    println!("{CHANGES} changes committed in {:?}", begin.elapsed());

    for (index, reader) in readers.into_iter().enumerate() {
        let ids = RUNTIME
            .block_on(reader)
            .unwrap_or_else(|error| panic!("session {index}: {error}"));
        let slot = LISTENERS[index % LISTENERS.len()].slot;
        let expected: Vec<u64> = revisions
            .iter()
            .map(|revision| event_id(*revision, slot))
            .collect();
        assert_eq!(ids, expected, "session {index}");
    }
    println!(
        "{} notices delivered in {:?}",
        SESSIONS * CHANGES,
        begin.elapsed()
    );
}

/// Each session holds a connection open, beyond the limit that shells begin with.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        rustix::process::Rlimit {
            current: limit.maximum,
            ..limit
        },
    )
    .expect("a higher limit");
}

/// Opens and subscribes all sessions, several at a time.
fn open_sessions(stack: &Stack) -> Vec<(Listener, Socket)> {
    let address = stack.gateways[0].application;
    let open = |index: usize| {
        let listener = LISTENERS[index % LISTENERS.len()];
        let client = Client::initialize(address, "2025-11-25");
        let stream = client.listen_opened();
        client.subscribe(listener.uri);
        (listener, stream.into_socket())
    };
    std::thread::scope(|scope| {
        let shares: Vec<_> = (0..WRITERS)
            .map(|share| {
                scope.spawn(move || {
                    (share..SESSIONS)
                        .step_by(WRITERS)
                        .map(|at| (at, open(at)))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let mut sessions: Vec<_> = shares
            .into_iter()
            .flat_map(|share| share.join().expect("sessions open"))
            .collect();
        sessions.sort_by_key(|(index, _)| *index);
        sessions.into_iter().map(|(_, session)| session).collect()
    })
}

/// Commits every change by itself, many at a time.
fn write_all(stack: &Stack) {
    let (truth, next) = (stack.truth(), Arc::new(AtomicUsize::new(0)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (truth, next) = (truth.clone(), next.clone());
            RUNTIME.spawn(async move {
                while next.fetch_add(1, Ordering::Relaxed) < CHANGES {
                    truth
                        .commit_soon(vec![put("Item", "7", r#"{"name":"flood"}"#)])
                        .await;
                }
            })
        })
        .collect();
    for writer in writers {
        RUNTIME.block_on(writer).expect("every commit is accepted");
    }
}

/// Reads frames until there are as many as changes, each in exactly its form, and returns their ids.
async fn read_ids(listener: Listener, (socket, mut chunks, mut encoded): Socket) -> Vec<u64> {
    let after_id = format!(
        "\nevent: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{{\"uri\":\"{}\"}}}}\n\n",
        listener.uri
    );
    socket.set_nonblocking(true).expect("a socket option");
    let mut socket = tokio::net::TcpStream::from_std(socket).expect("a socket for the runtime");
    let (mut ids, mut decoded, mut buffer) = (Vec::with_capacity(CHANGES), Vec::new(), vec![0; 32 * 1024]);
    while ids.len() < CHANGES {
        let read = tokio::time::timeout(Duration::from_secs(60), socket.read(&mut buffer)).await;
        let count = read
            .unwrap_or_else(|_| panic!("quiet after {} notices", ids.len()))
            .expect("an open connection");
        assert_ne!(count, 0, "the connection ended after {} notices", ids.len());
        encoded.extend(&buffer[..count]);
        let consumed = chunks.decode(&encoded, &mut decoded);
        encoded.drain(..consumed);
        let consumed = take_ids(&decoded, after_id.as_bytes(), &mut ids);
        decoded.drain(..consumed);
    }
    assert!(
        decoded.is_empty() && ids.len() == CHANGES,
        "more than was written"
    );
    ids
}

/// Takes the ids of all whole frames and returns how many bytes they are.
fn take_ids(decoded: &[u8], after_id: &[u8], ids: &mut Vec<u64>) -> usize {
    let mut rest = decoded;
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
        let mut frame = &rest[..end + 2];
        // A comment may have gone out while the stream was quiet.
        while frame[0] == b':' {
            let line_end = frame
                .iter()
                .position(|byte| *byte == b'\n')
                .expect("a frame has lines");
            frame = &frame[line_end + 1..];
        }
        rest = &rest[end + 2..];
        // The cursor of a stream that began long before the head may be moved on.
        if frame.ends_with(b"\ndata: \n\n") {
            continue;
        }
        let id = frame
            .strip_prefix(b"id: ")
            .and_then(|frame| frame.strip_suffix(after_id));
        let id = id.and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
        ids.push(
            id.unwrap_or_else(|| panic!("not the expected notice: {:?}", String::from_utf8_lossy(frame))),
        );
    }
    decoded.len() - rest.len()
}
