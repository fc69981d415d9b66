//! The feed service as the gateway sees it: calls, the one watch, the ring of recent entries, the catalogue.
//!
//! The only place that knows the gRPC contract. What comes in by the watch is turned into [`Entry`] values here and
//! appended to the [`Ring`]; readers pull from the ring after a cursor of their own.

mod catalog;
mod client;
mod entry;
mod error;
mod keyring;
mod ring;
mod watch;

pub(crate) use catalog::{Catalog, Table};
pub(crate) use client::{
    FeedClient, Opened, Precondition, StoredRecord, StoredSubscription, Target, Timeouts, Written,
};
pub(crate) use entry::{Body, Entry, SessionCommand};
pub(crate) use error::FeedError;
pub(crate) use keyring::{Keyring, SealingKey};
pub(crate) use ring::Ring;
pub(crate) use watch::Watch;

/// The feed that a gateway serves; its name stands in every request from the first day, a choice of feeds comes later.
pub(crate) const FEED: &str = "main";
