//! The benchmark: what a delivered notice costs the gateway, beside what it costs two other servers.
//!
//! Three servers run in turn under one load generator, on one machine, in one run: the gateway with its feed service;
//! the *floor*, a plain SSE broadcast server that knows nothing of MCP and sends the same bytes; and a server built
//! with `rmcp`. The server under test has one core, the load generator (and the feed service) another one. What is
//! reported is the median of ratios of neighbouring samples, so that a machine that is slow today is slow for both.
//!
//! A sample counts only if every session got every frame exactly once, in rising order; otherwise the run ends with an
//! error and is no result.
//!
//! Reading order: [`plan`] says what is run, [`run`] runs it, on [`subject`]s (server, sessions and publisher together);
//! [`load`] is the client side of the sessions, [`measure`] counts, [`report`] shows. [`floor`] and [`rmcp_server`]
//! are the servers to compare with. [`feed`] and [`resume`] are benchmarks of their own, with programs of their own, which report by [`ratios`]: the feed service alone, and
//! streams that resume after a kill.

pub mod plan;
pub mod run;

pub mod load;
pub mod measure;
pub mod subject;

pub mod ratios;
pub mod report;

pub mod feed;
pub mod resume;

pub mod floor;
pub mod rmcp_server;

/// The resource that every session subscribes to; the same spelling for every server, so that frames have the same bytes.
pub const URI: &str = "feed+rest://127.0.0.1:9926/Product/42";

/// Raises the soft limit of open files to the hard one.
///
/// # Errors
/// The system refuses it.
pub fn raise_file_limit() -> anyhow::Result<()> {
    use anyhow::Context as _;
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).context("cannot raise the limit of open files")
}
