//! How a client gets its stream, loses it, and goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::{Back, Door, Habit, Session, sign};
use crate::guarantees::connection::{Form, Reader};
use crate::guarantees::history::{Connection, Start};
use crate::guarantees::traffic::count;
use crate::harness::PATIENCE;
use crate::harness::async_http;
use crate::harness::http::Request;

impl Session {
    pub(super) fn cursor(&self, index: usize) -> Start {
        self.history.lock().unwrap().connections[index].cursor()
    }

    /// Opens a stream on some gateway, however many of them are away; the older streams stay as they are.
    pub(super) async fn connect(&mut self, start: Start) {
        let held = self.subscribed.clone();
        let index = {
            let mut history = self.history.lock().unwrap();
            history
                .connections
                .push(Connection::new(start, Instant::now(), held));
            let index = history.connections.len() - 1;
            for (older, _) in &self.readers {
                history.connections[*older].taken_over_by.get_or_insert(index);
            }
            index
        };
        let mut patience = Duration::from_millis(700);
        while !self.is_over() {
            let request = self.stream_request(start);
            let receive_bytes = self.is_slow().then_some(4 * 1024);
            let address = match self.manner.habit {
                Habit::Listens { .. } => self.traffic.unbroken_gateway(),
                Habit::Anything | Habit::Slow | Habit::IsCut { .. } => {
                    self.traffic.some_gateway(&mut self.random)
                }
            };
            let opened = timeout(patience, async_http::open(address, &request, receive_bytes)).await;
            match opened {
                Ok(Ok((head, body))) if head.status == 200 => {
                    let (history, sender) = (Arc::clone(&self.history), self.sender.clone());
                    let reader = Reader::spawn(body, Form::Session, history, index, sender);
                    if self.is_slow() && *self.stall.borrow() {
                        reader.set_stalled(true);
                    }
                    self.readers.push((index, reader));
                    return;
                }
                Ok(Ok((head, _))) if head.status != 503 => {
                    self.complain(
                        "reliable",
                        format!("a GET with {start:?} was answered with {}", head.status),
                    );
                    return;
                }
                Ok(Ok(_) | Err(_)) => {
                    count(&self.traffic.counts.in_vain);
                    sleep(Duration::from_millis(20 + self.random.below(60))).await;
                }
                Err(_) => patience = (patience * 2).min(PATIENCE / 2),
            }
        }
    }

    fn stream_request(&self, start: Start) -> Request {
        let request = match self.manner.door {
            Door::Streamable(version) => sign(Request::get("/mcp"), version, &self.id),
            Door::HttpSse if self.id.is_empty() => Request::get("/sse"),
            Door::HttpSse => Request::get(&format!("/sse?session={}", self.id)),
        };
        let request = request.header("Accept", "text/event-stream");
        match start {
            Start::Absent => request,
            Start::After(id) => request.header("Last-Event-ID", id.to_string()),
        }
    }

    /// Breaks off, stays away for so many milliseconds, and goes on.
    pub(super) async fn cut_and_resume(&mut self, back: Back, away: u64) {
        let Some(index) = self.readers.last().map(|(index, _)| *index) else {
            return;
        };
        count(&self.traffic.counts.cuts);
        self.leave().await;
        let start = match (back, self.cursor(index)) {
            (Back::ToLast, cursor) => cursor,
            (Back::Nowhere, _) => Start::Absent,
            (Back::ToOlder, cursor) => {
                let history = self.history.lock().unwrap();
                let frames = &history.connections[index].frames;
                let ids: Vec<u64> = frames.iter().filter_map(|frame| frame.id).collect();
                match ids.len() {
                    0 => cursor,
                    count => Start::After(ids[self.random.below(count as u64) as usize]),
                }
            }
        };
        sleep(Duration::from_millis(away)).await;
        self.connect(start).await;
    }

    pub(super) async fn break_off(&mut self, back: Back) {
        let away = self.some_absence();
        self.cut_and_resume(back, away).await;
    }

    /// How long a client is away at a time.
    fn some_absence(&mut self) -> u64 {
        match self.random.below(10) {
            0..6 => self.random.below(200),
            6..9 => 200 + self.random.below(1_000),
            _ => 1_500 + self.random.below(2_500),
        }
    }

    /// Closes every connection; that they end is not for the server to do then.
    pub(super) async fn leave(&mut self) {
        for (index, reader) in std::mem::take(&mut self.readers) {
            reader.close().await;
            self.history.lock().unwrap().connections[index].has_ended = true;
        }
    }
}
