//! Counts the frames of HTTP/2 that a client sends, by their kind (RFC 9113, section 4.1).

use std::sync::Mutex;

/// The kind of frame that opens a request.
pub const HEADERS: u8 = 1;

/// The kind of frame that breaks one off.
pub const RST_STREAM: u8 = 3;

/// What a client of HTTP/2 sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEAD_BYTES: usize = 9;

/// How many frames of each kind were seen, over all connections.
#[derive(Debug)]
pub struct FrameCounts(Mutex<[usize; 256]>);

impl Default for FrameCounts {
    fn default() -> FrameCounts {
        FrameCounts(Mutex::new([0; 256]))
    }
}

impl FrameCounts {
    /// Returns how many frames of this kind were seen.
    pub fn of(&self, kind: u8) -> usize {
        self.0.lock().unwrap()[usize::from(kind)]
    }
}

/// Cuts what passes in one direction of a connection into frames; on one of another protocol nothing is found.
#[derive(Debug, Default)]
pub struct FrameCounter {
    bytes: Vec<u8>,
    has_begun: bool,
    is_other: bool,
}

impl FrameCounter {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8], counts: &FrameCounts) {
        if self.is_other {
            return;
        }
        self.bytes.extend(bytes);
        if !self.has_begun {
            let length = self.bytes.len().min(PREFACE.len());
            self.is_other = self.bytes[..length] != PREFACE[..length];
            if self.is_other || length < PREFACE.len() {
                return;
            }
            self.bytes.drain(..length);
            self.has_begun = true;
        }
        while let [a, b, c, kind, ..] = self.bytes[..] {
            let end = HEAD_BYTES + usize::from(a) * 65_536 + usize::from(b) * 256 + usize::from(c);
            if self.bytes.len() < end {
                return;
            }
            self.bytes.drain(..end);
            counts.0.lock().unwrap()[usize::from(kind)] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameCounter, FrameCounts, HEADERS, PREFACE, RST_STREAM};

    #[test]
    fn frames_are_counted_wherever_the_bytes_are_cut() {
        let mut bytes = PREFACE.to_vec();
        bytes.extend([0, 0, 2, HEADERS, 0, 0, 0, 0, 1, 0xff, RST_STREAM]);
        bytes.extend([0, 0, 4, RST_STREAM, 0, 0, 0, 0, 1, 0, 0, 0, 8]);
        for size in 1..bytes.len() {
            let (mut counter, counts) = (FrameCounter::default(), FrameCounts::default());
            for piece in bytes.chunks(size) {
                counter.push(piece, &counts);
            }
            assert_eq!((counts.of(HEADERS), counts.of(RST_STREAM)), (1, 1), "by {size}");
        }
        let (mut counter, counts) = (FrameCounter::default(), FrameCounts::default());
        counter.push(b"POST /mcp HTTP/1.1\r\n", &counts);
        counter.push(&bytes, &counts);
        assert_eq!(counts.of(HEADERS), 0);
    }
}
