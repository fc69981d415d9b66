//! `logging/setLevel`: a command in the feed's own log, so that the level is the session's on every instance.

use super::{Call, Failure};
use crate::protocol::error::RpcError;
use crate::protocol::log_level;
use crate::protocol::message::Params;

/// Sets the level from which on log messages are sent to the session's client; returns when that is durable.
///
/// # Errors
/// -32602 for anything but one of the eight levels.
pub(super) async fn set_level(call: &Call<'_>, params: &Params) -> Result<(), Failure> {
    let level = params
        .string("level")?
        .ok_or_else(|| RpcError::invalid_params("logging/setLevel requires params.level"))?;
    log_level::check(&level).map_err(RpcError::invalid_params)?;
    call.feed
        .set_log_level(call.principal, call.session, &level)
        .await?;
    Ok(())
}
