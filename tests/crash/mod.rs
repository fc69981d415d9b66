//! The feed service under faults: killed, without disk space, on damaged files, with clients that read nothing, and with requests
//! that go to every limit. Each time the log is compared with what was acknowledged.
//!
//! - `replay`: the naive model: reads the whole log and says what it must have led to;
//! - `storm`: writers whose service is killed again and again;
//! - `durability`: what reaches the disk before a commit is acknowledged, and what a cut write-ahead log still has;
//! - `disk`: no space, no right to write, damaged pages;
//! - `unread`: watches that nobody reads;
//! - `limits`: batches, keys and records at and beyond the limits;
//! - `mount`: file systems of a test's own, and tools that may be missing.

mod disk;
mod durability;
mod limits;
mod mount;
mod replay;
mod storm;
mod unread;
