//! Sessions: the state of each client, and the streams of this instance.
//!
//! The durable record of a session belongs to the feed service; here is only what another instance can build again. The
//! path of a change: `feed` ring → [`hub`] (who wants it? by [`interest`]) → a [`stream`]'s list of positions in the
//! [`frame_ring`] → its [`reader`]; what the bytes look like is the stream's [`form`]. A stream that opens, resumes or fell behind is brought up by [`catch_up`].
//! What happens to streams is counted in [`counts`]. After the process was stopped nothing is written until [`vigil`] allows it.
//! A `subscriptions/listen` is the same kind of stream without a session: [`listen`], [`listens`].

mod catch_up;
mod counts;
mod form;
mod frame_ring;
mod hub;
mod interest;
mod listen;
mod listens;
mod positions;
mod reader;
mod registry;
mod replies;
mod sessions;
mod stream;
mod subscriptions;
mod takeovers;
mod vigil;
mod write_progress;

use std::sync::Arc;

pub(crate) use counts::{CountBy, Counts, Kind};
pub(crate) use listen::Listen;
pub(crate) use reader::StreamReader;
pub(crate) use registry::{InFlight, Session};
pub(crate) use replies::{Door, ReplyStream};
pub(crate) use sessions::{Background, Limits, Sessions};
pub(crate) use write_progress::{Passage, WriteProgress};

/// A session's id, as it stands in `Mcp-Session-Id`.
pub(crate) type SessionId = Arc<str>;
