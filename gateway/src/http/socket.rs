//! A TCP connection as hyper wants it, with small pieces put together before they are written.
//!
//! hyper writes a frame as three pieces: the size of the chunk, the frame, and the end of the chunk. For so few bytes a
//! vectored write costs more than to copy them and send one piece.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Up to this size pieces are put together: a frame or two with its chunk around it.
const TOGETHER_BYTES: usize = 512;

/// A connection.
pub(super) struct Socket(TokioIo<TcpStream>);

impl Socket {
    /// Takes a connection over.
    pub(super) fn new(stream: TcpStream) -> Socket {
        Socket(TokioIo::new(stream))
    }

    fn inner(self: Pin<&mut Self>) -> Pin<&mut TokioIo<TcpStream>> {
        Pin::new(&mut self.get_mut().0)
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
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.inner().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut together = [0; TOGETHER_BYTES];
        match join(pieces, &mut together) {
            Some(joined) => self.inner().poll_write(context, joined),
            None => self.inner().poll_write_vectored(context, pieces),
        }
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
