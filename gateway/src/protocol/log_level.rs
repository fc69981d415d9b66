//! The levels of log messages (MCP 2025-11-25, Logging, Log Levels; those of RFC 5424).

/// The levels, from the least to the most severe.
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

/// Checks that `level` is one of them; otherwise returns a text that names those that are.
pub(crate) fn check(level: &str) -> Result<(), String> {
    if LEVELS.contains(&level) {
        Ok(())
    } else {
        Err(format!(
            "unknown level {level:?}: use one of {}",
            LEVELS.join(", ")
        ))
    }
}
