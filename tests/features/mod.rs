//! The contract, one file per subject; a test's name begins with its rule, `b_4_1_…`, or its case, `field_case_a01_…`.
//!
//! - `path`: a write on one side becomes a notice on the other, across processes;
//! - `outage`: what holds while the feed service is away, and after;
//! - `flood`: a thousand sessions at full speed;
//! - `requests`, `listeners`: B-1 and B-2, the rules of HTTP and JSON-RPC;
//! - `sessions`: B-3; `stream`, `resume`: B-4; `subscribe`, `uris`: B-5;
//! - `records`: B-8 as far as it goes, and the REST surface;
//! - `transfer`: import and export of tables;
//! - `dev_mode`: `gateway dev`, as a newcomer meets it; `command_line`: what the services say when they cannot start.

mod command_line;
mod dev_mode;
mod flood;
mod listeners;
mod outage;
mod path;
mod records;
mod requests;
mod resume;
mod sessions;
mod stream;
mod subscribe;
mod transfer;
mod uris;
