//! The process around the work: runtime, signals, descriptor limit, end.

use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::server::Failure;

/// How long the runtime may take to let go of blocking work at the end.
const RUNTIME_END_MAX: Duration = Duration::from_millis(100);

/// Descriptors that connections leave alone: listeners, the feed service, in the dev mode also its store.
const DESCRIPTORS_KEPT: usize = 256;

/// Runs `work` on a new runtime until it ends; SIGTERM and Ctrl-C ask it to end by the token that it gets, and a second one does
/// not wait for it.
pub(crate) fn run<F>(work: impl FnOnce(CancellationToken) -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    raise_descriptor_limit();
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    let ended = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let mut signals = Signals::listen().map_err(Failure::Runtime)?;
        let work = work(shutdown.clone());
        tokio::pin!(work);
        tokio::select! {
            ended = &mut work => return ended,
            () = signals.received() => shutdown.cancel(),
        }
        tokio::select! {
            ended = &mut work => ended,
            () = signals.received() => {
                warn!("a second signal, ending at once");
                Ok(())
            }
        }
    });
    runtime.shutdown_timeout(RUNTIME_END_MAX);
    ended
}

/// SIGTERM and SIGINT from now on.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Returns how many of `wanted` connections the process has descriptors for, with some left for its own files and sockets.
pub(crate) fn connections_max(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile)
        .current
        .and_then(|limit| usize::try_from(limit).ok());
    limit
        .unwrap_or(usize::MAX)
        .saturating_sub(DESCRIPTORS_KEPT)
        .clamp(1, wanted)
}

/// Raises the number of descriptors that the process may have to what it is allowed: every stream takes one.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => debug!(limit = limit.maximum, "raised the descriptor limit"),
        Err(error) => warn!(%error, "cannot raise the descriptor limit"),
    }
}
