//! Puts the parts of a gateway together, runs them, and ends them in order.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::config::{Drain, Listen, ServeOptions, SessionOptions};
use crate::dispatch::{CacheHints, Dispatcher};
use crate::feed::{FeedClient, Ring, Watch};
use crate::session::{Background, Limits, Sessions};

/// Memory for recent entries of the feed: 64 MiB hold half a million changes.
const RING_BYTES: usize = 64 * 1024 * 1024;

/// How many subscriptions a session may have (`session.max_subscriptions`).
const MAX_SUBSCRIPTIONS: u32 = 1_000;

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
    /// An address that others can reach, without credentials.
    #[error(
        "cannot listen on {address}: without authentication only a loopback address may be served; \
         choose another one with --{flag}, for example 127.0.0.1:{port}", port = .address.port()
    )]
    NotLoopback { address: SocketAddr, flag: &'static str },
    /// The feed service of the dev mode could not be started; its own message says why and what to do.
    #[error("{0}")]
    FeedService(String),
    /// The sample records could not be written.
    #[error("cannot write the sample records into {data}: {reason}")]
    Samples { data: PathBuf, reason: String },
    /// A part of the process ended that must not.
    #[error("a part of the gateway broke down; its log says which, start it again")]
    Broken,
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
    if !address.ip().is_loopback() {
        return Err(Failure::NotLoopback { address, flag });
    }
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
    write_timeout: Duration,
    drain: Drain,
    /// Asks the process to end.
    shutdown: CancellationToken,
    /// Ends the parts, after the drain.
    stop: CancellationToken,
}

/// What a gateway is made with.
pub(crate) struct ServerOptions {
    /// The addresses that clients and operators use.
    pub(crate) listen: Listen,
    /// Where other gateways reach this one.
    pub(crate) peer: SocketAddr,
    /// The feed service, which need not be there yet.
    pub(crate) feed: http::Uri,
    /// What sessions and streams may do.
    pub(crate) sessions: SessionOptions,
    /// How the process ends.
    pub(crate) drain: Drain,
}

/// Runs a gateway until `shutdown`.
pub(crate) async fn serve(options: ServeOptions, shutdown: CancellationToken) -> Result<(), Failure> {
    let feed = options.feed.clone();
    let options = ServerOptions {
        listen: options.listen,
        peer: options.peer,
        feed: options.feed,
        sessions: options.sessions,
        drain: options.drain,
    };
    let server = Server::bind(options, shutdown).await?;
    println!("{}", server.ready_line().map_err(Failure::Runtime)?);
    println!(
        "open mode: no authentication is configured, whoever reaches these addresses may do everything; feed service {feed}"
    );
    std::io::stdout().flush().map_err(Failure::Output)?;
    server.run().await
}

impl Server {
    /// Binds the listeners of a gateway.
    pub(crate) async fn bind(options: ServerOptions, shutdown: CancellationToken) -> Result<Server, Failure> {
        let application = bind(options.listen.application, "application").await?;
        let admin = bind(options.listen.admin, "admin").await?;
        let peer = bind(options.peer, "peer").await?;
        let authority = application.local_addr().map_err(Failure::Runtime)?.to_string();
        let peer_address = peer.local_addr().map_err(Failure::Runtime)?;
        let instance = instance_name();
        let feed = FeedClient::new(options.feed, instance.clone()).reached_at(peer_address.to_string());
        let ring = Arc::new(Ring::new(RING_BYTES));
        let position = watch::Sender::new(0);
        let watch = Arc::new(Watch::new(feed.clone(), Arc::clone(&ring), position.subscribe()));
        let limits = Limits {
            idle_timeout: options.sessions.idle_timeout,
            write_timeout: options.sessions.write_timeout,
            pending_max: options.sessions.pending,
            ..Limits::default()
        };
        let stop = CancellationToken::new();
        let (sessions, background) = Sessions::new(
            feed.clone(),
            Arc::clone(&watch),
            ring,
            position,
            limits,
            stop.clone(),
        );
        let dispatcher = Dispatcher::new(
            Arc::clone(&sessions),
            feed,
            Arc::clone(&watch),
            authority,
            MAX_SUBSCRIPTIONS,
            options.sessions.allow_client_delete,
            CacheHints::default(),
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
            write_timeout: options.sessions.write_timeout,
            drain: options.drain,
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
        let connections_max = crate::process::connections_max();
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
        );
        let admin = crate::http::admin(
            self.dispatcher,
            self.admin.local_addr().map_err(Failure::Runtime)?,
        );
        for (listener, router, connections_max) in [
            (self.application, application, connections_max),
            (self.admin, admin, ADMIN_CONNECTIONS_MAX),
        ] {
            let bounds = crate::http::Bounds {
                connections_max,
                write_timeout: self.write_timeout,
            };
            parts.spawn(crate::http::serve(
                listener,
                router,
                bounds,
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
