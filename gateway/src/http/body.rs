//! Reading the body of a request, up to its limit.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Extensions, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use thiserror::Error;
use tokio::time::timeout;

/// How much of a body that is too large is read and thrown away.
const DISCARD_BYTES: u64 = 64 * 1024 * 1024;

/// How long that may take.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);

/// The bounds of a body, which the router lays into every request.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    /// The largest body, in bytes.
    pub(super) bytes: usize,
    /// How long a body may take.
    pub(super) timeout: Duration,
}

impl Default for BodyLimits {
    fn default() -> BodyLimits {
        BodyLimits {
            bytes: 4 * 1024 * 1024,
            // 4 MiB at 70 KB/s.
            timeout: Duration::from_secs(60),
        }
    }
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum BodyError {
    /// It is larger than the limit, or was announced to be.
    #[error("the body has more than {limit_bytes} bytes")]
    TooLarge { limit_bytes: usize },
    /// It did not come in time.
    #[error("the body did not come within {timeout:?}")]
    TooSlow { timeout: Duration },
    /// The connection or the encoding broke.
    #[error("the body ended too early")]
    Broken,
}

impl BodyError {
    /// Returns the status that tells a client of it.
    pub(super) fn status(self) -> StatusCode {
        match self {
            BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::TooSlow { .. } => StatusCode::REQUEST_TIMEOUT,
            BodyError::Broken => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads a body to its end.
///
/// One that is too large is read on and thrown away, up to a bound: to answer and close while a client still sends is a
/// reset, by which many clients lose the answer. One that was announced as larger than that is not waited for.
///
/// `extensions` are those of its request.
pub(super) async fn read(extensions: &Extensions, mut body: Body) -> Result<Bytes, BodyError> {
    let limits = extensions.get().copied().unwrap_or_default();
    let BodyLimits { bytes, timeout: time } = limits;
    if body.size_hint().lower() > DISCARD_BYTES {
        return Err(BodyError::TooLarge { limit_bytes: bytes });
    }
    match timeout(time, collect(&mut body, bytes)).await {
        Ok(Err(too_large @ BodyError::TooLarge { .. })) => {
            // Whatever comes of it, the answer is the same.
            let _ = timeout(DISCARD_TIMEOUT, discard(&mut body)).await;
            Err(too_large)
        }
        Ok(read) => read,
        Err(_elapsed) => Err(BodyError::TooSlow { timeout: time }),
    }
}

async fn collect(body: &mut Body, limit_bytes: usize) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > limit_bytes as u64 {
        return Err(BodyError::TooLarge { limit_bytes });
    }
    match Limited::new(body, limit_bytes).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge { limit_bytes }),
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
