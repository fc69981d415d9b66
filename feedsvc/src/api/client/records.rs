//! The calls that import and export make, over the network or in this process.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use proto::Reason;
use proto::feed::v1::feed_client::FeedClient as FeedStub;
use proto::feed::v1::server::feed_server::FeedServer;
use proto::feed::v1::{
    CommitRequest, CommitResponse, CountRequest, CountResponse, GetCatalogRequest, GetCatalogResponse,
    Principal, SearchRequest, SearchResponse,
};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;

use super::address::{AddressFault, endpoint};
use crate::api::feed::FeedApi;
use crate::api::request_limit_bytes;
use crate::feed::Feed;

/// How long connecting may take: a dead host is found out soon.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call may take. The service answers in milliseconds unless its disk stalls.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a quiet connection is probed, and how long the answer may take, so that a dead host is noticed during a call.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5));
/// The largest answer that is read: a page of about 16 MiB with a record more, and its envelope.
const ANSWER_LIMIT_BYTES: usize = 64 * 1024 * 1024;
/// Room for a page in flight, so that it does not wait for window updates.
const STREAM_WINDOW_BYTES: u32 = 2 * 1024 * 1024;

/// A client of one feed service, as one principal.
#[derive(Clone)]
pub(crate) struct FeedClient {
    transport: Transport,
    principal: Principal,
}

#[derive(Clone)]
enum Transport {
    /// Connects at the first call, and again after the service was away.
    Network(FeedStub<Channel>),
    InProcess(FeedStub<FeedServer<FeedApi>>),
}

/// Why a call did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The service is away, ends, cannot write, or did not answer; the call may be made again. Whether a commit was applied is not known.
    #[error("{problem}")]
    Away { problem: String },
    /// The service refused the call; nothing was changed.
    #[error("{message}")]
    Refused {
        reason: Reason,
        message: String,
        /// The attribute that is at fault, where there is one.
        attribute: Option<String>,
    },
    /// Something else went wrong; making the call again will not help.
    #[error("{problem}")]
    Failed { problem: String },
}

impl FeedClient {
    /// Makes a client of the service at an address like `http://127.0.0.1:9928`; nothing is sent yet.
    pub(crate) fn of_address(address: &str, principal: Principal) -> Result<FeedClient, AddressFault> {
        let endpoint = endpoint(address)?;
        let channel = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(2 * STREAM_WINDOW_BYTES)
            .connect_lazy();
        let stub = FeedStub::new(channel).max_decoding_message_size(ANSWER_LIMIT_BYTES);
        Ok(FeedClient {
            transport: Transport::Network(stub),
            principal,
        })
    }

    /// Makes a client of a service in this process, without any connection that others could use.
    pub(crate) fn of_feed(feed: Arc<Feed>, principal: Principal) -> FeedClient {
        let limit_bytes = request_limit_bytes(&feed);
        let server = FeedServer::new(FeedApi::new(feed)).max_decoding_message_size(limit_bytes);
        FeedClient {
            transport: Transport::InProcess(
                FeedStub::new(server).max_decoding_message_size(ANSWER_LIMIT_BYTES),
            ),
            principal,
        }
    }

    /// Applies a commit.
    pub(crate) async fn commit(&self, request: CommitRequest) -> Result<CommitResponse, CallError> {
        let request = Request::new(CommitRequest {
            principal: Some(self.principal.clone()),
            ..request
        });
        taken(match &self.transport {
            Transport::Network(stub) => stub.clone().commit(request).await,
            Transport::InProcess(stub) => stub.clone().commit(request).await,
        })
    }

    /// Returns all tables.
    pub(crate) async fn get_catalog(&self) -> Result<GetCatalogResponse, CallError> {
        let request = Request::new(GetCatalogRequest {
            principal: Some(self.principal.clone()),
            ..GetCatalogRequest::default()
        });
        taken(match &self.transport {
            Transport::Network(stub) => stub.clone().get_catalog(request).await,
            Transport::InProcess(stub) => stub.clone().get_catalog(request).await,
        })
    }

    /// Returns a page of records.
    pub(crate) async fn search(&self, request: SearchRequest) -> Result<SearchResponse, CallError> {
        let request = Request::new(SearchRequest {
            principal: Some(self.principal.clone()),
            ..request
        });
        taken(match &self.transport {
            Transport::Network(stub) => stub.clone().search(request).await,
            Transport::InProcess(stub) => stub.clone().search(request).await,
        })
    }

    /// Counts records.
    pub(crate) async fn count(&self, request: CountRequest) -> Result<CountResponse, CallError> {
        let request = Request::new(CountRequest {
            principal: Some(self.principal.clone()),
            ..request
        });
        taken(match &self.transport {
            Transport::Network(stub) => stub.clone().count(request).await,
            Transport::InProcess(stub) => stub.clone().count(request).await,
        })
    }
}

fn taken<T>(outcome: Result<Response<T>, Status>) -> Result<T, CallError> {
    outcome
        .map(Response::into_inner)
        .map_err(|status| call_error(&status))
}

/// The one place that reads a status.
fn call_error(status: &Status) -> CallError {
    let info = status
        .get_details_error_info()
        .filter(|info| info.domain == proto::ERROR_DOMAIN);
    let reason = info.as_ref().and_then(|info| Reason::find(&info.reason));
    match (reason, status.code()) {
        (Some(Reason::Unavailable), _) => CallError::Away {
            problem: status.message().to_owned(),
        },
        (Some(reason), _) => CallError::Refused {
            reason,
            message: status.message().to_owned(),
            attribute: info.and_then(|info| info.metadata.get("attribute").cloned()),
        },
        // What the transport says of itself: a connection that cannot be made, ends or stalls has any of these codes.
        (
            None,
            Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Unknown
            | Code::Internal
            | Code::Aborted,
        ) => CallError::Away {
            problem: causes(status),
        },
        (
            None,
            Code::Ok
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss
            | Code::Unauthenticated,
        ) => CallError::Failed {
            problem: causes(status),
        },
    }
}

/// Returns what the transport says, down to the system's own words, which tell most.
fn causes(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&more);
        }
        cause = error.source();
    }
    if text.is_empty() {
        text = status.code().description().to_owned();
    }
    text
}
