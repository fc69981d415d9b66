//! The bytes of a file that is imported, with their place in it.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much is read at a time.
const BUFFER_BYTES: usize = 64 * 1024;
/// The longest mark at the beginning of a file that tells its encoding.
const MARK_BYTES: u64 = 4;

/// A reader that knows its line, and what a line end is: LF, CRLF or a lone CR.
pub(super) struct Source {
    reader: BufReader<Box<dyn Read + Send>>,
    place: Place,
    /// The last byte was a CR, so a LF that follows belongs to it.
    after_cr: bool,
    /// Where others see how much was read.
    read_bytes: Arc<AtomicU64>,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// 1-based.
    pub(super) line: u64,
    /// Bytes before it in the file, its byte order mark included.
    pub(super) offset: u64,
}

/// Why a file cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error("{0}; check the file and its disk")]
    Read(#[from] std::io::Error),
    #[error(
        "byte 1: the file is encoded in {encoding}, as its first bytes tell; convert it to UTF-8, for example with iconv"
    )]
    Encoding { encoding: &'static str },
}

impl Source {
    /// Begins to read; passes over the byte order mark of UTF-8, and refuses those of other encodings.
    pub(super) fn open(
        mut reader: Box<dyn Read + Send>,
        read_bytes: Arc<AtomicU64>,
    ) -> Result<Source, SourceError> {
        let mut mark = Vec::new();
        reader.by_ref().take(MARK_BYTES).read_to_end(&mut mark)?;
        let encoding = match mark.as_slice() {
            [0xff, 0xfe, 0, 0] | [0, 0, 0xfe, 0xff] => Some("UTF-32"),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
            _ => None,
        };
        if let Some(encoding) = encoding {
            return Err(SourceError::Encoding { encoding });
        }
        let skipped = if mark.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let rest: Box<dyn Read + Send> = Box::new(Cursor::new(mark.split_off(skipped)).chain(reader));
        Ok(Source {
            reader: BufReader::with_capacity(BUFFER_BYTES, rest),
            place: Place {
                line: 1,
                offset: u64::try_from(skipped).unwrap_or_default(),
            },
            after_cr: false,
            read_bytes,
        })
    }

    /// Returns the place of the next byte.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Returns the bytes that come next, none at the end of the file.
    pub(super) fn peek(&mut self) -> Result<&[u8], SourceError> {
        if self.after_cr {
            self.after_cr = false;
            if self.fill()?.first() == Some(&b'\n') {
                self.advance(1);
            }
        }
        self.fill()
    }

    fn fill(&mut self) -> Result<&[u8], SourceError> {
        // Asked again after an interruption, as `fill_buf` is.
        loop {
            match self.reader.fill_buf() {
                Ok(_) => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.reader.buffer())
    }

    /// Goes past bytes that hold no line end.
    pub(super) fn advance(&mut self, count: usize) {
        self.reader.consume(count);
        let count = u64::try_from(count).unwrap_or_default();
        self.place.offset += count;
        self.read_bytes.fetch_add(count, Ordering::Relaxed);
    }

    /// Goes past a line end of which the next byte, CR or LF, is the first; a LF behind a CR is passed over with it.
    pub(super) fn end_line(&mut self, byte: u8) {
        self.advance(1);
        self.place.line += 1;
        self.after_cr = byte == b'\r';
    }

    /// Goes past a line end inside a row, and says whether it was a CRLF.
    pub(super) fn take_line_end(&mut self, byte: u8) -> Result<&'static [u8], SourceError> {
        self.advance(1);
        self.place.line += 1;
        if byte != b'\r' {
            return Ok(b"\n");
        }
        if self.fill()?.first() == Some(&b'\n') {
            self.advance(1);
            return Ok(b"\r\n");
        }
        Ok(b"\r")
    }

    /// Goes to the beginning of the next line, or the end of the file.
    pub(super) fn skip_line(&mut self) -> Result<(), SourceError> {
        loop {
            let bytes = self.peek()?;
            if bytes.is_empty() {
                return Ok(());
            }
            match find_line_end(bytes) {
                Some((at, byte)) => {
                    self.advance(at);
                    self.end_line(byte);
                    return Ok(());
                }
                None => {
                    let count = bytes.len();
                    self.advance(count);
                }
            }
        }
    }
}

/// Finds the first CR or LF.
pub(super) fn find_line_end(bytes: &[u8]) -> Option<(usize, u8)> {
    bytes
        .iter()
        .position(|byte| matches!(byte, b'\n' | b'\r'))
        .map(|at| (at, bytes[at]))
}
