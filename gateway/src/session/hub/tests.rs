//! The hub with streams but without sockets and feed service, against a naive model.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake, Waker};

use proptest::prelude::*;

use super::*;
use crate::feed::{Entry, StoredSubscription, Table};
use crate::protocol::era::Version;
use crate::protocol::frame::{self, EncodedUri};
use crate::session::registry::Session;
use crate::session::replies::Door;
use crate::session::stream::{Block, Next};
use crate::session::vigil::{self, Hold, Vigil};

const INSTANCE: &str = "here";

fn stream_of(session: &Session) -> Stream {
    held_stream_of(session, Arc::<Vigil>::default().hold())
}

fn held_stream_of(session: &Session, hold: Hold) -> Stream {
    Stream::new(
        session,
        Duration::ZERO,
        Door::Streamable,
        Arc::default(),
        Arc::default(),
        hold,
    )
}

struct Bench {
    hub: Hub,
    ring: Arc<Ring>,
    table: Arc<Table>,
    fallen_behind: mpsc::UnboundedReceiver<Arc<Stream>>,
    vigil: Arc<Vigil>,
    revision: u64,
    told: Mutex<Vec<String>>,
}

impl Bench {
    fn new(pending_max: usize) -> Bench {
        let ring = Arc::new(Ring::new(1 << 20));
        let (behind, fallen_behind) = mpsc::unbounded_channel();
        let position = watch::Sender::new(0);
        let hub = Hub::new(
            Arc::clone(&ring),
            INSTANCE,
            position,
            pending_max,
            1 << 20,
            behind,
        );
        let table = Arc::new(Table {
            database: "data".into(),
            name: "Product".into(),
            path: "Product".into(),
            description: String::new(),
            attributes: Vec::new(),
        });
        Bench {
            hub,
            ring,
            table,
            fallen_behind,
            vigil: Arc::default(),
            revision: 0,
            told: Mutex::default(),
        }
    }

    fn append(&mut self, body: Body) -> u64 {
        self.revision += 1;
        self.ring.append(
            [Entry {
                revision: self.revision,
                body,
            }],
            self.revision,
            0,
        );
        self.revision
    }

    fn change(&mut self, key: &str) -> u64 {
        let table = Arc::clone(&self.table);
        self.append(Body::Change {
            table,
            key: key.into(),
        })
    }

    fn command(&mut self, session: &str, command: SessionCommand) -> u64 {
        self.append(Body::Session {
            id: session.into(),
            command,
        })
    }

    fn subscribe(&mut self, session: &str, uri: &str, spelling: &str) -> u64 {
        self.command(
            session,
            SessionCommand::Subscribed {
                uri: uri.into(),
                spelling: spelling.into(),
            },
        )
    }

    fn pass(&self) {
        while self.hub.pass(&|told| {
            self.told.lock().unwrap().push(match told {
                Told::SessionEnded(session) => format!("{session} ended"),
                Told::HistoryLost => "history lost".to_owned(),
                Told::Orphaned { session, fence, .. } => format!("{session} orphaned at {fence}"),
            });
        }) {}
    }

    /// Opens a stream as a GET does, and lets it go live.
    fn open(&mut self, session: &str) -> Arc<Stream> {
        let session_record = Session::new(session.into(), "", Version::V2025_11_25);
        let stream = Arc::new(held_stream_of(&session_record, self.vigil.hold()));
        self.hub.attach(&stream);
        let fence = self.command(
            session,
            SessionCommand::Opened {
                instance: INSTANCE.into(),
                principal: "".into(),
            },
        );
        self.pass();
        self.hub.adopt(&stream, fence, Subscriptions::default()).unwrap();
        let after = EventId::new(fence, Slot::Opening);
        assert!(matches!(self.hub.go_live(&stream, after, fence), Step::Live));
        self.read(&stream);
        stream
    }

    /// Reads what the stream would write, as text; `None` at its end.
    fn read(&self, stream: &Stream) -> Option<String> {
        let mut text = Vec::new();
        loop {
            let context = Context::from_waker(Waker::noop());
            let (next, awaited) = stream.poll_next(&self.hub.frames, &context);
            if awaited {
                self.hub.note_polled();
            }
            match next {
                Poll::Ready(Next::Write(bytes)) => text.extend_from_slice(&bytes),
                Poll::Ready(Next::End(_)) => return None,
                Poll::Ready(Next::FellBehind) => panic!("a frame was dropped"),
                Poll::Pending => return Some(String::from_utf8(text).unwrap()),
            }
        }
    }
}

fn uri(key: Option<&str>) -> String {
    key.map_or_else(
        || "feed+rest:///Product".into(),
        |key| format!("feed+rest:///Product/{key}"),
    )
}

fn frame(revision: u64, slot: Slot, spelling: &str) -> String {
    format!(
        "id: {}\nevent: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\
         \"params\":{{\"uri\":\"{spelling}\"}}}}\n\n",
        EventId::new(revision, slot)
    )
}

#[test]
fn a_subscription_hears_of_what_comes_after_its_own_entry() {
    let mut bench = Bench::new(100);
    let stream = bench.open("s");
    bench.change("42");
    bench.subscribe("s", &uri(Some("42")), "feed+rest://h/Product/42");
    let heard = bench.change("42");
    bench.change("43");
    bench.pass();
    assert_eq!(
        bench.read(&stream).unwrap(),
        frame(heard, Slot::Record, "feed+rest://h/Product/42")
    );
}

#[test]
fn table_and_record_come_in_the_order_of_their_ids() {
    let mut bench = Bench::new(100);
    let stream = bench.open("s");
    bench.subscribe("s", &uri(Some("42")), "R");
    bench.subscribe("s", &uri(None), "T");
    let (first, second) = (bench.change("42"), bench.change("7"));
    bench.pass();
    let expected =
        frame(first, Slot::Table, "T") + &frame(first, Slot::Record, "R") + &frame(second, Slot::Table, "T");
    assert_eq!(bench.read(&stream).unwrap(), expected);
}

#[test]
fn each_session_gets_the_spelling_of_its_own_subscribe() {
    let mut bench = Bench::new(100);
    let (one, other) = (bench.open("one"), bench.open("other"));
    bench.subscribe("one", &uri(Some("42")), "feed+rest://h/Product/42");
    bench.subscribe("other", &uri(Some("42")), "http://h/Product/%34%32");
    let revision = bench.change("42");
    bench.pass();
    assert_eq!(
        bench.read(&one).unwrap(),
        frame(revision, Slot::Record, "feed+rest://h/Product/42")
    );
    assert_eq!(
        bench.read(&other).unwrap(),
        frame(revision, Slot::Record, "http://h/Product/%34%32")
    );
}

#[test]
fn after_an_unsubscribe_nothing_more_is_told_not_even_what_waits() {
    let mut bench = Bench::new(100);
    let stream = bench.open("s");
    bench.subscribe("s", &uri(Some("42")), "R");
    bench.subscribe("s", &uri(Some("7")), "S");
    bench.change("42");
    let other = bench.change("7");
    bench.pass();
    bench.command(
        "s",
        SessionCommand::Unsubscribed {
            uri: uri(Some("42")).into(),
        },
    );
    bench.change("42");
    bench.pass();
    assert_eq!(bench.read(&stream).unwrap(), frame(other, Slot::Record, "S"));
}

#[test]
fn an_open_elsewhere_and_a_deletion_end_the_stream() {
    for (command, forgotten) in [
        (
            SessionCommand::Opened {
                instance: "elsewhere".into(),
                principal: "".into(),
            },
            false,
        ),
        (SessionCommand::Deleted, true),
    ] {
        let mut bench = Bench::new(100);
        let stream = bench.open("s");
        bench.subscribe("s", &uri(None), "T");
        bench.command("s", command);
        bench.change("42");
        bench.pass();
        assert_eq!(bench.read(&stream), None);
        assert!(!bench.hub.holds("s"));
        assert_eq!(
            bench.told.lock().unwrap().contains(&"s ended".to_owned()),
            forgotten
        );
    }
}

#[test]
fn a_newer_stream_of_this_instance_takes_over_and_stays() {
    let mut bench = Bench::new(100);
    let older = bench.open("s");
    bench.subscribe("s", &uri(None), "T");
    bench.pass();
    let newer = bench.open("s");
    assert_eq!(bench.read(&older), None);
    assert!(bench.read(&newer).is_some());
    assert_eq!(bench.hub.detach(&older), None);
    assert!(bench.hub.holds("s"));
    assert!(bench.hub.detach(&newer).is_some());
    assert!(!bench.hub.holds("s"));
}

#[test]
fn a_stream_with_too_many_waiting_falls_behind_and_is_caught_up() {
    let mut bench = Bench::new(3);
    let stream = bench.open("s");
    bench.subscribe("s", &uri(None), "T");
    let first = bench.change("1");
    bench.pass();
    assert_eq!(bench.read(&stream).unwrap(), frame(first, Slot::Table, "T"));
    let missed: Vec<u64> = (0..4).map(|_| bench.change("1")).collect();
    bench.pass();
    assert_eq!(bench.read(&stream).unwrap(), "");
    let behind = bench.fallen_behind.try_recv().unwrap();
    assert!(Arc::ptr_eq(&behind, &stream));
    assert_eq!(stream.cursor(), EventId::new(first, Slot::Table));
    assert!(matches!(
        bench.hub.go_live(&stream, stream.cursor(), first),
        Step::Live
    ));
    let live = bench.change("1");
    bench.pass();
    let expected: String = missed
        .into_iter()
        .chain([live])
        .map(|revision| frame(revision, Slot::Table, "T"))
        .collect();
    assert_eq!(bench.read(&stream).unwrap(), expected);
}

/// Counts how often it wakes.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_writer_that_looks_in_the_middle_of_a_pass_is_woken_after_it() {
    let mut bench = Bench::new(100);
    let stream = bench.open("s");
    bench.subscribe("s", &uri(None), "T");
    bench.pass();
    // The writer is at work, so it has left no waker, …
    let mut guard = bench.hub.lock();
    drop(stream.forget_writer());
    bench.hub.note_change(&mut guard, 9, "Product", "42");
    bench.hub.hand_out(&mut guard, bench.hub.frames.next_position());
    // … and looks while the frame is handed out and not published.
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let (next, _) = stream.poll_next(&bench.hub.frames, &Context::from_waker(&waker));
    assert!(next.is_pending());
    bench.hub.publish(&mut guard);
    drop(guard);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert_eq!(bench.read(&stream).unwrap(), frame(9, Slot::Table, "T"));
}

#[tokio::test]
async fn b_4_1_a_stream_that_is_held_writes_nothing_and_loses_nothing() {
    for is_taken_over in [true, false] {
        let mut bench = Bench::new(100);
        let stream = bench.open("s");
        bench.subscribe("s", &uri(None), "T");
        let revision = bench.change("42");
        bench.pass();
        // Just after the boot, which was longer ago than a beat may be late.
        bench.vigil.beat(Duration::from_millis(1));
        stream.keep_alive(tokio::time::Instant::now());
        assert_eq!(bench.read(&stream).unwrap(), "");
        bench.vigil.beat(vigil::now());
        assert_eq!(bench.read(&stream).unwrap(), "", "held on behind a beat");
        if is_taken_over {
            let opened = SessionCommand::Opened {
                instance: "there".into(),
                principal: "".into(),
            };
            bench.command("s", opened);
            bench.pass();
            assert_eq!(bench.read(&stream), None);
            continue;
        }
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        let (next, _) = stream.poll_next(&bench.hub.frames, &Context::from_waker(&waker));
        assert!(next.is_pending());
        // This machine may be so busy that the beat is old again.
        bench.vigil.beat(vigil::now());
        while !bench.vigil.release(bench.vigil.gap().await, vigil::now()) {
            bench.vigil.beat(vigil::now());
        }
        stream.look_again();
        assert_eq!(bell.0.load(Ordering::Relaxed), 1);
        assert_eq!(bench.read(&stream).unwrap(), frame(revision, Slot::Table, "T"));
    }
}

#[test]
fn what_a_catch_up_prepared_is_taken_back_by_an_unsubscribe_too() {
    let mut bench = Bench::new(100);
    // Another session has a group of this spelling, with its own copy of the text.
    let other = bench.open("other");
    bench.subscribe("other", &uri(None), "T");
    let session = Session::new("s".into(), "", Version::V2025_11_25);
    let stream = Arc::new(stream_of(&session));
    bench.hub.attach(&stream);
    let opened = SessionCommand::Opened {
        instance: INSTANCE.into(),
        principal: "".into(),
    };
    let fence = bench.command("s", opened);
    bench.change("1");
    bench.pass();
    let stored = StoredSubscription {
        uri: uri(None),
        spelling: "T".into(),
        revision: 0,
    };
    bench
        .hub
        .adopt(&stream, fence, Subscriptions::read(&[stored], |_| true).0)
        .unwrap();
    let live = bench
        .hub
        .go_live(&stream, EventId::new(fence, Slot::Opening), fence);
    assert!(matches!(live, Step::Live));
    bench.command(
        "s",
        SessionCommand::Unsubscribed {
            uri: uri(None).into(),
        },
    );
    bench.pass();
    assert_eq!(bench.read(&stream).unwrap(), ": open\n");
    assert!(!bench.read(&other).unwrap().is_empty());
}

#[test]
fn blocks_whose_subscription_ended_meanwhile_are_not_prepared() {
    let mut bench = Bench::new(100);
    let stream = bench.open("s");
    bench.subscribe("s", &uri(None), "T");
    bench.subscribe("s", &uri(Some("1")), "R");
    bench.pass();
    let snapshot = bench.hub.snapshot(&stream).unwrap();
    let blocks: Vec<Block> = ["T", "R"]
        .into_iter()
        .map(|spelling| {
            let spelling = EncodedUri::new(spelling);
            let id = EventId::new(bench.revision, Slot::Table);
            Block {
                id: Some(id),
                bytes: frame::updated(Some(id), &spelling),
                spelling: Some(Arc::new(spelling)),
            }
        })
        .collect();
    // One is gone; the other was subscribed anew, after what the block tells.
    bench.command(
        "s",
        SessionCommand::Unsubscribed {
            uri: uri(Some("1")).into(),
        },
    );
    bench.command(
        "s",
        SessionCommand::Unsubscribed {
            uri: uri(None).into(),
        },
    );
    bench.subscribe("s", &uri(None), "T");
    bench.pass();
    bench.hub.prepare(
        &stream,
        &snapshot,
        blocks.clone(),
        EventId::new(bench.revision, Slot::Bookmark),
    );
    assert_eq!(bench.read(&stream).unwrap(), "");
    let now = bench.hub.snapshot(&stream).unwrap();
    bench.hub.prepare(
        &stream,
        &now,
        blocks,
        EventId::new(bench.revision, Slot::Bookmark),
    );
    assert!(!bench.read(&stream).unwrap().is_empty());
}

#[test]
fn a_snapshot_knows_every_subscription_up_to_its_position() {
    let mut bench = Bench::new(100);
    let stream = bench.open("s");
    bench.subscribe("s", &uri(None), "T");
    assert_eq!(
        bench.hub.snapshot(&stream).unwrap().subscriptions.iter().count(),
        0
    );
    bench.pass();
    let snapshot = bench.hub.snapshot(&stream).unwrap();
    assert_eq!(
        (snapshot.subscriptions.iter().count(), snapshot.position),
        (1, bench.revision)
    );
}

#[test]
fn an_open_whose_client_left_is_given_back() {
    let mut bench = Bench::new(100);
    let opened = || SessionCommand::Opened {
        instance: INSTANCE.into(),
        principal: "".into(),
    };
    // It left before the open was seen, …
    let fence = bench.command("s", opened());
    bench.pass();
    assert_eq!(*bench.told.lock().unwrap(), [format!("s orphaned at {fence}")]);
    // … after it, but before the stream was adopted, …
    let session = Session::new("s".into(), "", Version::V2025_11_25);
    let stream = Arc::new(stream_of(&session));
    bench.hub.attach(&stream);
    let fence = bench.command("s", opened());
    bench.pass();
    // … or so did the stream that replaced it.
    let newer = Arc::new(stream_of(&session));
    bench.hub.attach(&newer);
    assert_eq!(bench.hub.detach(&stream), None);
    assert_eq!(bench.hub.detach(&newer), Some(fence));
}

#[test]
fn a_catch_up_that_waits_goes_on_when_its_blocks_are_taken_back() {
    let mut bench = Bench::new(100);
    let stream = bench.open("s");
    let spelling = Arc::new(EncodedUri::new("T"));
    let block = Block {
        id: None,
        bytes: frame::updated(None, &spelling),
        spelling: Some(Arc::clone(&spelling)),
    };
    stream.prepare([block], stream.cursor());
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut context = Context::from_waker(&waker);
    let mut drained = std::pin::pin!(stream.drained());
    assert!(drained.as_mut().poll(&mut context).is_pending());
    stream.discard(&bench.hub.frames, &spelling);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert!(drained.as_mut().poll(&mut context).is_ready());
}

#[test]
fn another_history_ends_every_stream() {
    let mut bench = Bench::new(100);
    let stream = bench.open("s");
    bench.ring.reset(1, FeedIdentity::NONE);
    bench.pass();
    assert_eq!(bench.read(&stream), None);
    assert_eq!(bench.hub.position(), 1);
    assert_eq!(*bench.told.lock().unwrap(), ["history lost"]);
}

#[test]
fn a_bookmark_moves_the_cursor_of_a_quiet_stream_and_only_then() {
    let mut bench = Bench::new(100);
    let stream = bench.open("s");
    let foreign = bench.change("42");
    bench.pass();
    let now = tokio::time::Instant::now() + Duration::from_secs(1);
    stream.bookmark(bench.hub.position(), now, u64::MAX);
    assert_eq!(
        bench.read(&stream).unwrap(),
        format!("id: {}\ndata: \n\n", EventId::new(foreign, Slot::Bookmark))
    );
    stream.bookmark(bench.hub.position(), now, u64::MAX);
    assert_eq!(bench.read(&stream).unwrap(), "");
}

#[test]
fn b_4_8_bookmarkable_a_cursor_far_behind_is_moved_on_at_once() {
    let mut bench = Bench::new(100);
    let stream = bench.open("s");
    let opened_at = tokio::time::Instant::now() - Duration::from_secs(1);
    for _ in 0..2 {
        bench.change("42");
        bench.pass();
    }
    stream.bookmark(bench.hub.position(), opened_at, 3);
    assert_eq!(bench.read(&stream).unwrap(), "");
    let last = bench.change("42");
    bench.pass();
    stream.bookmark(bench.hub.position(), opened_at, 3);
    assert_eq!(
        bench.read(&stream).unwrap(),
        format!("id: {}\ndata: \n\n", EventId::new(last, Slot::Bookmark))
    );
}

#[derive(Clone, Debug)]
enum Act {
    Change(u8),
    Subscribe(u8, Option<u8>),
    Unsubscribe(u8, Option<u8>),
    Pass,
    Read(u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let key = || proptest::option::of(0..3u8);
    let act = prop_oneof![
        4 => (0..3u8).prop_map(Act::Change),
        2 => (0..3u8, key()).prop_map(|(session, key)| Act::Subscribe(session, key)),
        1 => (0..3u8, key()).prop_map(|(session, key)| Act::Unsubscribe(session, key)),
        2 => Just(Act::Pass),
        2 => (0..3u8).prop_map(Act::Read),
    ];
    proptest::collection::vec(act, 1..200)
}

proptest! {
    /// Each stream carries exactly the frames of a naive list of what its session wants, in order, however the work is cut
    /// into passes and reads. (An unsubscribe takes back what waits; the model reads before it, so nothing does.)
    #[test]
    fn streams_carry_what_a_naive_model_says(acts in acts()) {
        let mut bench = Bench::new(100_000);
        let streams: Vec<Arc<Stream>> = (0..3).map(|n| bench.open(&n.to_string())).collect();
        let mut wanted: Vec<BTreeMap<Option<u8>, String>> = vec![BTreeMap::new(); 3];
        let mut expected = vec![String::new(); 3];
        let mut carried = vec![String::new(); 3];
        for act in acts {
            match act {
                Act::Change(key) => {
                    let revision = bench.change(&key.to_string());
                    for (wanted, expected) in wanted.iter().zip(&mut expected) {
                        for (slot, target) in [(Slot::Table, None), (Slot::Record, Some(key))] {
                            if let Some(spelling) = wanted.get(&target) {
                                expected.push_str(&frame(revision, slot, spelling));
                            }
                        }
                    }
                }
                Act::Subscribe(session, key) => {
                    let spelling = format!("spelling-{}-{key:?}", session % 2);
                    let canonical = uri(key.map(|key| key.to_string()).as_deref());
                    bench.subscribe(&session.to_string(), &canonical, &spelling);
                    wanted[usize::from(session)].entry(key).or_insert(spelling);
                }
                Act::Unsubscribe(session, key) => {
                    bench.pass();
                    carried[usize::from(session)] += &bench.read(&streams[usize::from(session)]).unwrap();
                    let canonical = uri(key.map(|key| key.to_string()).as_deref());
                    let command = SessionCommand::Unsubscribed { uri: canonical.into() };
                    bench.command(&session.to_string(), command);
                    wanted[usize::from(session)].remove(&key);
                }
                Act::Pass => bench.pass(),
                Act::Read(session) => {
                    carried[usize::from(session)] += &bench.read(&streams[usize::from(session)]).unwrap();
                }
            }
        }
        bench.pass();
        for (stream, carried) in streams.iter().zip(&mut carried) {
            carried.push_str(&bench.read(stream).unwrap());
        }
        prop_assert_eq!(carried, expected);
    }
}
