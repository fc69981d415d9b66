//! The contract, one file per subject; a test's name begins with its rule, `b_4_1_…`, or its case, `field_case_a01_…`.
//!
//! - `path`: a write on one side becomes a notice on the other, across processes;
//! - `outage`: what holds while the feed service is away, and after;
//! - `failures`: B-2.8, what went wrong inside;
//! - `flood`: a thousand sessions at full speed;
//! - `requests`, `listeners`: B-1 and B-2, the rules of HTTP and JSON-RPC;
//! - `sessions`: B-3; `stream`, `resume`: B-4; `subscribe`, `uris`: B-5;
//! - `drain`, `slow`: the planned end of an instance (B-4.12), readers that do not read (B-4.9); `dead_peers`: those that are
//!   gone without a word;
//! - `http_sse`: B-7, the older transport;
//! - `small_methods`: B-13;
//! - `rights`: B-14.3 as far as the gateway lets them through yet;
//! - `records`: B-8 as far as it goes, and the REST surface;
//! - `modern_requests`, `modern_listen`, `modern_resume`, `modern_http2`: B-6; `modern_clients`: clients of others;
//! - `retention`: a log that was trimmed; `backup`: backups, and what holds after a restore;
//! - `transfer`: import and export of tables;
//! - `metrics`: what the admin listener tells of streams;
//! - `dev_mode`: `gateway dev`, as a newcomer meets it; `command_line`: what the services say when they cannot start;
//! - `configuration`: files, environment and flags, and the pages that are made of the keys.

mod backup;
mod command_line;
mod configuration;
#[cfg(target_os = "linux")]
mod dead_peers;
mod dev_mode;
mod drain;
mod failures;
mod flood;
mod http_sse;
mod listeners;
mod metrics;
mod modern_clients;
mod modern_http2;
mod modern_listen;
mod modern_requests;
mod modern_resume;
mod outage;
mod path;
mod records;
mod requests;
mod resume;
mod retention;
mod rights;
mod sessions;
mod slow;
mod small_methods;
mod stream;
mod subscribe;
mod transfer;
mod uris;
