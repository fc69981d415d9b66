//! All streams of one server, read by the calling thread.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use super::frames::{FrameReader, Tally};

/// Large enough that a session's part of a burst is read in one call.
const READ_BUFFER_BYTES: usize = 256 * 1024;

const EVENTS_PER_WAIT: usize = 1_024;

/// A stream whose response head has been read.
#[derive(Debug)]
pub struct OpenStream {
    /// Where the rest comes from.
    pub connection: TcpStream,
    /// What came together with the head.
    pub read_ahead: Vec<u8>,
}

/// The sessions of one server.
pub struct Fleet {
    epoll: OwnedFd,
    sessions: Vec<Session>,
    frames: u64,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Session {
    connection: TcpStream,
    reader: FrameReader,
}

impl Fleet {
    /// Takes over streams that were opened.
    ///
    /// # Errors
    /// The system refuses, or a stream brought something unexpected already.
    pub fn new(streams: Vec<OpenStream>) -> anyhow::Result<Fleet> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("cannot create an epoll set")?;
        let mut sessions = Vec::with_capacity(streams.len());
        for (index, stream) in streams.into_iter().enumerate() {
            stream.connection.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&epoll, &stream.connection, data, epoll::EventFlags::IN)
                .context("cannot add a stream to the epoll set")?;
            let mut reader = FrameReader::default();
            reader.feed(&stream.read_ahead)?;
            sessions.push(Session {
                connection: stream.connection,
                reader,
            });
        }
        Ok(Fleet {
            epoll,
            sessions,
            frames: 0,
            events: Vec::with_capacity(EVENTS_PER_WAIT),
            buffer: vec![0; READ_BUFFER_BYTES],
        })
    }

    /// Returns how many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Tells whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Begins a new count on every session.
    pub fn reset(&mut self) {
        self.frames = 0;
        for session in &mut self.sessions {
            session.reader.reset();
        }
    }

    /// Reads until all sessions together have so many frames since the reset, and returns when the last one came.
    ///
    /// # Errors
    /// A stream breaks or ends, its ids do not rise, or the frames have not come within `timeout`.
    pub fn read_until(&mut self, frames: u64, timeout: Duration) -> anyhow::Result<Instant> {
        let deadline = Instant::now() + timeout;
        while self.frames < frames {
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(
                !left.is_zero(),
                "only {} of {frames} frames came within {timeout:?}",
                self.frames
            );
            self.read_once(left)?;
        }
        Ok(Instant::now())
    }

    /// Reads whatever comes until nothing has come for `quiet`.
    ///
    /// # Errors
    /// As [`Fleet::read_until`].
    pub fn read_until_quiet(&mut self, quiet: Duration) -> anyhow::Result<()> {
        while self.read_once(quiet)? > 0 {}
        Ok(())
    }

    /// Checks that every session has exactly the expected frames since the reset.
    ///
    /// # Errors
    /// A session has others, which makes the run no result.
    pub fn check(&self, expected: &Expected) -> anyhow::Result<()> {
        for (index, session) in self.sessions.iter().enumerate() {
            let tally = session.reader.tally();
            let frames = expected.frames();
            if tally.frames != frames {
                bail!("session {index} got {} frames instead of {frames}", tally.frames);
            }
            if let Expected::Ids(ids) = expected {
                ensure!(tally == *ids, "session {index} got other ids than were published");
            }
        }
        Ok(())
    }

    /// Waits at most `timeout` and reads every stream that has something; returns how many had.
    fn read_once(&mut self, timeout: Duration) -> anyhow::Result<usize> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let timeout = Timespec::try_from(timeout).context("a time-out is too long")?;
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the streams"),
        }
        for event in &events {
            let index = usize::try_from(event.data.u64())?;
            self.read_session(index)
                .with_context(|| format!("session {index}"))?;
        }
        let count = events.len();
        self.events = events;
        Ok(count)
    }

    fn read_session(&mut self, index: usize) -> anyhow::Result<()> {
        let session = self
            .sessions
            .get_mut(index)
            .context("an event names no session")?;
        match session.connection.read(&mut self.buffer) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(bytes) => self.frames += session.reader.feed(&self.buffer[..bytes])?,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).context("cannot read"),
        }
        Ok(())
    }
}

/// What every session must have got.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// Exactly these ids.
    Ids(Tally),
    /// So many frames with rising ids; the server numbers them by itself.
    Count(u64),
}

impl Expected {
    fn frames(&self) -> u64 {
        match self {
            Expected::Ids(tally) => tally.frames,
            Expected::Count(frames) => *frames,
        }
    }
}
