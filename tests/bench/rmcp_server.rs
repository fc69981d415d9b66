//! A server built with `rmcp`, as its documentation shows it: sessions, subscriptions, reads.
//!
//! `POST /publish?n=N` notifies every subscribed peer N times. Every session has a task of its own for it, so that no
//! session waits for another one's channel.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt as _;
use rmcp::model::{
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents,
    ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SubscribeRequestParams,
    UnsubscribeRequestParams,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler};
use tokio::net::TcpListener;

/// One subscription: who is to be told, and the URI in the client's spelling.
type Subscriber = (Peer<RoleServer>, String);

#[derive(Clone, Default)]
struct Subscribers(Arc<Mutex<Vec<Subscriber>>>);

impl Subscribers {
    fn add(&self, subscriber: Subscriber) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(subscriber);
    }

    fn all(&self) -> Vec<Subscriber> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves until the process is told to end.
///
/// # Errors
/// The listener fails.
pub async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let subscribers = Subscribers::default();
    let handler = Handler(subscribers.clone());
    let mut manager = LocalSessionManager::default();
    // Sessions that are idle while the other servers are measured must not expire.
    manager.session_config.keep_alive = None;
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(manager),
        StreamableHttpServerConfig::default(),
    );
    let router = Router::new()
        .route("/publish", post(publish))
        .with_state(subscribers)
        .route_service("/mcp", service);
    let listener = listener.tap_io(|connection| {
        // Without it the connection works as well, only slower: the figures would show it.
        let _ = connection.set_nodelay(true);
    });
    axum::serve(listener, router)
        .await
        .context("the rmcp server stopped serving")
}

async fn publish(State(subscribers): State<Subscribers>, RawQuery(query): RawQuery) -> Response {
    let count = match query.as_deref() {
        None => Some(1),
        Some(query) => query
            .strip_prefix("n=")
            .and_then(|count| count.parse::<u32>().ok()),
    };
    let Some(count) = count else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    for subscriber in subscribers.all() {
        tokio::spawn(notify(subscriber, count));
    }
    "{}".into_response()
}

#[allow(deprecated, reason = "the legacy era's notice is what is compared")]
async fn notify((peer, uri): Subscriber, count: u32) {
    for _ in 0..count {
        let params = ResourceUpdatedNotificationParam::new(uri.clone());
        if peer.notify_resource_updated(params).await.is_err() {
            return;
        }
    }
}

#[derive(Clone)]
struct Handler(Subscribers);

#[allow(deprecated, reason = "the legacy era's subscriptions are what is compared")]
impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder()
                .enable_resources()
                .enable_resources_subscribe()
                .build(),
        )
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let record = r#"{"id":"42","name":"Lamp","price":19.5,"stock":7}"#;
        Ok(ReadResourceResult::new(vec![ResourceContents::text(record, request.uri)]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.add((context.peer, request.uri));
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Err(ErrorData::internal_error("not a part of the benchmark", None))
    }
}
