//! A TCP connection as hyper wants it, with small pieces put together before they are written.
//!
//! hyper writes a frame as three pieces: the size of the chunk, the frame, and the end of the chunk. For so few bytes a
//! vectored write costs more than to copy them and send one piece.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::session::WriteProgress;

/// Up to this size pieces are put together: a frame or two with its chunk around it.
const TOGETHER_BYTES: usize = 512;

/// A connection.
pub(super) struct Socket {
    stream: TokioIo<TcpStream>,
    progress: Arc<WriteProgress>,
}

impl Socket {
    /// Takes a connection over, and notes in `progress` whether it takes what is written.
    pub(super) fn new(stream: TcpStream, progress: Arc<WriteProgress>) -> Socket {
        Socket {
            stream: TokioIo::new(stream),
            progress,
        }
    }

    fn inner(self: Pin<&mut Self>) -> Pin<&mut TokioIo<TcpStream>> {
        Pin::new(&mut self.get_mut().stream)
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => self.progress.note_stalled(),
            Poll::Ready(_) => self.progress.note_moved(),
        }
        written
    }
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
        let written = self.as_mut().inner().poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
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
