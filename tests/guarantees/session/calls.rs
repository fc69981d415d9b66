//! What a client asks for: it subscribes, unsubscribes, reads, and ends its session, through whichever gateway.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::{Door, Habit, SUBSCRIPTIONS, Session, sign};
use crate::guarantees::connection::Event;
use crate::guarantees::history::{Asked, Call, Read, Watched};
use crate::guarantees::traffic::{KEYS, TABLES, count};
use crate::harness::PATIENCE;
use crate::harness::async_http;
use crate::harness::http::{Answer, Request};

/// What became of a call.
pub(super) enum Outcome {
    Done,
    /// It was refused, or nobody knows.
    InVain,
    /// There is no such session.
    Gone,
}

impl Session {
    /// Ends the session, sees its streams end, and begins another one.
    pub(super) async fn delete(&mut self) {
        count(&self.traffic.counts.deletes);
        self.note_call(Asked::Delete, &"".into());
        let request = match self.manner.door {
            Door::Streamable(version) => sign(Request::new("DELETE", "/mcp"), version, &self.id),
            Door::HttpSse => Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &self.id),
        };
        loop {
            match self.send(&request).await {
                Ok(answer) if answer.status == 204 => break,
                // An attempt before this one may have done it.
                Ok(answer) if answer.status == 404 => break,
                _ if self.is_over() => return,
                _ => sleep(Duration::from_millis(30)).await,
            }
        }
        let all_ended = async {
            while !self.readers.is_empty() {
                match self.events.recv().await {
                    Some(Event::Ended(ended)) => self.readers.retain(|(index, _)| *index != ended),
                    Some(Event::Answer(_) | Event::Endpoint(_) | Event::Acknowledged) => {}
                    None => return,
                }
            }
        };
        if timeout(PATIENCE, all_ended).await.is_err() {
            self.complain(
                "filtered",
                "a stream did not end although its session was deleted".into(),
            );
        }
        self.readers.clear();
        self.subscribed.clear();
        self.id.clear();
        self.history = self
            .traffic
            .history(format!("{}, next", self.name), Session::kind(self.manner, ""));
        (self.sender, self.events) = mpsc::unbounded_channel();
        Box::pin(self.begin()).await;
    }

    pub(super) async fn subscribe_something(&mut self) {
        if self.subscribed.len() >= SUBSCRIPTIONS {
            return self.unsubscribe_something().await;
        }
        let table = TABLES[self.random.below(TABLES.len() as u64) as usize];
        let watched = match self.random.below(4) {
            0 => Watched::table(table),
            _ => Watched::record(table, &self.random.below(KEYS).to_string()),
        };
        self.subscribe(&self.spelling(&watched)).await;
    }

    /// Some share their spelling, and so their frames, with others.
    pub(super) fn spelling(&self, watched: &Watched) -> Arc<str> {
        // Long ones fill the socket of who does not read.
        let host = match self.manner.habit {
            Habit::Slow => format!("slow{}", "w".repeat(2_000)),
            Habit::Anything => (self.id.len() + self.name.len()).wrapping_rem(3).to_string(),
            Habit::Listens { pair } | Habit::IsCut { pair } => format!("pair{pair}"),
        };
        match &watched.key {
            Some(key) => format!("feed+rest://h{host}/{}/{key}", watched.table).into(),
            None => format!("feed+rest://h{host}/{}", watched.table).into(),
        }
    }

    pub(super) async fn subscribe(&mut self, uri: &Arc<str>) {
        count(&self.traffic.counts.subscribes);
        let index = self.note_call(Asked::Subscribe, uri);
        let outcome = self.call("resources/subscribe", json!({"uri": &**uri})).await;
        if self.note_outcome(index, &outcome) && !self.subscribed.contains(uri) {
            self.subscribed.push(Arc::clone(uri));
        }
    }

    pub(super) async fn unsubscribe_something(&mut self) {
        if self.subscribed.is_empty() || self.is_slow() {
            return;
        }
        count(&self.traffic.counts.unsubscribes);
        let index = self.random.below(self.subscribed.len() as u64) as usize;
        let uri = self.subscribed.swap_remove(index);
        let index = self.note_call(Asked::Unsubscribe, &uri);
        let outcome = self.call("resources/unsubscribe", json!({"uri": &*uri})).await;
        self.note_outcome(index, &outcome);
    }

    fn note_call(&self, what: Asked, uri: &Arc<str>) -> usize {
        let mut history = self.history.lock().unwrap();
        history.calls.push(Call {
            what,
            uri: Arc::clone(uri),
            asked: Instant::now(),
            answered: None,
        });
        history.calls.len() - 1
    }

    fn note_outcome(&self, index: usize, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Done => {
                self.history.lock().unwrap().calls[index].answered = Some(Instant::now());
                return true;
            }
            Outcome::InVain => count(&self.traffic.counts.in_vain),
            Outcome::Gone => self.complain("reliable", "the session is gone, and nobody ended it".into()),
        }
        false
    }

    /// Calls a method at some gateway.
    pub(super) async fn call(&mut self, method: &str, params: Value) -> Outcome {
        let id = self.next_request;
        self.next_request += 1;
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = self.post(&body);
        let answer = match self.send(&request).await {
            Ok(answer) => answer,
            Err(_) => return Outcome::InVain,
        };
        let message = match (answer.status, self.manner.door) {
            (200, Door::Streamable(_)) => answer.json(),
            (202, Door::HttpSse) => match self.answer_on_stream(id).await {
                Some(message) => message,
                None => return Outcome::InVain,
            },
            (404, _) => return Outcome::Gone,
            (503, _) => return Outcome::InVain,
            (status, _) => {
                self.complain(
                    "reliable",
                    format!("{method} was answered with {status}: {}", answer.text()),
                );
                return Outcome::InVain;
            }
        };
        if message.get("result").is_some() {
            Outcome::Done
        } else {
            Outcome::InVain
        }
    }

    /// Waits for an answer on the stream, as long as that is open.
    pub(super) async fn answer_on_stream(&mut self, id: u64) -> Option<Value> {
        let answered = async {
            loop {
                match self.events.recv().await? {
                    Event::Answer(message) if message["id"] == id => return Some(message),
                    Event::Answer(_) | Event::Endpoint(_) | Event::Acknowledged => {}
                    event @ Event::Ended(_) => {
                        // To be seen to by who comes after.
                        let _ = self.sender.send(event);
                        return None;
                    }
                }
            }
        };
        timeout(Duration::from_secs(3), answered).await.ok().flatten()
    }

    pub(super) fn post(&self, body: &Value) -> Request {
        match self.manner.door {
            Door::Streamable(version) => sign(Request::mcp(body.to_string()), version, &self.id),
            Door::HttpSse => Request::new("POST", &format!("/messages?session={}", self.id))
                .header("Content-Type", "application/json")
                .body(body.to_string()),
        }
    }

    pub(super) async fn send(&mut self, request: &Request) -> Result<Answer, String> {
        count(&self.traffic.counts.requests);
        let address: SocketAddr = self.traffic.some_gateway(&mut self.random);
        async_http::send(address, request, Duration::from_secs(5)).await
    }

    /// Reads a record of a commit of which the client was told of another one.
    pub(super) async fn read_something(&mut self) {
        let newest = {
            let history = self.history.lock().unwrap();
            let frames = history
                .connections
                .iter()
                .rev()
                .flat_map(|connection| connection.frames.iter().rev());
            let mut notices = frames.filter_map(|frame| Some((frame.id?, frame.updated()?.clone())));
            notices.next()
        };
        let Some((after, uri)) = newest else { return };
        let told = Watched::of_uri(&uri);
        let key = told.key.unwrap_or_else(|| self.random.below(KEYS).to_string());
        let table = if told.table == "Item" { "Product" } else { "Item" };
        let request = Request::get(&format!("/{table}/{key}"));
        let Ok(answer) = self.send(&request).await else {
            return;
        };
        let found = match answer.status {
            200 => {
                let tag = answer.header("etag").unwrap_or_default();
                tag.trim_matches(|character: char| !character.is_ascii_digit())
                    .parse()
                    .ok()
            }
            404 => None,
            _ => return,
        };
        self.history.lock().unwrap().reads.push(Read {
            watched: Watched::record(table, &key),
            after,
            found,
        });
    }
}
