//! Reading the body of a request, up to its limit.

use axum::body::Body;
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use thiserror::Error;

/// The largest body of a request, in bytes.
const LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// Why a body was not read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum BodyError {
    /// It is larger than the limit, or was announced to be.
    #[error("the body has more than {LIMIT_BYTES} bytes")]
    TooLarge,
    /// The connection or the encoding broke.
    #[error("the body ended too early")]
    Broken,
}

/// Reads a body to its end. One that is announced as too large is not waited for.
pub(super) async fn read(body: Body) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > LIMIT_BYTES as u64 {
        return Err(BodyError::TooLarge);
    }
    match Limited::new(body, LIMIT_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge),
        Err(_) => Err(BodyError::Broken),
    }
}
