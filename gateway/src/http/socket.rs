//! A TCP connection as hyper wants it, with small pieces put together before they are written.
//!
//! hyper writes a frame as three pieces: the size of the chunk, the frame, and the end of the chunk. For so few bytes a
//! vectored write costs more than to copy them and send one piece.
//!
//! And it tells apart a peer that is dead from one that does not read. The kernel gives both up after the same time without
//! progress (`TCP_USER_TIMEOUT` counts a closed window as well), by a reset. That is right for the first; the second is ended
//! by the sweep over the streams, which lets it find a clean end when it reads on.
//!
//! And when this process was stopped for a while, it holds back what hyper had taken of a stream before, until it is known whether
//! another instance took the stream over meanwhile.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::net::TcpStream;
use tracing::debug;

use crate::session::{Passage, WriteProgress};

/// Up to this size pieces are put together: a frame or two with its chunk around it.
const TOGETHER_BYTES: usize = 512;

/// So much may wait unsent in the kernel. Without a limit a peer that does not read costs megabytes there, and is not noticed
/// until they are full.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 256 * 1024;

/// A connection.
pub(super) struct Socket {
    stream: TokioIo<TcpStream>,
    progress: Arc<WriteProgress>,
    /// After so long without an acknowledgement of what was sent the peer is dead.
    peer_timeout: Duration,
    /// How long it may take nothing.
    write_timeout: Duration,
    /// The end of a hold that it waits for.
    hold: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Socket {
    /// Takes a connection over, sets its options, and notes whether it takes what is written. One that takes nothing for
    /// `write_timeout` is left to others to end, and broken off some time after that. `progress` is where it is noted.
    pub(super) fn new(
        stream: TcpStream,
        progress: WriteProgress,
        peer_timeout: Duration,
        write_timeout: Duration,
    ) -> Socket {
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| limit_unsent(&stream))
            .and_then(|()| give_up_after(&stream, peer_timeout));
        if let Err(error) = prepared {
            debug!(%error, "cannot set the options of a connection");
        }
        Socket {
            stream: TokioIo::new(stream),
            progress: Arc::new(progress),
            peer_timeout,
            write_timeout,
            hold: None,
        }
    }

    /// Returns where it is noted.
    pub(super) fn progress(&self) -> Arc<WriteProgress> {
        Arc::clone(&self.progress)
    }

    fn inner(self: Pin<&mut Self>) -> Pin<&mut TokioIo<TcpStream>> {
        Pin::new(&mut self.get_mut().stream)
    }

    /// Waits until it may write.
    fn poll_passage(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.progress.passage() {
                Passage::Open => {
                    self.hold = None;
                    return Poll::Ready(Ok(()));
                }
                Passage::Void => return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                Passage::Held(hold) => {
                    let hold = self.hold.get_or_insert_with(|| Box::pin(hold.over()));
                    ready!(hold.as_mut().poll(context));
                    self.hold = None;
                }
            }
        }
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let peer_timeout = match &written {
            Poll::Pending => self
                .progress
                .note_stalled()
                .then(|| self.write_timeout.saturating_add(self.peer_timeout)),
            Poll::Ready(_) => self.progress.note_moved().then_some(self.peer_timeout),
        };
        if let Some(peer_timeout) = peer_timeout
            && let Err(error) = give_up_after(self.stream.inner(), peer_timeout)
        {
            debug!(%error, "cannot set the options of a connection");
        }
        written
    }
}

#[cfg(target_os = "linux")]
fn limit_unsent(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)
}

#[cfg(target_os = "linux")]
fn give_up_after(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    SockRef::from(stream).set_tcp_user_timeout(Some(timeout))
}

#[cfg(not(target_os = "linux"))]
fn limit_unsent(_: &TcpStream) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn give_up_after(_: &TcpStream, _: Duration) -> io::Result<()> {
    Ok(())
}

impl Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner().poll_read(context, buffer)
    }
}

impl Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_passage(context))?;
        let written = self.as_mut().inner().poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_passage(context))?;
        let mut together = [0; TOGETHER_BYTES];
        let inner = self.as_mut().inner();
        let written = match join(pieces, &mut together) {
            Some(joined) => inner.poll_write(context, joined),
            None => inner.poll_write_vectored(context, pieces),
        };
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes the connection when nothing is left in its own buffers.
        self.progress.note_emptied();
        self.inner().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(context)
    }
}

/// Copies the pieces one after the other into `buffer`; `None` if they do not fit.
fn join<'a>(pieces: &[IoSlice<'_>], buffer: &'a mut [u8; TOGETHER_BYTES]) -> Option<&'a [u8]> {
    let mut end = 0;
    for piece in pieces {
        let next = end + piece.len();
        buffer.get_mut(end..next)?.copy_from_slice(piece);
        end = next;
    }
    buffer.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_put_together_if_they_fit() {
        let mut buffer = [0; TOGETHER_BYTES];
        let pieces = [
            IoSlice::new(b"5\r\n"),
            IoSlice::new(b"hello"),
            IoSlice::new(b"\r\n"),
        ];
        assert_eq!(join(&pieces, &mut buffer), Some(&b"5\r\nhello\r\n"[..]));
        let large = [b'x'; TOGETHER_BYTES];
        assert_eq!(join(&[IoSlice::new(&large)], &mut buffer), Some(&large[..]));
        assert_eq!(
            join(&[IoSlice::new(&large), IoSlice::new(b"x")], &mut buffer),
            None
        );
        assert_eq!(join(&[], &mut buffer), Some(&b""[..]));
    }
}
