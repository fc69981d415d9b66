//! The shapes of the wire, as pure values: JSON-RPC, the MCP types, eras, event ids, URIs and frames.
//!
//! Nothing here does I/O, waits, reads a clock or knows another module of the gateway. Reading is strict and has
//! one result (a duplicate key is refused, not resolved); writing always gives one line.
//!
//! - [`json`], [`message`], [`error`], [`answer`]: JSON-RPC 2.0 in and out.
//! - [`era`], [`mcp`], [`log_level`]: protocol versions with what depends on them, and the MCP types that are served.
//! - [`request_meta`], [`header_value`], [`complete`]: what a request of the modern era carries, and its result.
//! - [`listen`], [`listen_frame`], [`cursor`]: `subscriptions/listen`, its frames, and the cursor of the resume extension.
//! - [`event_id`], [`frame`]: the cursor of a GET stream, and the SSE frames that carry it.
//! - [`resource_uri`]: which resource a URI names.
//! - [`trace`]: which trace a request belongs to.
//! - [`mod@line`]: text and numbers written so that they stay on one line.

pub(crate) mod answer;
pub(crate) mod complete;
pub(crate) mod cursor;
pub(crate) mod era;
pub(crate) mod error;
pub(crate) mod event_id;
pub(crate) mod frame;
pub(crate) mod header_value;
pub(crate) mod json;
pub(crate) mod line;
pub(crate) mod listen;
pub(crate) mod listen_frame;
pub(crate) mod log_level;
pub(crate) mod mcp;
pub(crate) mod message;
pub(crate) mod request_meta;
pub(crate) mod resource_uri;
pub(crate) mod trace;
