//! `resources/subscribe` and `resources/unsubscribe`: commands in the feed's own log.
//!
//! A subscription is effective from its entry on, on whatever instance the session's stream is, because the stream sees
//! that entry in order with the changes. So the answer needs to wait for nothing but the commit.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Call, Failure};
use crate::feed::{FeedError, Table};
use crate::protocol::error::RpcError;
use crate::protocol::message::Params;
use crate::protocol::resource_uri::{self, ResourceUri, RowUri, UriError};
use crate::sabotage::{self, Sabotage};

/// How long a subscribe waits for the session's stream: client libraries open it at the same time.
const STREAM_WAIT_MAX: Duration = Duration::from_secs(1);

/// How often it looks; short beside a round trip of a person, long beside one of the feed service.
const STREAM_WAIT_STEP: Duration = Duration::from_millis(25);

/// Subscribes the session to `params.uri`. Every change that is committed after the answer notifies.
pub(super) async fn subscribe(call: &Call<'_>, params: &Params) -> Result<(), Failure> {
    let uri = required_uri("resources/subscribe", params)?;
    let refused = match subscribable(call, &uri) {
        None => Err(RpcError::invalid_params(format!(
            "resource is not subscribable: {uri}"
        ))),
        Some((row, table)) => match call.feed.may_read(call.principal, &table).await {
            Ok(true) => Ok(row),
            Ok(false) => Err(RpcError::invalid_params(format!("permission denied: {uri}"))),
            Err(error) => return Err(refusal(call, &uri, error)),
        },
    };
    let row = match refused {
        Ok(row) => row,
        Err(error) => {
            // A stream that is missing is told first.
            wait_for_stream(|| async { call.feed.has_live_stream(call.principal, call.session).await })
                .await?;
            return Err(error.into());
        }
    };
    let canonical = row.canonical();
    if sabotage::is(Sabotage::AnswerEarly) {
        subscribe_later(call, canonical, uri);
        return Ok(());
    }
    let subscribed = wait_for_stream(|| async {
        let subscribed = call
            .feed
            .subscribe(
                call.principal,
                call.session,
                &canonical,
                &uri,
                call.max_subscriptions,
            )
            .await;
        match subscribed {
            Err(FeedError::NoStream) => Ok(false),
            other => other.map(|()| true),
        }
    });
    subscribed.await.map_err(|failure| match failure {
        SubscribeError::NoStream => failure.into(),
        SubscribeError::Feed(error) => refusal(call, &uri, error),
    })
}

/// Subscribes behind its answer, as no server may.
fn subscribe_later(call: &Call<'_>, canonical: String, uri: String) {
    let (feed, max) = (call.feed.clone(), call.max_subscriptions);
    let (principal, session) = (call.principal.to_owned(), call.session.to_owned());
    tokio::spawn(async move {
        sleep(STREAM_WAIT_MAX).await;
        let _ = feed.subscribe(&principal, &session, &canonical, &uri, max).await;
    });
}

/// Unsubscribes the session from `params.uri`; returns the revision from which on nothing of it is told.
pub(super) async fn unsubscribe(call: &Call<'_>, params: &Params) -> Result<u64, Failure> {
    let uri = required_uri("resources/unsubscribe", params)?;
    match resource_uri::parse(&uri) {
        Ok(ResourceUri::Row(row)) => Ok(call
            .feed
            .unsubscribe(call.principal, call.session, &row.canonical(), 0)
            .await?),
        // Nothing else can have been subscribed.
        Ok(ResourceUri::Synthetic(_) | ResourceUri::Custom(_)) | Err(UriError::NoScheme) => Ok(0),
        Err(error) => Err(RpcError::invalid_params(format!("invalid uri {uri}: {error}")).into()),
    }
}

fn required_uri(method: &str, params: &Params) -> Result<String, RpcError> {
    match params.string("uri") {
        Ok(Some(uri)) => Ok(uri),
        Ok(None) | Err(_) => Err(RpcError::invalid_params(format!("{method} requires params.uri"))),
    }
}

fn subscribable(call: &Call<'_>, uri: &str) -> Option<(RowUri, Arc<Table>)> {
    match resource_uri::parse(uri) {
        Ok(ResourceUri::Row(row)) => {
            let table = Arc::clone(call.catalog.find(&row.path)?);
            Some((row, table))
        }
        _ => None,
    }
}

enum SubscribeError {
    NoStream,
    Feed(FeedError),
}

impl From<SubscribeError> for Failure {
    fn from(error: SubscribeError) -> Failure {
        match error {
            SubscribeError::NoStream => {
                RpcError::invalid_params("open the GET SSE stream before subscribing to resources").into()
            }
            SubscribeError::Feed(error) => error.into(),
        }
    }
}

/// Tries until `attempt` says that there is a stream, for as long as a client may take to open it.
async fn wait_for_stream<F>(mut attempt: impl FnMut() -> F) -> Result<(), SubscribeError>
where
    F: Future<Output = Result<bool, FeedError>>,
{
    let deadline = Instant::now() + STREAM_WAIT_MAX;
    loop {
        match attempt().await {
            Ok(true) => return Ok(()),
            Ok(false) if Instant::now() < deadline => sleep(STREAM_WAIT_STEP).await,
            Ok(false) => return Err(SubscribeError::NoStream),
            Err(error) => return Err(SubscribeError::Feed(error)),
        }
    }
}

fn refusal(call: &Call<'_>, uri: &str, error: FeedError) -> Failure {
    match error {
        FeedError::Unavailable | FeedError::Timeout | FeedError::UnknownSession => error.into(),
        FeedError::PermissionDenied => RpcError::invalid_params(format!("permission denied: {uri}")).into(),
        FeedError::TooManySubscriptions => RpcError::invalid_params(format!(
            "cannot subscribe to {uri}: the session has its limit of {} subscriptions, unsubscribe from one first",
            call.max_subscriptions
        ))
        .into(),
        FeedError::Invalid(_)
        | FeedError::TooLarge(_)
        | FeedError::UnknownTable(_)
        | FeedError::Conflict(_)
        | FeedError::NoStream
        | FeedError::Fenced
        | FeedError::TooManySessions
        | FeedError::TooManySessionsInAll
        | FeedError::Compacted
        | FeedError::LostHistory
        | FeedError::Internal => {
            tracing::error!(session.id = call.session, uri, %error, "cannot subscribe");
            RpcError::internal_of(call.trace, format!("failed to subscribe: {uri}")).into()
        }
    }
}
