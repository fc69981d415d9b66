//! The feed that is worked on: of a running service, or of a directory that no service has open.

use std::time::{Duration, Instant};

use proto::Reason;
use proto::feed::v1::{Principal, Table};

use super::arguments::FeedArguments;
use super::interrupt::Interrupt;
use super::outcome::TransferError;
use super::progress::Progress;
use crate::api::client::{CallError, FeedClient};
use crate::catalog::SchemaSource;
use crate::service::{OpenError, Options, Service};
use crate::store::StoreOpenError;

/// The pauses between two attempts while the service is away.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A client of the feed, and the service itself where it was opened for this command alone.
pub(super) struct Connection {
    pub(super) client: FeedClient,
    service: Option<Service>,
    /// What messages call it.
    name: String,
    retry_for: Duration,
}

/// Why a call did not succeed, although it was made again while that was worth it.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The service is away; whether a commit was applied is not known.
    Away(String),
    /// The service refused the call; nothing was changed.
    Refused {
        reason: Reason,
        message: String,
        attribute: Option<String>,
    },
    Failed(String),
    /// The command was asked to end meanwhile; whether a commit was applied is not known.
    Interrupted,
}

impl Connection {
    /// Opens what the command line names; a service is not spoken to yet.
    pub(super) async fn open(arguments: &FeedArguments) -> Result<Connection, TransferError> {
        let principal = Principal {
            name: arguments.principal.clone(),
            ..Principal::default()
        };
        let Some(data) = &arguments.data else {
            return Ok(Connection {
                client: FeedClient::of_address(&arguments.feed, principal)?,
                service: None,
                name: format!("the feed service at {}", arguments.feed),
                retry_for: arguments.retry_for,
            });
        };
        let schema = match &arguments.schema {
            Some(path) => SchemaSource::Path(path.clone()),
            // Opening makes what is missing, which is not what a mistyped name is for.
            None if !data.is_dir() => return Err(TransferError::NoStore { data: data.clone() }),
            None => SchemaSource::Stored,
        };
        let service = match Service::open(Options::new(data, schema)).await {
            Ok(service) => service,
            Err(OpenError::Store(StoreOpenError::Locked { directory })) => {
                return Err(TransferError::InUse { data: directory });
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Connection {
            client: FeedClient::of_feed(service.feed(), principal),
            service: Some(service),
            name: format!("the store in {}", data.display()),
            retry_for: arguments.retry_for,
        })
    }

    /// Returns what messages call the feed.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tables. A service that is not there is told at once: most likely it was not started.
    pub(super) async fn get_tables(&self, interrupt: &Interrupt) -> Result<Vec<Table>, TransferError> {
        let answer = tokio::select! {
            answer = self.client.get_catalog() => answer,
            () = interrupt.asked() => return Err(TransferError::Interrupted),
        };
        match answer {
            Ok(catalog) => Ok(catalog.tables),
            Err(error) => Err(TransferError::Unreachable {
                name: self.name.clone(),
                problem: error.to_string(),
            }),
        }
    }

    /// Makes a call, and again with pauses while the service is away, for the configured time at most.
    pub(super) async fn persist<T, Answer>(
        &self,
        interrupt: &Interrupt,
        progress: &Progress,
        call: impl Fn() -> Answer,
    ) -> Result<T, CallFailure>
    where
        Answer: Future<Output = Result<T, CallError>>,
    {
        let (mut pause, mut failing_since) = (PAUSE_MIN, None::<Instant>);
        loop {
            let outcome = tokio::select! {
                biased;
                outcome = call() => outcome,
                () = interrupt.forced() => return Err(CallFailure::Interrupted),
            };
            let problem = match outcome {
                Ok(answer) => return Ok(answer),
                Err(CallError::Refused {
                    reason,
                    message,
                    attribute,
                }) => {
                    return Err(CallFailure::Refused {
                        reason,
                        message,
                        attribute,
                    });
                }
                Err(CallError::Failed { problem }) => return Err(CallFailure::Failed(problem)),
                Err(CallError::Away { problem }) => problem,
            };
            let since = *failing_since.get_or_insert_with(|| {
                progress.tell(&format!(
                    "{} is away: {problem}; trying again for {}",
                    self.name,
                    told_duration(self.retry_for)
                ));
                Instant::now()
            });
            if since.elapsed() + pause > self.retry_for {
                return Err(CallFailure::Away(problem));
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = interrupt.asked() => return Err(CallFailure::Interrupted),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Ends what was opened for this command.
    pub(super) async fn close(self) -> Result<(), TransferError> {
        let Connection { client, service, .. } = self;
        drop(client);
        match service {
            Some(service) => Ok(service.end().await?),
            None => Ok(()),
        }
    }
}

/// Returns a duration in seconds, with a fraction where it is short.
pub(super) fn told_duration(duration: Duration) -> String {
    if duration >= Duration::from_secs(10) {
        format!("{} s", duration.as_secs())
    } else {
        format!("{:.2} s", duration.as_secs_f64())
    }
}
