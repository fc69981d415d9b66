//! How a client comes to its end: it calms down, reads until it has seen everything, and says so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Session;
use crate::guarantees::history::{Kind, Start, Watched};
use crate::guarantees::traffic::{End, Phase, count};
use crate::harness::PATIENCE;

impl Session {
    /// Sees to it that there is a stream that is read.
    pub(super) async fn calm_down(&mut self) {
        self.set_stalled(false);
        if self.readers.is_empty() && !self.is_over() {
            let last = self.history.lock().unwrap().connections.len().checked_sub(1);
            let start = last.map_or(Start::Absent, |last| self.cursor(last));
            self.connect(start).await;
        }
        count(&self.traffic.counts.calm);
        while matches!(*self.phase.borrow(), Phase::Calm) {
            tokio::select! {
                Some(event) = self.events.recv() => self.react(event).await,
                _ = self.phase.changed() => {}
            }
        }
    }

    /// Reads to the end of the run.
    pub(super) async fn end(&mut self) {
        let end = match &*self.phase.borrow() {
            Phase::Ending(end) => Arc::clone(end),
            Phase::Busy | Phase::Calm | Phase::Over => return,
        };
        let deadline = Instant::now() + PATIENCE;
        while !self.has_seen(&end) && Instant::now() < deadline && !self.is_over() {
            tokio::select! {
                Some(event) = self.events.recv() => self.react(event).await,
                () = sleep(Duration::from_millis(50)) => {}
            }
        }
        if self.is_over() {
            return;
        }
        if self.readers.len() > 1 {
            // What was taken over ends at once; the sweep of a gateway that was paused may take a moment.
            sleep(Duration::from_millis(500)).await;
        }
        let mut history = self.history.lock().unwrap();
        history.complete_until = Some(end.until);
        let has_moved = matches!(self.readers.last().map(|(index, _)| history.connections[*index].cursor()),
            Some(Start::After(id)) if id >> 16 >= end.until);
        if matches!(
            history.kind,
            Kind::Session {
                has_bookmarks: true,
                ..
            }
        ) && !has_moved
        {
            let complaint = format!("the cursor was not moved on to {}", end.until);
            history.complaints.push(("bookmarkable", complaint));
        }
    }

    fn has_seen(&self, end: &End) -> bool {
        let history = self.history.lock().unwrap();
        let Some((present, _)) = self.readers.last() else {
            return false;
        };
        let active = end.active.get(&self.id).map_or(&[][..], Vec::as_slice);
        let has_noticed = active.iter().all(|uri| {
            let newest = end.newest.get(&Watched::of_uri(uri)).copied();
            let mut frames = history
                .connections
                .iter()
                .flat_map(|connection| &connection.frames);
            frames.any(|frame| {
                frame.updated() == Some(uri)
                    && match frame.id {
                        Some(id) => Some(id) >= newest,
                        None => frame.at > end.begun,
                    }
            })
        });
        let has_moved = match (&history.kind, history.connections[*present].cursor()) {
            (
                Kind::Session {
                    has_bookmarks: true, ..
                },
                Start::After(id),
            ) => id >> 16 >= end.until,
            (
                Kind::Session {
                    has_bookmarks: true, ..
                },
                Start::Absent,
            ) => false,
            _ => true,
        };
        has_noticed && has_moved
    }
}
