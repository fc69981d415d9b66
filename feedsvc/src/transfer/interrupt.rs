//! SIGINT and SIGTERM: the first asks for an end, after what is under way; the second, or five seconds, ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long what is under way may take after the first signal.
const GRACE: Duration = Duration::from_secs(5);

/// Whether the command was asked to end.
#[derive(Clone, Default)]
pub(super) struct Interrupt {
    asked: CancellationToken,
    forced: CancellationToken,
    /// 128 + the signal's number, as a shell tells it.
    exit_code: Arc<AtomicU8>,
}

impl Interrupt {
    /// Begins to listen to the signals of this process; it does so as long as the runtime lives.
    pub(super) fn by_signals() -> Result<Interrupt, std::io::Error> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let told = Interrupt::default();
        let tell = told.clone();
        tokio::spawn(async move {
            let exit_code = tokio::select! {
                _ = terminate.recv() => 143,
                _ = interrupt.recv() => 130,
            };
            tell.exit_code.store(exit_code, Ordering::Relaxed);
            tell.asked.cancel();
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = tokio::time::sleep(GRACE) => {}
            }
            tell.forced.cancel();
        });
        Ok(told)
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_cancelled()
    }

    /// Waits until an end is asked for.
    pub(super) async fn asked(&self) {
        self.asked.cancelled().await;
    }

    /// Waits until what is under way has to be given up too.
    pub(super) async fn forced(&self) {
        self.forced.cancelled().await;
    }

    /// Returns the exit code that tells the signal; meaningful once an end is asked for.
    pub(super) fn exit_code(&self) -> u8 {
        self.exit_code.load(Ordering::Relaxed)
    }
}
