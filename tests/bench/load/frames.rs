//! From the bytes of a chunked SSE response to counted and checked frames.

use anyhow::{Context as _, bail, ensure};
use memchr::memchr;

/// What one session has got since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames with data.
    pub frames: u64,
    /// Their ids, mixed and added up: equal sums of as many rising ids mean the same ids.
    pub id_sum: u64,
}

impl Tally {
    /// Adds a frame with this id.
    pub fn add(&mut self, id: u64) {
        self.frames += 1;
        self.id_sum = self.id_sum.wrapping_add(mix(id));
    }
}

/// Spreads an id over all bits (the finaliser of splitmix64), so that two wrong ids do not add up to two right ones.
fn mix(id: u64) -> u64 {
    let mut mixed = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Reads one session's stream, in pieces of any size.
#[derive(Debug, Default)]
pub struct FrameReader {
    chunk: Chunk,
    events: EventReader,
}

/// Where in a chunked body the next byte is.
#[derive(Debug, Default)]
enum Chunk {
    /// In the size line; the size so far, and whether the hexadecimal digits are over.
    #[default]
    Start,
    Size {
        bytes: usize,
        digits_over: bool,
    },
    Data {
        left_bytes: usize,
    },
    /// Before the line end that follows the data.
    End,
}

impl FrameReader {
    /// Reads on and returns how many frames with data were completed.
    ///
    /// # Errors
    /// The bytes are no chunked SSE body, the body ended, or an id did not rise.
    pub fn feed(&mut self, mut bytes: &[u8]) -> anyhow::Result<u64> {
        let before = self.events.tally.frames;
        while let Some((&byte, rest)) = bytes.split_first() {
            match self.chunk {
                Chunk::Start => {
                    self.chunk = Chunk::Size {
                        bytes: 0,
                        digits_over: false,
                    };
                }
                Chunk::Size {
                    bytes: size,
                    digits_over,
                } => {
                    self.chunk = next_in_size_line(size, digits_over, byte)?;
                    bytes = rest;
                }
                Chunk::Data { left_bytes } => {
                    let (data, rest) = bytes.split_at(left_bytes.min(bytes.len()));
                    self.events.feed(data)?;
                    self.chunk = match left_bytes - data.len() {
                        0 => Chunk::End,
                        left_bytes => Chunk::Data { left_bytes },
                    };
                    bytes = rest;
                }
                Chunk::End => {
                    if byte == b'\n' {
                        self.chunk = Chunk::Start;
                    }
                    bytes = rest;
                }
            }
        }
        Ok(self.events.tally.frames - before)
    }

    /// Returns what came since the last reset.
    pub fn tally(&self) -> Tally {
        self.events.tally
    }

    /// Begins a new tally; the order of ids is still checked across it.
    pub fn reset(&mut self) {
        self.events.tally = Tally::default();
    }
}

fn next_in_size_line(size: usize, digits_over: bool, byte: u8) -> anyhow::Result<Chunk> {
    Ok(match byte {
        b'\n' => {
            ensure!(size > 0, "the server ended the stream");
            Chunk::Data { left_bytes: size }
        }
        b'\r' | b';' | b' ' => Chunk::Size {
            bytes: size,
            digits_over: true,
        },
        _ if digits_over => Chunk::Size {
            bytes: size,
            digits_over,
        },
        _ => {
            let digit = char::from(byte)
                .to_digit(16)
                .context("no hexadecimal chunk size")?;
            Chunk::Size {
                bytes: size << 4 | digit as usize,
                digits_over,
            }
        }
    })
}

#[derive(Debug, Default)]
struct EventReader {
    tally: Tally,
    last_id: Option<u64>,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    event_id: Option<u64>,
    has_data: bool,
}

impl EventReader {
    fn feed(&mut self, mut bytes: &[u8]) -> anyhow::Result<()> {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.partial.is_empty() {
                self.line(line)?;
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.line(&whole)?;
                whole.clear();
                self.partial = whole;
            }
            bytes = rest;
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line {
            [] => self.event_end()?,
            [b'i', b'd', b':', id @ ..] => self.event_id = Some(leading_number(id)?),
            [b'd', b'a', b't', b'a', b':', data @ ..] => {
                self.has_data |= !data.is_empty() && data != b" ";
            }
            _ => {}
        }
        Ok(())
    }

    /// At a blank line. A block without data (an opening block, a bookmark) only moves a cursor: it is neither counted nor
    /// ordered (rmcp opens a stream with the id that its first frame will have).
    fn event_end(&mut self) -> anyhow::Result<()> {
        let id = self.event_id.take();
        if !std::mem::take(&mut self.has_data) {
            return Ok(());
        }
        let id = id.context("a frame has data but no id")?;
        if let Some(last) = self.last_id.filter(|last| *last >= id) {
            bail!("id {id} came after id {last}");
        }
        self.last_id = Some(id);
        self.tally.add(id);
        Ok(())
    }
}

/// Reads the digits at the beginning (rmcp's ids may have a suffix).
fn leading_number(text: &[u8]) -> anyhow::Result<u64> {
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let mut number: Option<u64> = None;
    for digit in digits {
        number = number
            .unwrap_or(0)
            .checked_mul(10)
            .and_then(|n| n.checked_add(u64::from(digit - b'0')));
        ensure!(number.is_some(), "an id is above 64 bits");
    }
    number.with_context(|| format!("id \"{}\" is no number", String::from_utf8_lossy(text)))
}

#[cfg(test)]
mod tests {
    use super::{FrameReader, Tally};

    fn chunk(data: &str) -> String {
        format!("{:X}\r\n{data}\r\n", data.len())
    }

    fn tally_of(ids: &[u64]) -> Tally {
        let mut tally = Tally::default();
        for id in ids {
            tally.add(*id);
        }
        tally
    }

    #[track_caller]
    fn check(body: &str, expected: Result<&[u64], &str>) {
        for piece_bytes in [1, 2, 3, 7, 64, body.len()] {
            let mut reader = FrameReader::default();
            let outcome = body
                .as_bytes()
                .chunks(piece_bytes)
                .try_for_each(|piece| reader.feed(piece).map(drop));
            match expected {
                Ok(ids) => {
                    assert!(outcome.is_ok(), "{outcome:?} in pieces of {piece_bytes}");
                    assert_eq!(reader.tally(), tally_of(ids), "in pieces of {piece_bytes}");
                }
                Err(text) => {
                    let error = outcome.expect_err("must fail").to_string();
                    assert!(error.contains(text), "{error}");
                }
            }
        }
    }

    #[test]
    fn frames_are_counted_however_they_are_cut() {
        let two = "id: 7\nevent: message\ndata: {\"a\":1}\n\nid: 9\nevent: message\ndata: {\"a\":2}\n\n";
        check(&chunk(two), Ok(&[7, 9]));
        let (first, second) = two.split_at(20);
        check(&(chunk(first) + &chunk(second)), Ok(&[7, 9]));
    }

    #[test]
    fn blocks_without_data_are_not_counted() {
        let body = chunk(":\n\n")
            + &chunk("id: 3\ndata:\nretry: 2000\n\n")
            + &chunk(": x\n")
            + &chunk("id: 4\ndata: {}\n\n");
        check(&body, Ok(&[4]));
    }

    #[test]
    fn an_id_that_does_not_rise_is_an_error() {
        check(
            &chunk("id: 4\ndata: {}\n\nid: 4\ndata: {}\n\n"),
            Err("id 4 came after id 4"),
        );
    }

    #[test]
    fn an_end_of_the_body_is_an_error() {
        check("0\r\n\r\n", Err("ended the stream"));
    }
}
