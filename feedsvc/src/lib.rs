//! The feed service: owns the tables, the audit log of their changes and the durable sessions, and speaks gRPC only.
//!
//! The path of a change: `api` takes the call and checks the record against the `catalog`; `commit` gives it a
//! revision and writes record and log entry in one transaction of the `store`; the `ring` keeps the encoded entry
//! and rings the bell; each watch (`api`) pulls from the ring after its own cursor, and what the ring no longer has from
//! the store. Session commands (`session`) go the same way, so they are in one order with the changes.
//!
//! `transfer` is the other side: import and export, which are clients of a service.
//!
//! [`Service`] is the whole of it in a process, and [`run()`] the process.

mod access;
mod access_log;
mod api;
mod bells;
mod catalog;
mod chain;
mod clock;
mod commit;
mod config;
mod entry;
mod expiry;
mod feed;
mod indexing;
mod lease;
mod maintenance;
mod refusal;
mod revision;
mod ring;
mod run;
mod sabotage;
mod sealing;
mod search;
mod service;
mod session;
mod store;
mod telemetry;
#[cfg(test)]
mod testing;
mod transfer;

pub use access::AccessMode;
pub use catalog::{SchemaError, SchemaReadError, SchemaSource};
pub use config::ServeSettings;
pub use run::run;
#[cfg(feature = "sabotage")]
pub use sabotage::install as install_sabotage;
pub use service::{Limits, OpenError, Options, ServeError, Service};
pub use store::StoreOpenError;
