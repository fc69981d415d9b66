//! The ring of live frames: each notice encoded once per change and spelling, shared by every stream that gets it.
//!
//! Streams keep *positions* in this ring, 8 bytes a notice, and take the bytes when they write. The hub is the only
//! writer; it appends a pass of frames and then publishes them, so that a stream never sees half of a pass.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::{Bytes, BytesMut};

use super::form::Form;
use super::positions::Positions;
use crate::protocol::event_id::EventId;
use crate::protocol::frame::EncodedUri;

/// One encoded notice.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// Its event id.
    pub(super) id: EventId,
    /// The spelling in which it names its URI.
    pub(super) spelling: Arc<EncodedUri>,
    /// What the streams of its group share: all of the block, or what follows the subscription id (see `form`).
    pub(super) bytes: Bytes,
}

/// The newest live frames, bounded by bytes.
pub(super) struct FrameRing {
    inner: RwLock<Inner>,
    /// Positions below this one may be read.
    published: AtomicU64,
}

/// Invariant: the frame at position `first + i` is `frames[i]`.
struct Inner {
    first: u64,
    frames: VecDeque<Frame>,
    size_bytes: usize,
    limit_bytes: usize,
}

/// What a stream took out of the ring in one go.
#[derive(Debug)]
pub(super) struct Taken {
    /// The frames' bytes, one after the other.
    pub(super) bytes: Bytes,
    /// How many positions were taken.
    pub(super) count: usize,
    /// The id of the last of them.
    pub(super) last: EventId,
}

/// A frame that a stream still needed was dropped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dropped;

impl FrameRing {
    /// Makes an empty ring of at most about `limit_bytes`.
    pub(super) fn new(limit_bytes: usize) -> FrameRing {
        let inner = Inner {
            first: 0,
            frames: VecDeque::new(),
            size_bytes: 0,
            limit_bytes,
        };
        FrameRing {
            inner: RwLock::new(inner),
            published: AtomicU64::new(0),
        }
    }

    /// Appends frames and returns the position of the first; they cannot be read before [`FrameRing::publish`].
    pub(super) fn append(&self, frames: &mut Vec<Frame>) -> u64 {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let position = inner.first + inner.frames.len() as u64;
        for frame in frames.drain(..) {
            inner.size_bytes += frame_size_bytes(&frame);
            inner.frames.push_back(frame);
        }
        while inner.size_bytes > inner.limit_bytes {
            let Some(oldest) = inner.frames.pop_front() else {
                break;
            };
            inner.size_bytes -= frame_size_bytes(&oldest);
            inner.first += 1;
        }
        position
    }

    /// Returns the position that the next appended frame gets.
    pub(super) fn next_position(&self) -> u64 {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.first + inner.frames.len() as u64
    }

    /// Lets everything be read that was appended.
    pub(super) fn publish(&self) {
        self.published.store(self.next_position(), Ordering::Release);
    }

    /// Returns the position below which frames may be read.
    pub(super) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Takes the frames at the first of these rising positions, at most about `max_bytes` of them but one at least.
    ///
    /// One whole frame is handed out as it is, several, or those of a listen, as one copy: a socket write of one piece is
    /// cheaper than that of many. `None` if the first position is not published yet, or there is none.
    pub(super) fn take(
        &self,
        positions: &Positions,
        form: &Form,
        max_bytes: usize,
    ) -> Result<Option<Taken>, Dropped> {
        let published = self.published();
        let Some(first) = positions.first().filter(|position| *position < published) else {
            return Ok(None);
        };
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let front = inner.get(first)?;
        let mut count = 1;
        let mut size_bytes = form_size_bytes(form, front);
        let mut last = front.id;
        for position in positions
            .iter()
            .skip(1)
            .take_while(|position| *position < published)
        {
            let frame = inner.get(position)?;
            if size_bytes + form_size_bytes(form, frame) > max_bytes {
                break;
            }
            size_bytes += form_size_bytes(form, frame);
            last = frame.id;
            count += 1;
        }
        if count == 1 && size_bytes == front.bytes.len() {
            return Ok(Some(Taken {
                bytes: front.bytes.clone(),
                count,
                last,
            }));
        }
        let mut bytes = BytesMut::with_capacity(size_bytes);
        for position in positions.iter().take(count) {
            let frame = inner.get(position)?;
            let (head, tag) = form.before(frame.id);
            bytes.extend_from_slice(head);
            bytes.extend_from_slice(tag);
            bytes.extend_from_slice(&frame.bytes);
        }
        Ok(Some(Taken {
            bytes: bytes.freeze(),
            count,
            last,
        }))
    }

    /// Keeps only those of `positions` whose frame does not name `spelling`.
    pub(super) fn discard(&self, positions: &mut Positions, spelling: &Arc<EncodedUri>) {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        positions.retain(|position| {
            inner
                .get(position)
                .map_or(true, |frame| frame.spelling != *spelling)
        });
    }
}

impl Inner {
    fn get(&self, position: u64) -> Result<&Frame, Dropped> {
        let index = position.checked_sub(self.first).ok_or(Dropped)?;
        self.frames
            .get(usize::try_from(index).map_err(|_| Dropped)?)
            .ok_or(Dropped)
    }
}

/// Returns how large a frame is for a stream of this form.
fn form_size_bytes(form: &Form, frame: &Frame) -> usize {
    let (head, tag) = form.before(frame.id);
    head.len() + tag.len() + frame.bytes.len()
}

fn frame_size_bytes(frame: &Frame) -> usize {
    size_of::<Frame>() + frame.bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event_id::Slot;

    fn frame(revision: u64, text: &'static str) -> Frame {
        Frame {
            id: EventId::new(revision, Slot::Record),
            spelling: Arc::new(EncodedUri::new("feed+rest://h/T/1")),
            bytes: Bytes::from_static(text.as_bytes()),
        }
    }

    fn ring(frames: &mut Vec<Frame>, limit_bytes: usize) -> FrameRing {
        let ring = FrameRing::new(limit_bytes);
        ring.append(frames);
        ring
    }

    #[test]
    fn nothing_is_read_before_it_is_published() {
        let ring = ring(&mut vec![frame(1, "a"), frame(2, "b")], 1 << 20);
        let positions = Positions::from_iter([0, 1]);
        assert!(ring.take(&positions, &Form::Session, 100).unwrap().is_none());
        ring.publish();
        let taken = ring.take(&positions, &Form::Session, 100).unwrap().unwrap();
        assert_eq!(
            (&taken.bytes[..], taken.count, taken.last.revision()),
            (&b"ab"[..], 2, 2)
        );
    }

    #[test]
    fn a_take_ends_at_its_size_but_holds_one_frame_at_least() {
        let ring = ring(
            &mut vec![frame(1, "aaaa"), frame(2, "bb"), frame(3, "cc")],
            1 << 20,
        );
        ring.publish();
        let taken = |positions: &[u64], max| {
            let taken = ring
                .take(&positions.iter().copied().collect(), &Form::Session, max)
                .unwrap()
                .unwrap();
            String::from_utf8(taken.bytes.to_vec()).unwrap()
        };
        assert_eq!(taken(&[0, 1, 2], 1), "aaaa");
        assert_eq!(taken(&[0, 1, 2], 6), "aaaabb");
        assert_eq!(taken(&[0, 2], 100), "aaaacc");
    }

    #[test]
    fn a_dropped_frame_is_told() {
        let limit = size_of::<Frame>() + 1;
        let ring = ring(&mut vec![frame(1, "a"), frame(2, "b")], limit);
        ring.publish();
        assert_eq!(
            ring.take(&Positions::from_iter([0, 1]), &Form::Session, 100)
                .unwrap_err(),
            Dropped
        );
        assert_eq!(
            ring.take(&Positions::from_iter([1]), &Form::Session, 100)
                .unwrap()
                .unwrap()
                .bytes,
            "b"
        );
    }
}
