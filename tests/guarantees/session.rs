//! A client of the legacy era that does what comes to mind: it subscribes, breaks off, goes on anywhere, takes its own stream over,
//! stops reading, and sometimes ends its session and begins another one.
//!
//! - `stream`: how it gets its stream, loses it, and goes on;
//! - `calls`: what it asks for;
//! - `end`: how it comes to its end.

mod calls;
mod end;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::connection::{Event, Reader, Shared};
use super::history::{Kind, Start, Watched};
use super::traffic::{KEYS, Phase, TABLES, Traffic, count};
use crate::harness::PATIENCE;
use crate::harness::http::Request;
use crate::harness::mcp::initialize_body;
use crate::harness::random::Random;

/// By which door a client comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Streamable HTTP, in this version.
    Streamable(&'static str),
    /// HTTP+SSE.
    HttpSse,
}

/// How a client behaves.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub door: Door,
    pub habit: Habit,
}

/// What a client does of its own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Whatever comes to mind.
    Anything,
    /// The same, but it is subscribed to every table, reads through a small socket, and stops reading when it is told to.
    Slow,
    /// It subscribes like the other one of this pair, and then only listens.
    Listens { pair: u64 },
    /// It subscribes like the other one of this pair; then its stream is cut again and again, and goes on elsewhere.
    IsCut { pair: u64 },
}

/// The most URIs that a client is subscribed to.
const SUBSCRIPTIONS: usize = 6;

/// A client with its present session.
pub struct Session {
    traffic: Arc<Traffic>,
    random: Random,
    name: String,
    manner: Manner,
    id: String,
    history: Shared,
    subscribed: Vec<Arc<str>>,
    next_request: u64,
    /// Each connection that is open, with its place in the history; the last one is the present one.
    readers: Vec<(usize, Reader)>,
    events: mpsc::UnboundedReceiver<Event>,
    sender: mpsc::UnboundedSender<Event>,
    phase: watch::Receiver<Phase>,
    stall: watch::Receiver<bool>,
}

impl Session {
    /// Lives until the run is over.
    pub async fn live(traffic: Arc<Traffic>, index: usize, manner: Manner, random: Random) {
        let name = format!("session {index} ({manner:?})");
        let (sender, events) = mpsc::unbounded_channel();
        let mut session = Session {
            random,
            manner,
            id: String::new(),
            history: traffic.history(name.clone(), Session::kind(manner, "")),
            subscribed: Vec::new(),
            next_request: 1,
            readers: Vec::new(),
            events,
            sender,
            phase: traffic.phase.subscribe(),
            stall: traffic.stall.subscribe(),
            traffic,
            name,
        };
        session.begin().await;
        count(&session.traffic.counts.begun);
        while matches!(*session.phase.borrow(), Phase::Busy) {
            session.wait_and_act().await;
        }
        session.calm_down().await;
        session.end().await;
    }

    fn kind(manner: Manner, id: &str) -> Kind {
        Kind::Session {
            id: id.into(),
            has_bookmarks: manner.door == Door::Streamable("2025-11-25"),
        }
    }

    /// Waits for a while, or for something that needs a reaction, and does something.
    async fn wait_and_act(&mut self) {
        let pause = match self.manner.habit {
            Habit::Anything | Habit::Slow => 200 + self.random.below(2_600),
            Habit::Listens { .. } => 60_000,
            Habit::IsCut { .. } => 20 + self.random.below(400),
        };
        let pause = Duration::from_millis(pause);
        tokio::select! {
            Some(event) = self.events.recv() => self.react(event).await,
            changed = self.stall.changed(), if self.is_slow() => {
                if changed.is_ok() {
                    let is_stalled = *self.stall.borrow_and_update();
                    self.set_stalled(is_stalled);
                }
            }
            _ = self.phase.changed() => {}
            () = sleep(pause) => self.act().await,
        }
    }

    fn set_stalled(&self, is_stalled: bool) {
        for (_, reader) in &self.readers {
            reader.set_stalled(is_stalled);
        }
    }

    /// Goes on where a stream ended that was the present one.
    async fn react(&mut self, event: Event) {
        let Event::Ended(ended) = event else { return };
        let is_present = self.readers.last().is_some_and(|(index, _)| *index == ended);
        self.readers.retain(|(index, _)| *index != ended);
        if is_present {
            self.connect(self.cursor(ended)).await;
        }
    }

    async fn act(&mut self) {
        match self.manner.habit {
            Habit::Slow if *self.stall.borrow() => return,
            Habit::Listens { .. } => return,
            Habit::IsCut { .. } => {
                // Who was told of no id yet has nothing to go on from.
                let present = self.readers.last().map(|(index, _)| self.cursor(*index));
                if !matches!(present, Some(Start::After(_))) {
                    return;
                }
                let away = self.random.below(150);
                return self.cut_and_resume(Back::ToLast, away).await;
            }
            Habit::Anything | Habit::Slow => {}
        }
        match self.random.below(100) {
            0..24 => self.subscribe_something().await,
            24..34 => self.unsubscribe_something().await,
            34..54 => self.break_off(Back::ToLast).await,
            54..62 => self.take_over().await,
            62..66 => self.stall_for_a_while().await,
            66..70 => self.break_off(Back::ToOlder).await,
            70..73 => self.break_off(Back::Nowhere).await,
            73..75 if !self.is_slow() => self.delete().await,
            75..90 => self.read_something().await,
            _ => {}
        }
    }

    /// Makes a session with a stream and some subscriptions.
    async fn begin(&mut self) {
        match self.manner.door {
            Door::Streamable(version) => {
                while self.id.is_empty() && !self.is_over() {
                    let request = Request::mcp(initialize_body(&format!("{version:?}")));
                    match self.send(&request).await {
                        Ok(answer) if answer.status == 200 => {
                            self.id = answer.header("mcp-session-id").expect("a session id");
                        }
                        _ => sleep(Duration::from_millis(30)).await,
                    }
                }
                self.history.lock().unwrap().kind = Session::kind(self.manner, &self.id);
                let initialized =
                    self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
                let _ = self.send(&initialized).await;
                self.connect(Start::Absent).await;
            }
            Door::HttpSse => {
                while self.id.is_empty() && !self.is_over() {
                    self.connect(Start::Absent).await;
                    self.wait_for_endpoint().await;
                }
                self.history.lock().unwrap().kind = Session::kind(self.manner, &self.id);
                let params = json!({"protocolVersion": "2024-11-05", "capabilities": {},
                    "clientInfo": {"name": "tests", "version": "1"}});
                self.call("initialize", params).await;
            }
        }
        match self.manner.habit {
            Habit::Anything => {
                for _ in 0..1 + self.random.below(3) {
                    self.subscribe_something().await;
                }
            }
            Habit::Slow => {
                for table in TABLES {
                    self.subscribe(&self.spelling(&Watched::table(table))).await;
                }
            }
            Habit::Listens { pair } | Habit::IsCut { pair } => {
                for watched in subscriptions_of(pair) {
                    let uri = self.spelling(&watched);
                    while !self.subscribed.contains(&uri) && !self.is_over() {
                        self.subscribe(&uri).await;
                    }
                }
            }
        }
    }

    async fn wait_for_endpoint(&mut self) {
        let endpoint = async {
            while let Some(event) = self.events.recv().await {
                match event {
                    Event::Endpoint(endpoint) => return Some(endpoint),
                    Event::Ended(_) => return None,
                    Event::Answer(_) | Event::Acknowledged => {}
                }
            }
            None
        };
        match timeout(PATIENCE, endpoint).await {
            Ok(Some(endpoint)) => {
                self.id = endpoint
                    .strip_prefix("/messages?session=")
                    .unwrap_or_default()
                    .to_owned();
            }
            // Another session; what came of this one does not matter.
            Ok(None) | Err(_) => {
                self.readers.clear();
                self.history = self
                    .traffic
                    .history(self.name.clone(), Session::kind(self.manner, ""));
            }
        }
    }

    fn is_slow(&self) -> bool {
        self.manner.habit == Habit::Slow
    }

    async fn take_over(&mut self) {
        let Some((index, _)) = self.readers.last() else {
            return;
        };
        count(&self.traffic.counts.takeovers);
        self.connect(self.cursor(*index)).await;
    }

    async fn stall_for_a_while(&mut self) {
        count(&self.traffic.counts.stalls);
        self.set_stalled(true);
        sleep(Duration::from_millis(300 + self.random.below(2_000))).await;
        self.set_stalled(false);
    }

    fn complain(&self, guarantee: &'static str, what: String) {
        self.history.lock().unwrap().complaints.push((guarantee, what));
    }

    fn is_over(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Over)
    }
}

/// From where a client goes on.
#[derive(Clone, Copy)]
enum Back {
    ToLast,
    ToOlder,
    /// It says nothing.
    Nowhere,
}

/// What both of a pair subscribe to.
pub fn subscriptions_of(pair: u64) -> Vec<Watched> {
    let mut random = Random(pair);
    let mut all = vec![Watched::table(TABLES[pair as usize % TABLES.len()])];
    for _ in 0..2 + random.below(3) {
        let table = TABLES[random.below(TABLES.len() as u64) as usize];
        let watched = Watched::record(table, &random.below(KEYS).to_string());
        if !all.contains(&watched) {
            all.push(watched);
        }
    }
    all
}

fn sign(request: Request, version: &str, session: &str) -> Request {
    let request = request.header("Mcp-Session-Id", session);
    // Older clients do not know the header.
    if version < "2025-06-18" {
        request
    } else {
        request.header("MCP-Protocol-Version", version)
    }
}
