//! `logging/setLevel`: nothing here sends log messages to clients yet, so a level has nothing to act on.

use crate::protocol::error::RpcError;
use crate::protocol::message::Params;

/// The levels of RFC 5424 (MCP 2025-11-25, Logging, Log Levels).
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// Accepts one of the eight levels.
///
/// # Errors
/// -32602 for anything else.
pub(super) fn set_level(params: &Params) -> Result<(), RpcError> {
    match params.string("level")? {
        Some(level) if LEVELS.contains(&level.as_str()) => Ok(()),
        Some(level) => Err(RpcError::invalid_params(format!(
            "unknown level {level:?}: use one of {}",
            LEVELS.join(", ")
        ))),
        None => Err(RpcError::invalid_params("logging/setLevel requires params.level")),
    }
}
