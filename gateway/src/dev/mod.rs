//! The dev mode: feed service and gateway in one process, talking real gRPC over the loopback interface.

mod demo_writes;
mod greeting;
mod samples;

use std::io::Write;

use feedsvc::{Options, SchemaSource, ServeSettings, Service};
use greeting::Greeting;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::DevSettings;
use crate::feed::FeedClient;
use crate::server::{self, Failure, Server};

/// Runs both services until `shutdown`.
pub(crate) async fn run(settings: DevSettings, shutdown: CancellationToken) -> Result<(), Failure> {
    let DevSettings {
        server,
        feedsvc,
        demo_writes,
    } = settings;
    let listener = server::bind(feedsvc.listen, "feed").await?;
    let feed_address = listener.local_addr().map_err(Failure::Runtime)?;
    let schema = match &feedsvc.schema {
        Some(path) => SchemaSource::Path(path.clone()),
        None => {
            let (name, sdl) = samples::SCHEMA;
            SchemaSource::Text {
                name: name.into(),
                sdl: sdl.into(),
            }
        }
    };
    let options = Options {
        limits: feedsvc.limits.clone(),
        ..Options::new(feedsvc.data.clone(), schema)
    };
    let service = Service::open(options)
        .await
        .map_err(|error| Failure::FeedService(error.to_string()))?;

    let url = http::Uri::builder()
        .scheme("http")
        .authority(feed_address.to_string())
        .path_and_query("/")
        .build()
        .map_err(|error| Failure::FeedService(error.to_string()))?;
    let timeouts = server.timeouts;
    let server = Server::bind(url.clone(), server, shutdown.clone()).await?;
    let ready_line = server.ready_line().map_err(Failure::Runtime)?;
    let greeting = Greeting {
        application: server.application().map_err(Failure::Runtime)?,
        feed: feed_address,
        data: &feedsvc.data,
        samples: feedsvc.schema.is_none(),
    }
    .text();

    let tasks = TaskTracker::new();
    // The gateway ends first: its streams end as planned, not because the feed service went away.
    let feed_shutdown = CancellationToken::new();
    let feed_service = tasks.spawn({
        let (feed_shutdown, shutdown) = (feed_shutdown.clone(), shutdown.clone());
        async move {
            let ended = service.serve(listener, feed_shutdown).await;
            // One without the other is of no use.
            shutdown.cancel();
            ended
        }
    });
    let live = server.live();
    let gateway = tasks.spawn(server.run());
    let feed = FeedClient::new(url, "dev".into(), timeouts);
    let started = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        started = start(&feedsvc, &feed, live) => started,
    };
    if started.is_ok() && !shutdown.is_cancelled() {
        println!("{ready_line}\n{greeting}");
        std::io::stdout().flush().map_err(Failure::Output)?;
        if demo_writes {
            tasks.spawn(demo_writes::run(feed, shutdown.clone()));
        }
        shutdown.cancelled().await;
    }
    shutdown.cancel();
    let gateway = gateway.await.unwrap_or(Err(Failure::Broken));
    feed_shutdown.cancel();
    let feed_service = match feed_service.await {
        Ok(ended) => ended.map_err(|error| Failure::FeedService(error.to_string())),
        Err(_panicked) => Err(Failure::Broken),
    };
    tasks.close();
    tasks.wait().await;
    started.and(gateway).and(feed_service)
}

/// Waits until the gateway follows the feed service, and writes the sample records.
async fn start(
    settings: &ServeSettings,
    feed: &FeedClient,
    live: impl Future<Output = ()>,
) -> Result<(), Failure> {
    live.await;
    if settings.schema.is_none() {
        samples::write(feed).await.map_err(|error| Failure::Samples {
            data: settings.data.clone(),
            reason: error.to_string(),
        })?;
    }
    Ok(())
}
