//! A server under test with all that belongs to it: its process, its sessions, and who makes changes.
//!
//! [`process`] starts and ends servers, [`publish`] makes changes, [`server`] says how each kind is started, [`sampling`]
//! measures.

pub mod process;
pub mod publish;
pub mod sampling;
pub mod server;

pub use sampling::{Sample, Subject};
