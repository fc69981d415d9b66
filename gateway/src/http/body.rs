//! Reading the body of a request, up to its limit.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use thiserror::Error;
use tokio::time::timeout;

/// The largest body of a request, in bytes.
const LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// How much of a body that is too large is read and thrown away.
const DISCARD_BYTES: u64 = 64 * 1024 * 1024;

/// How long that may take.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a body may take: 4 MiB at 70 KB/s.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Why a body was not read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum BodyError {
    /// It is larger than the limit, or was announced to be.
    #[error("the body has more than {LIMIT_BYTES} bytes")]
    TooLarge,
    /// It did not come in time.
    #[error("the body did not come within {} s", TIMEOUT.as_secs())]
    TooSlow,
    /// The connection or the encoding broke.
    #[error("the body ended too early")]
    Broken,
}

impl BodyError {
    /// Returns the status that tells a client of it.
    pub(super) fn status(self) -> StatusCode {
        match self {
            BodyError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            BodyError::Broken => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads a body to its end.
///
/// One that is too large is read on and thrown away, up to a bound: to answer and close while a client still sends is a
/// reset, by which many clients lose the answer. One that was announced as larger than that is not waited for.
pub(super) async fn read(mut body: Body) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > DISCARD_BYTES {
        return Err(BodyError::TooLarge);
    }
    match timeout(TIMEOUT, collect(&mut body)).await {
        Ok(Err(BodyError::TooLarge)) => {
            // Whatever comes of it, the answer is the same.
            let _ = timeout(DISCARD_TIMEOUT, discard(&mut body)).await;
            Err(BodyError::TooLarge)
        }
        Ok(read) => read,
        Err(_elapsed) => Err(BodyError::TooSlow),
    }
}

async fn collect(body: &mut Body) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > LIMIT_BYTES as u64 {
        return Err(BodyError::TooLarge);
    }
    match Limited::new(body, LIMIT_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge),
        Err(_) => Err(BodyError::Broken),
    }
}

async fn discard(body: &mut Body) {
    let mut discarded_bytes = 0;
    while discarded_bytes < DISCARD_BYTES
        && let Some(Ok(frame)) = body.frame().await
    {
        discarded_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
}
