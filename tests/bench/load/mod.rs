//! The client side: thousands of sessions on plain sockets in one thread.
//!
//! [`http`] is a small blocking client for what is asked once, [`open`] opens sessions with it, [`fleet`] reads all streams of one
//! server, [`frames`] counts and checks what they bring.

pub mod fleet;
pub mod frames;
pub mod http;
pub mod open;
