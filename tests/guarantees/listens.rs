//! Listens of the era without sessions within the random traffic: with the resume extension nothing is missed and nothing
//! comes twice, without it nothing is missed after an acknowledgement.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proto::feed::v1::Entry;
use serde_json::{Value, json};

use super::traffic::{KEYS, has_all};
use super::validate::{Seen, Watched, expected};
use crate::harness::PATIENCE;
use crate::harness::event_stream::{EventStream, Next};
use crate::harness::modern::{Listening, Modern, cursor_id};
use crate::harness::random::Random;

/// What one client of listens saw.
#[derive(Debug)]
pub struct Heard {
    /// All of it, as one; what it subscribed became effective at its first acknowledgement.
    pub seen: Seen,
    /// For each connection the revision of its acknowledgement, and the ids that came on it.
    pub connections: Vec<(u64, Vec<u64>)>,
}

/// A client that listens to the table, to a record, or to both, now and then on another connection.
pub struct Listener {
    watched: Vec<Watched>,
    resumes: bool,
}

impl Listener {
    pub fn new(index: usize, resumes: bool, random: &mut Random) -> Listener {
        let mut watched = Vec::new();
        if !index.is_multiple_of(3) {
            watched.push(Watched {
                table: "Item",
                key: None,
                uri: "Item".into(),
            });
        }
        if index % 3 != 1 {
            let key = random.below(KEYS).to_string();
            let uri = format!("Item/{key}");
            watched.push(Watched {
                table: "Item",
                key: Some(key),
                uri,
            });
        }
        Listener { watched, resumes }
    }

    /// Listens until it has the last notice of everything.
    pub fn listen(self, addresses: &[SocketAddr], last_revision: &AtomicU64, mut random: Random) -> Heard {
        let begin = Instant::now();
        let mut listening = self.open(None, addresses, &mut random);
        let since = cursor_id(&listening.cursor) >> 16;
        let subscriptions = self
            .watched
            .iter()
            .map(|watched| (watched.clone(), since))
            .collect();
        let mut heard = Heard {
            seen: Seen {
                subscriptions,
                notices: Vec::new(),
            },
            connections: vec![(since, Vec::new())],
        };
        loop {
            let mut frames_left = 5 + random.below(60);
            while frames_left > 0 {
                match listening.stream.next_within(Duration::from_millis(200)) {
                    Next::Frame(frame) => {
                        frames_left -= 1;
                        heard.take(&mut listening, &frame.message());
                    }
                    Next::Comment | Next::Late => {}
                    // The gateway was killed, or lost its feed service's history.
                    Next::End | Next::Broken(_) => break,
                }
                let last = last_revision.load(Ordering::Acquire);
                let acknowledged = heard.connections.last().map_or(0, |(revision, _)| *revision);
                // Who does not resume may have been away when the last change came.
                if has_all(&heard.seen, last) || (!self.resumes && acknowledged >= last) {
                    return heard;
                }
                assert!(begin.elapsed() < PATIENCE * 6, "stuck: {heard:?}");
            }
            let cursor = self.resumes.then(|| listening.cursor.clone());
            listening.close();
            listening = self.open(cursor.as_deref(), addresses, &mut random);
            if self.resumes && !listening.resumed {
                heard.seen.notices.push(("a gap".into(), None));
            }
            heard
                .connections
                .push((cursor_id(&listening.cursor) >> 16, Vec::new()));
        }
    }

    /// Listens on some gateway that is there and that has its feed service.
    fn open(&self, cursor: Option<&str>, addresses: &[SocketAddr], random: &mut Random) -> Listening {
        let uris: Vec<String> = self
            .watched
            .iter()
            .map(|watched| format!("feed+rest://any/{}", watched.uri))
            .collect();
        let deadline = Instant::now() + PATIENCE * 3;
        let mut last = String::new();
        while Instant::now() < deadline {
            let modern = Modern::at(addresses[random.below(addresses.len() as u64) as usize]);
            let request = modern.request(&json!(1), json!({"resourceSubscriptions": uris}), cursor);
            match request.try_open(modern.address) {
                Ok(answer) if answer.0.status == 200 => {
                    let mut stream = EventStream::of_listen(answer);
                    match first_frame(&mut stream) {
                        Ok(message) => return Listening::acknowledged(stream, &message, json!(1)),
                        Err(how) => last = how,
                    }
                }
                Ok((head, _)) => {
                    assert_eq!(head.status, 503, "{head:?}");
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(how) => last = how,
            }
        }
        panic!("no gateway took a listen: {last}");
    }
}

/// Reads the acknowledgement, unless the connection breaks before it.
fn first_frame(stream: &mut EventStream) -> Result<Value, String> {
    loop {
        match stream.next_within(PATIENCE) {
            Next::Frame(frame) if frame.message()["method"] == "notifications/subscriptions/acknowledged" => {
                return Ok(frame.message());
            }
            Next::Comment => {}
            other => return Err(format!("{other:?}")),
        }
    }
}

impl Heard {
    fn take(&mut self, listening: &mut Listening, message: &Value) {
        listening.take(message);
        match message["method"].as_str() {
            Some("notifications/resources/updated") => {
                let uri = message["params"]["uri"].as_str().expect("a uri");
                let path = uri.splitn(4, '/').nth(3).expect("a path").to_owned();
                let id = cursor_id(&listening.cursor);
                if let Some((_, ids)) = self.connections.last_mut() {
                    ids.push(id);
                }
                self.seen.notices.push((path, Some(id)));
            }
            Some("notifications/cancelled") => {}
            _ => assert!(message["result"].is_object(), "{message}"),
        }
    }
}

/// *reliable* for a client without the extension: on each connection everything from its acknowledgement to the last that
/// came on it.
pub fn reliable_while_open(heard: &Heard, log: &[Entry], until: u64) -> Result<(), String> {
    let wanted = expected(&heard.seen, log, until);
    for (acknowledged, ids) in &heard.connections {
        let Some(last) = ids.iter().max() else { continue };
        let came: HashSet<&u64> = ids.iter().collect();
        let missing: Vec<&u64> = wanted
            .keys()
            .filter(|id| **id >> 16 > *acknowledged && *id <= last && !came.contains(id))
            .collect();
        if !missing.is_empty() {
            return Err(format!(
                "missing {missing:?} after the acknowledgement at {acknowledged}"
            ));
        }
    }
    Ok(())
}
