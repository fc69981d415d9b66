//! A client of the era without sessions: it listens, breaks off, and listens again anywhere; with the resume extension it goes on
//! where it was, without it each listen stands for itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::connection::{Event, Form, Reader, Shared};
use super::history::{Connection, History, Kind, Start, Watched};
use super::session::subscriptions_of;
use super::traffic::{End, Phase, Traffic, count};
use crate::harness::PATIENCE;
use crate::harness::async_http;
use crate::harness::modern::{Modern, cursor_id};
use crate::harness::random::Random;

/// How a listener behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerHabit {
    /// It breaks off at times, and goes on where it was.
    Resumes,
    /// It breaks off at times, and begins anew.
    Forgets,
    /// It never breaks off, and listens to what the other one of this pair does.
    Listens { pair: u64 },
    /// It is cut again and again, and goes on elsewhere.
    IsCut { pair: u64 },
}

/// A client of listens.
pub struct Listener {
    traffic: Arc<Traffic>,
    random: Random,
    name: String,
    habit: ListenerHabit,
    uris: Vec<Arc<str>>,
    history: Shared,
    /// Where it goes on.
    cursor: Option<String>,
    reader: Option<Reader>,
    events: mpsc::UnboundedReceiver<Event>,
    sender: mpsc::UnboundedSender<Event>,
    phase: watch::Receiver<Phase>,
}

impl Listener {
    /// Lives until the run is over.
    pub async fn live(traffic: Arc<Traffic>, index: usize, habit: ListenerHabit, mut random: Random) {
        let name = format!("listener {index} ({habit:?})");
        let seed = match habit {
            ListenerHabit::Resumes | ListenerHabit::Forgets => random.below(1 << 32),
            ListenerHabit::Listens { pair } | ListenerHabit::IsCut { pair } => pair,
        };
        let watched = subscriptions_of(seed).into_iter();
        let uris: Vec<Arc<str>> = watched
            .map(|watched| match watched.key {
                Some(key) => format!("feed+rest://any/{}/{key}", watched.table).into(),
                None => format!("feed+rest://any/{}", watched.table).into(),
            })
            .collect();
        let (sender, events) = mpsc::unbounded_channel();
        let mut listener = Listener {
            history: traffic.history(name.clone(), Kind::Listen { uris: uris.clone() }),
            phase: traffic.phase.subscribe(),
            random,
            name,
            habit,
            uris,
            cursor: None,
            reader: None,
            events,
            sender,
            traffic,
        };
        listener.connect().await;
        count(&listener.traffic.counts.begun);
        while matches!(*listener.phase.borrow(), Phase::Busy) {
            let (pause, away) = match habit {
                ListenerHabit::Resumes | ListenerHabit::Forgets => {
                    (300 + listener.random.below(3_000), listener.random.below(1_200))
                }
                ListenerHabit::Listens { .. } => (60_000, 0),
                ListenerHabit::IsCut { .. } => (20 + listener.random.below(400), listener.random.below(150)),
            };
            tokio::select! {
                Some(event) = listener.events.recv() => listener.react(event).await,
                _ = listener.phase.changed() => {}
                () = sleep(Duration::from_millis(pause)) => {
                    count(&listener.traffic.counts.cuts);
                    listener.cut().await;
                    sleep(Duration::from_millis(away)).await;
                    listener.connect().await;
                }
            }
        }
        count(&listener.traffic.counts.calm);
        listener.finish().await;
    }

    async fn cut(&mut self) {
        if let Some(reader) = self.reader.take() {
            let cursor = Arc::clone(&reader.cursor);
            reader.close().await;
            let newest = cursor.lock().unwrap().take();
            self.cursor = newest.or(self.cursor.take());
        }
    }

    async fn react(&mut self, event: Event) {
        if let Event::Ended(_) = event {
            self.cut().await;
            self.connect().await;
        }
    }

    /// Listens at some gateway, and waits for the acknowledgement.
    async fn connect(&mut self) {
        if self.habit == ListenerHabit::Forgets {
            self.cursor = None;
        }
        while !matches!(*self.phase.borrow(), Phase::Over) {
            let start = self
                .cursor
                .as_deref()
                .map_or(Start::Absent, |cursor| Start::After(cursor_id(cursor)));
            if start == Start::Absent {
                self.begin_anew();
            }
            let index = {
                let mut history = self.history.lock().unwrap();
                // Only who goes on has missed something if it is not there.
                let held = match start {
                    Start::Absent => Vec::new(),
                    Start::After(_) => self.uris.clone(),
                };
                history
                    .connections
                    .push(Connection::new(start, Instant::now(), held));
                history.connections.len() - 1
            };
            (self.sender, self.events) = mpsc::unbounded_channel();
            if let Some(reader) = self.try_connect(index).await
                && self.is_acknowledged().await
            {
                self.reader = Some(reader);
                return;
            }
            count(&self.traffic.counts.in_vain);
            sleep(Duration::from_millis(20 + self.random.below(60))).await;
        }
    }

    /// A listen that goes on from nothing has nothing to do with those before it.
    fn begin_anew(&mut self) {
        if !self.history.lock().unwrap().connections.is_empty() {
            let kind = Kind::Listen {
                uris: self.uris.clone(),
            };
            self.history = self.traffic.history(self.name.clone(), kind);
        }
    }

    async fn try_connect(&mut self, index: usize) -> Option<Reader> {
        let modern = Modern::at(match self.habit {
            ListenerHabit::Listens { .. } => self.traffic.unbroken_gateway(),
            ListenerHabit::Resumes | ListenerHabit::Forgets | ListenerHabit::IsCut { .. } => {
                self.traffic.some_gateway(&mut self.random)
            }
        });
        let filter = json!({"resourceSubscriptions": self.uris});
        let request = modern.request(&json!(1), filter, self.cursor.as_deref());
        let opened = async_http::open(modern.address, &request, None);
        match timeout(Duration::from_secs(2), opened).await {
            Ok(Ok((head, body))) if head.status == 200 => {
                let (history, sender) = (Arc::clone(&self.history), self.sender.clone());
                Some(Reader::spawn(body, Form::Listen, history, index, sender))
            }
            Ok(Ok((head, _))) if head.status != 503 => {
                let complaint = format!("a listen was answered with {}", head.status);
                self.history
                    .lock()
                    .unwrap()
                    .complaints
                    .push(("reliable", complaint));
                None
            }
            _ => None,
        }
    }

    async fn is_acknowledged(&mut self) -> bool {
        let acknowledged = async {
            while let Some(event) = self.events.recv().await {
                match event {
                    Event::Acknowledged => return true,
                    Event::Ended(_) => return false,
                    Event::Answer(_) | Event::Endpoint(_) => {}
                }
            }
            false
        };
        timeout(PATIENCE, acknowledged).await.unwrap_or(false)
    }

    /// Reads to the end of the run.
    async fn finish(&mut self) {
        let mut end: Option<(Arc<End>, Instant)> = None;
        loop {
            match &*self.phase.borrow_and_update() {
                Phase::Over => return,
                Phase::Ending(newest) if end.is_none() => {
                    end = Some((Arc::clone(newest), Instant::now() + PATIENCE));
                }
                Phase::Busy | Phase::Calm | Phase::Ending(_) => {}
            }
            if let Some((end, deadline)) = &end
                && (self.has_seen(end) || Instant::now() > *deadline)
            {
                self.history.lock().unwrap().complete_until = Some(end.until);
                return;
            }
            tokio::select! {
                Some(event) = self.events.recv() => self.react(event).await,
                _ = self.phase.changed() => {}
                () = sleep(Duration::from_millis(50)) => {}
            }
        }
    }

    fn has_seen(&self, end: &End) -> bool {
        let history: &History = &self.history.lock().unwrap();
        self.uris.iter().all(|uri| {
            let newest = end.newest.get(&Watched::of_uri(uri)).copied();
            let mut frames = history
                .connections
                .iter()
                .flat_map(|connection| &connection.frames);
            frames.any(|frame| match frame.id {
                Some(id) if frame.updated().is_some() => frame.updated() == Some(uri) && Some(id) >= newest,
                // One that began behind it has nothing to hear of it.
                Some(id) => id >> 16 >= end.until,
                None => frame.updated() == Some(uri) && frame.at > end.begun,
            })
        })
    }
}
