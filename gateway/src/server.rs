//! Puts the parts of a gateway together, runs them, and ends them in order.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use opentelemetry_sdk::error::OTelSdkError;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::config::{Drain, ServeSettings, ServerSettings};
use crate::dispatch::{Dispatcher, Offer};
use crate::feed::{FeedClient, Ring, Watch};
use crate::http::Limits;
use crate::session::{Background, Sessions};
use crate::telemetry::Metrics;

/// Connections of the admin listener: a few probes and scrapers.
const ADMIN_CONNECTIONS_MAX: usize = 64;

/// Below this many connections the operator is told.
const FEW_CONNECTIONS: usize = 1_000;

/// How long responses that are under way may take after the streams were ended.
const END_MAX: Duration = Duration::from_millis(800);

/// Why the process ends with a failure: what was tried, with what, and what to do.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The runtime or its signals could not be had.
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
    /// An address cannot be bound.
    #[error("cannot listen on {address}: {source}; {advice}", advice = advise(.source, .flag))]
    Bind {
        address: SocketAddr,
        flag: &'static str,
        source: std::io::Error,
    },
    /// The feed service of the dev mode could not be started; its own message says why and what to do.
    #[error("{0}")]
    FeedService(String),
    /// The sample records could not be written.
    #[error("cannot write the sample records into {data}: {reason}")]
    Samples { data: PathBuf, reason: String },
    /// The metrics could not be set up.
    #[error("cannot set up the metrics: {0}")]
    Metrics(OTelSdkError),
    /// A part of the process ended that must not.
    #[error("a part of the gateway broke down; its log says which, start it again")]
    Broken,
    /// A completion script or man page could not be written; the message says where and why.
    #[error("{0}")]
    Manual(std::io::Error),
    /// The standard output is closed.
    #[error("cannot write to the standard output: {0}")]
    Output(std::io::Error),
}

fn advise(source: &std::io::Error, flag: &str) -> String {
    match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!(
                "end the process that has it, or choose another port with --{flag} (each listener needs its own)"
            )
        }
        _ => format!("choose another address with --{flag}"),
    }
}

/// Binds `address`, which `flag` named.
pub(crate) async fn bind(address: SocketAddr, flag: &'static str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|source| Failure::Bind {
        address,
        flag,
        source,
    })
}

/// A gateway whose listeners are bound.
pub(crate) struct Server {
    application: TcpListener,
    admin: TcpListener,
    peer: TcpListener,
    instance: String,
    sessions: Arc<Sessions>,
    background: Background,
    watch: Arc<Watch>,
    dispatcher: Arc<Dispatcher>,
    metrics: Metrics,
    write_timeout: Duration,
    drain: Drain,
    http: Limits,
    /// Asks the process to end.
    shutdown: CancellationToken,
    /// Ends the parts, after the drain.
    stop: CancellationToken,
}

/// Runs a gateway until `shutdown`.
pub(crate) async fn serve(settings: ServeSettings, shutdown: CancellationToken) -> Result<(), Failure> {
    let feed = settings.feed.clone();
    let server = Server::bind(settings.feed, settings.server, shutdown).await?;
    println!("{}", server.ready_line().map_err(Failure::Runtime)?);
    println!(
        "open mode: no authentication is configured, whoever reaches these addresses may do everything; feed service {feed}"
    );
    std::io::stdout().flush().map_err(Failure::Output)?;
    server.run().await
}

impl Server {
    /// Binds the listeners of a gateway on the feed service at `feed`, which need not be there yet.
    pub(crate) async fn bind(
        feed: Uri,
        settings: ServerSettings,
        shutdown: CancellationToken,
    ) -> Result<Server, Failure> {
        let application = bind(settings.listen.application, "application").await?;
        let admin = bind(settings.listen.admin, "admin").await?;
        let peer = bind(settings.listen.peer, "peer").await?;
        let authority = match settings.public_authority {
            Some(authority) => authority,
            None => application.local_addr().map_err(Failure::Runtime)?.to_string(),
        };
        let peer_address = peer.local_addr().map_err(Failure::Runtime)?;
        let instance = instance_name();
        let feed =
            FeedClient::new(feed, instance.clone(), settings.timeouts).reached_at(peer_address.to_string());
        let ring = Arc::new(Ring::new(settings.ring_bytes));
        let position = watch::Sender::new(0);
        let watch = Arc::new(Watch::new(feed.clone(), Arc::clone(&ring), position.subscribe()));
        let write_timeout = settings.sessions.write_timeout;
        let stop = CancellationToken::new();
        let (sessions, background) = Sessions::new(
            feed.clone(),
            Arc::clone(&watch),
            Arc::clone(&ring),
            position,
            settings.sessions,
            stop.clone(),
        );
        let metrics = Metrics::new(&sessions, &watch, &ring).map_err(Failure::Metrics)?;
        let dispatcher = Dispatcher::new(
            Arc::clone(&sessions),
            feed,
            Arc::clone(&watch),
            Offer {
                authority,
                max_subscriptions: settings.max_subscriptions,
                open_wait: settings.open_wait,
                allow_client_delete: settings.allow_client_delete,
                cache_hints: settings.cache_hints,
                about: settings.about,
            },
        );
        let dispatcher = Arc::new(dispatcher);
        Ok(Server {
            application,
            admin,
            peer,
            instance,
            sessions,
            background,
            watch,
            dispatcher,
            metrics,
            write_timeout,
            drain: settings.drain,
            http: settings.http,
            shutdown,
            stop,
        })
    }

    /// Returns the address of the application listener.
    pub(crate) fn application(&self) -> std::io::Result<SocketAddr> {
        self.application.local_addr()
    }

    /// Returns the line that tells a supervisor where the listeners are.
    pub(crate) fn ready_line(&self) -> std::io::Result<String> {
        let (application, admin) = (self.application()?, self.admin.local_addr()?);
        Ok(format!("gateway ready application={application} admin={admin}"))
    }

    /// Returns what waits until the watch on the feed service is live.
    pub(crate) fn live(&self) -> impl Future<Output = ()> + use<> {
        let mut status = self.watch.subscribe();
        async move {
            // It cannot fail while the watch exists; if it ends there is nothing to wait for.
            let _ = status.wait_for(|status| status.live).await;
        }
    }

    /// Serves until the shutdown, then drains: streams end one after the other, calls that are under way are finished, and
    /// then everything ends, at the drain's deadline in any case.
    ///
    /// # Errors
    /// [`Failure::Broken`] if a part ended by itself: without it the others would go on and deliver nothing.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connections_max = crate::process::connections_max(self.http.connections_max);
        if connections_max < FEW_CONNECTIONS {
            warn!(
                connections_max,
                "few connections can be served: raise the limit of open files (ulimit -n)"
            );
        }
        let tasks = crate::http::Tasks::default();
        let mut parts = JoinSet::new();
        parts.spawn({
            let (watch, stop) = (Arc::clone(&self.watch), self.stop.clone());
            async move { watch.run(stop).await }
        });
        parts.spawn(Arc::clone(&self.sessions).run(self.background));
        parts.spawn(crate::peer::serve(
            self.peer,
            self.instance,
            Arc::clone(&self.dispatcher),
            self.stop.clone(),
        ));
        let application = crate::http::application(
            Arc::clone(&self.dispatcher),
            self.application.local_addr().map_err(Failure::Runtime)?,
            &self.http,
        );
        let admin = crate::http::admin(
            self.dispatcher,
            self.metrics,
            self.admin.local_addr().map_err(Failure::Runtime)?,
        );
        for (listener, router, connections_max) in [
            (self.application, application, connections_max),
            (self.admin, admin, ADMIN_CONNECTIONS_MAX),
        ] {
            let limits = Limits {
                connections_max,
                ..self.http.clone()
            };
            parts.spawn(crate::http::serve(
                listener,
                router,
                limits,
                self.write_timeout,
                tasks.clone(),
                self.stop.clone(),
            ));
        }
        let (sessions, requests) = (self.sessions, tasks.requests.clone());
        let drained = async {
            self.shutdown.cancelled().await;
            let began = Instant::now();
            info!(window = ?self.drain.window, "ending");
            let finished = timeout(self.drain.deadline, async {
                sessions.drain(self.drain.window).await;
                requests.close();
                requests.wait().await;
            });
            if finished.await.is_err() {
                warn!(deadline = ?self.drain.deadline, requests = requests.len(), "ending what is still under way");
            }
            self.stop.cancel();
            began
        };
        tokio::pin!(drained);
        let mut deadline = None;
        let mut ended = Ok(());
        loop {
            tokio::select! {
                began = &mut drained, if deadline.is_none() => deadline = Some(began + self.drain.deadline),
                part = parts.join_next() => match part {
                    None => break,
                    Some(_) if self.stop.is_cancelled() => {}
                    Some(part) => {
                        error!(
                            panicked = part.is_err(),
                            "a part of the gateway ended, ending the rest"
                        );
                        ended = Err(Failure::Broken);
                        self.shutdown.cancel();
                        self.stop.cancel();
                    }
                },
            }
        }
        tasks.connections.close();
        let left = deadline.map_or(END_MAX, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        if timeout(END_MAX.min(left), tasks.connections.wait())
            .await
            .is_err()
        {
            debug!(
                connections = tasks.connections.len(),
                "connections did not end in time"
            );
        }
        ended
    }
}

/// Names this process in the records of the sessions that it serves: random, so that no two runs share a name.
fn instance_name() -> String {
    format!(
        "{:016x}",
        getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
    )
}
