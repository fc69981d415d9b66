//! The proof of the proof: a good history is damaged in one place, and the validators must name the damage.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::violations;
use crate::guarantees::history::{
    Asked, Body, Call, Commit, Compaction, Connection, Entry, Frame, History, Kind, Memory, Read, Start,
    Watched, What,
};
use crate::guarantees::ledger::{Bounds, Ledger};
use crate::harness::truth::event_id;

const SESSION: &str = "s";
const TABLE: &str = "feed+rest://h/Item";
const RECORD: &str = "feed+rest://h/Item/7";
const LISTS: [&str; 3] = ["tools", "resources", "prompts"];

/// A run of one session; revision r is of the moment r.
struct World {
    begin: Instant,
    entries: Vec<Entry>,
    commits: Vec<Commit>,
    compactions: Vec<Compaction>,
    memory: Memory,
    catch_up: usize,
    history: History,
}

impl World {
    /// A good one: it subscribes to a table and a record, takes its own stream over, unsubscribes, and comes back behind a compaction.
    fn good() -> World {
        let mut world = World {
            begin: Instant::now(),
            entries: Vec::new(),
            commits: Vec::new(),
            compactions: Vec::new(),
            memory: Memory {
                who: "gateway".into(),
                baseline_bytes: 10,
                peak_bytes: 20,
            },
            catch_up: 80,
            history: History {
                who: "session".into(),
                kind: Kind::Session {
                    id: SESSION.into(),
                    has_bookmarks: true,
                },
                calls: Vec::new(),
                connections: Vec::new(),
                reads: vec![Read {
                    watched: Watched::record("Product", "7"),
                    after: event_id(4, 0),
                    found: Some(5),
                }],
                complaints: Vec::new(),
                complete_until: Some(17),
            },
        };
        let session = || SESSION.to_owned();
        let subscribed = |uri: &str| Body::Subscribed {
            session: session(),
            spelling: uri.into(),
        };
        world.entry(Body::Opened { session: session() });
        world.entry(subscribed(TABLE));
        world.entry(subscribed(RECORD));
        world.commit(&[("Item", "7"), ("Product", "7")]);
        world.commit(&[("Item", "8")]);
        world.entry(Body::Other);
        world.commit(&[("Item", "7")]);
        world.entry(Body::Opened { session: session() });
        world.commit(&[("Item", "8")]);
        world.entry(Body::Unsubscribed {
            session: session(),
            spelling_of: "feed+rest:///Item/7".into(),
        });
        world.commit(&[("Item", "7")]);
        world.entry(Body::Closed {
            session: session(),
            fence: 9,
        });
        world.commit(&[("Item", "7")]);
        world.commit(&[("Item", "8")]);
        world.compactions.push(Compaction {
            started: world.moment(15.6),
            ended: world.moment(15.8),
            oldest: 16,
        });
        world.entry(Body::Opened { session: session() });
        world.commit(&[("Item", "7")]);

        world.call(Asked::Subscribe, TABLE, 1.5, 2.5);
        world.call(Asked::Subscribe, RECORD, 2.5, 3.5);
        world.call(Asked::Unsubscribe, RECORD, 10.9, 11.2);

        world.connect(0.9, Start::Absent, &[]);
        world.frame(1.2, Some((1, 6)), What::Opening);
        for (revision, slot, uri) in [(4, 0, TABLE), (4, 1, RECORD), (6, 0, TABLE)] {
            world.updated(6.5, Some((revision, slot)), uri);
        }
        world.connect(8.6, Start::After(event_id(6, 0)), &[TABLE, RECORD]);
        world.history.connections[0].taken_over_by = Some(1);
        world.history.connections[0].has_ended = true;
        world.updated(9.2, Some((8, 0)), TABLE);
        world.updated(9.2, Some((8, 1)), RECORD);
        world.frame(9.3, Some((9, 6)), What::Opening);
        world.updated(10.2, Some((10, 0)), TABLE);
        world.frame(11.3, Some((11, 0xffff)), What::Bookmark);
        world.updated(12.2, Some((12, 0)), TABLE);
        world.connect(15.9, Start::After(event_id(12, 0)), &[TABLE]);
        world.updated(16.1, None, TABLE);
        for list in LISTS {
            let method = format!("notifications/{list}/list_changed");
            world.frame(16.2, None, What::ListChanged(method.into()));
        }
        world.frame(16.3, Some((16, 6)), What::Opening);
        world.updated(17.2, Some((17, 0)), TABLE);
        world
    }

    fn moment(&self, at: f64) -> Instant {
        self.begin + Duration::from_secs_f64(at)
    }

    fn entry(&mut self, body: Body) {
        let revision = self.entries.len() as u64 + 1;
        self.entries.push(Entry {
            revision,
            commit_end: revision,
            time_ms: 0,
            body,
        });
    }

    fn commit(&mut self, records: &[(&str, &str)]) {
        let end = (self.entries.len() + records.len()) as u64;
        let begin = self.entries.len() as f64 + 1.0;
        for (table, key) in records {
            self.entry(Body::Change {
                watched: Watched::record(table, key),
                is_delete: false,
            });
        }
        for entry in self.entries.iter_mut().rev().take(records.len()) {
            entry.commit_end = end;
        }
        self.commits.push(Commit {
            started: self.moment(begin),
            changes: records
                .iter()
                .map(|(table, key)| Watched::record(table, key))
                .collect(),
            acknowledged: Some((self.moment(end as f64 + 0.5), end)),
        });
    }

    fn call(&mut self, what: Asked, uri: &str, asked: f64, answered: f64) {
        let call = Call {
            what,
            uri: uri.into(),
            asked: self.moment(asked),
            answered: Some(self.moment(answered)),
        };
        self.history.calls.push(call);
    }

    fn connect(&mut self, asked: f64, start: Start, held: &[&str]) {
        let held = held.iter().map(|uri| Arc::from(*uri)).collect();
        let connection = Connection::new(start, self.moment(asked), held);
        self.history.connections.push(connection);
    }

    fn frame(&mut self, at: f64, id: Option<(u64, u64)>, what: What) {
        let frame = Frame {
            at: self.moment(at),
            id: id.map(|(revision, slot)| event_id(revision, slot)),
            what,
            bytes: 0,
        };
        self.history
            .connections
            .last_mut()
            .expect("a connection")
            .frames
            .push(frame);
    }

    fn updated(&mut self, at: f64, id: Option<(u64, u64)>, uri: &str) {
        self.frame(at, id, What::Updated(uri.into()));
    }

    fn frames(&mut self, connection: usize) -> &mut Vec<Frame> {
        &mut self.history.connections[connection].frames
    }

    /// Takes the frame with this id away.
    fn lose(&mut self, connection: usize, revision: u64, slot: u64) {
        let id = event_id(revision, slot);
        let frames = self.frames(connection);
        let before = frames.len();
        frames.retain(|frame| frame.id != Some(id));
        assert_eq!(frames.len() + 1, before, "there was such a frame");
    }

    /// Which guarantees the validators say are broken.
    fn broken(self) -> Vec<&'static str> {
        let bounds = Bounds {
            catch_up: self.catch_up,
            memory_bytes: 50,
        };
        let memory = vec![self.memory];
        let ledger = Ledger::new(self.entries, self.commits, self.compactions, memory, bounds, true);
        let found = violations(&ledger, &[self.history]);
        let mut names: Vec<&str> = found.iter().map(|violation| violation.guarantee).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Damages a good world and looks at what the validators name.
fn check(damage: &str, expected: &[&str], make: impl FnOnce(&mut World)) {
    let mut world = World::good();
    make(&mut world);
    assert_eq!(world.broken(), expected, "{damage}");
}

#[test]
fn a_good_history_breaks_nothing() {
    check("none", &[], |_| {});
    check("one that is under way", &[], |world| {
        world.history.complete_until = None;
        world.frames(2).clear();
    });
    check(
        "a gap that broke off before its end is told again",
        &[],
        |world| {
            let mut again = world.history.connections[2].clone();
            again.frames.truncate(2);
            world.history.connections.insert(2, again);
        },
    );
    check("more were missed than are sent singly", &[], |world| {
        world.catch_up = 1;
        world.lose(0, 4, 0);
    });
    check("a resume from an older id brings frames again", &[], |world| {
        world.history.connections[1].start = Start::After(event_id(4, 1));
        let again = world.frames(0)[3].clone();
        world.frames(1).insert(0, again);
    });
}

#[test]
fn ordered_and_unique_name_frames_that_are_swapped_or_doubled() {
    check("two frames are swapped", &["ordered"], |world| {
        world.frames(0).swap(2, 3)
    });
    check("a frame comes twice", &["unique"], |world| {
        let frame = world.frames(0)[3].clone();
        world.frames(0).push(frame);
    });
    check(
        "a frame comes again after a resume from it",
        &["unique"],
        |world| {
            let frame = world.frames(0)[3].clone();
            world.frames(1).insert(0, frame);
        },
    );
    check(
        "a frame comes on the stream that was taken over",
        &["unique"],
        |world| {
            let frame = world.frames(1)[3].clone();
            world.frames(0).push(frame);
        },
    );
    check(
        "the same of a version that is not told of the open",
        &["unique"],
        |world| {
            let frame = world.frames(1)[3].clone();
            world.frames(0).push(frame);
            world.frames(1).retain(|frame| frame.what != What::Opening);
        },
    );
    check("a stream that was taken over stays open", &["unique"], |world| {
        world.history.connections[0].has_ended = false;
    });
    check("a close of an older open counts", &["unique"], |world| {
        world.entries[12].body = Body::Closed {
            session: SESSION.into(),
            fence: 1,
        };
    });
}

#[test]
fn reliable_resumable_and_bookmarkable_name_what_is_missing() {
    check("a live frame is lost", &["reliable"], |world| world.lose(0, 4, 0));
    check(
        "the last frame before a takeover is lost",
        &["reliable"],
        |world| world.lose(0, 6, 0),
    );
    check("a frame that was missed is not sent", &["resumable"], |world| {
        world.lose(1, 8, 0)
    });
    check("nothing that was missed is sent", &["resumable"], |world| {
        world.lose(1, 8, 0);
        world.lose(1, 8, 1);
    });
    check("the very last frame is lost", &["reliable"], |world| {
        world.lose(2, 17, 0)
    });
    check("few are folded", &["resumable"], |world| {
        world.catch_up = 2;
        world.lose(1, 8, 0);
    });
    check(
        "a subscribe was answered before it was committed",
        &["reliable"],
        |world| {
            world.entries.swap(2, 6);
            for index in [2, 6] {
                world.entries[index].revision = index as u64 + 1;
                world.entries[index].commit_end = index as u64 + 1;
            }
            world.lose(0, 4, 1);
        },
    );
    check(
        "a bookmark passes over a frame that was not written",
        &["bookmarkable", "reliable"],
        |world| {
            world.lose(1, 10, 0);
        },
    );
    check("a bookmark tells nothing new", &["bookmarkable"], |world| {
        world.frames(1)[4].id = Some(event_id(10, 0xffff));
    });
}

#[test]
fn told_and_filtered_name_gaps_and_what_was_not_subscribed() {
    check("a gap is not told", &["resumable", "told"], |world| {
        world.frames(2).retain(|frame| frame.id.is_some());
    });
    check("a gap does not tell of a URI", &["resumable", "told"], |world| {
        world.frames(2).remove(0);
    });
    check("a gap does not tell of a list", &["told"], |world| {
        world.frames(2).remove(2);
    });
    check("a gap tells of a URI twice", &["told"], |world| {
        let frame = world.frames(2)[0].clone();
        world.frames(2).insert(0, frame);
    });
    check("a gap is told of what the log has", &["told"], |world| {
        let mut frame = world.frames(1)[0].clone();
        frame.id = None;
        world.frames(1).insert(0, frame);
    });
    check("a notice is of a foreign URI", &["filtered"], |world| {
        world.frames(0)[3].what = What::Updated("feed+rest://h/Product".into());
    });
    check("a notice comes after the unsubscribe", &["filtered"], |world| {
        let mut frame = world.frames(1)[5].clone();
        frame.id = Some(event_id(12, 1));
        frame.what = What::Updated(RECORD.into());
        world.frames(1).push(frame);
    });
    check("a gap tells of a foreign URI", &["filtered"], |world| {
        let mut frame = world.frames(2)[0].clone();
        frame.what = What::Updated("feed+rest://h/Product".into());
        world.frames(2).insert(0, frame);
    });
}

#[test]
fn atomic_and_bounded_name_commits_that_are_not_whole_and_memory_that_is_too_much() {
    check("a commit is split", &["atomic"], |world| {
        world.entries[3].commit_end = 4
    });
    check("a commit has another one within it", &["atomic"], |world| {
        world.entries[5].commit_end = 7
    });
    check("a commit is there twice", &["atomic"], |world| {
        world.entries[6].body = Body::Change {
            watched: Watched::record("Product", "7"),
            is_delete: false,
        };
    });
    check(
        "a commit that was acknowledged is not there",
        &["atomic"],
        |world| {
            world.entries[4].body = Body::Other;
        },
    );
    check("time goes back", &["atomic"], |world| {
        world.entries[3].time_ms = 1
    });
    check("a revision is missing", &["atomic"], |world| {
        world.entries.remove(6);
    });
    check(
        "who was told of one change reads the other as it was before",
        &["atomic"],
        |world| {
            world.history.reads[0].found = Some(2);
        },
    );
    check(
        "who was told of one change does not find the other",
        &["atomic"],
        |world| {
            world.history.reads[0].found = None;
        },
    );
    check("a gateway takes too much memory", &["bounded"], |world| {
        world.memory.peak_bytes = 100
    });
}
