//! The JSON-RPC error, with the codes that MCP uses.

use serde_json::{Value, json};

/// Invalid JSON (JSON-RPC 2.0, section 5.1).
pub(crate) const PARSE_ERROR: i64 = -32700;
/// Valid JSON that is no JSON-RPC message, or one that cannot be taken here.
pub(crate) const INVALID_REQUEST: i64 = -32600;
/// A method that is not served.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// Parameters that are missing, have a wrong type, or name what may not be had.
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// A failure that is not the caller's fault.
pub(crate) const INTERNAL_ERROR: i64 = -32603;
/// A resource that does not exist (MCP 2025-11-25, Resources, Error Handling).
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;

/// The `error` of a JSON-RPC response. Its message goes to the client: what a client can act on, never a cause.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message} ({code})")]
pub(crate) struct RpcError {
    /// One of this file's constants where this server made it; any integer where a client did.
    pub(crate) code: i64,
    /// What went wrong, in one line.
    pub(crate) message: String,
    /// More of it, for programs; boxed, since most errors have none.
    pub(crate) data: Option<Box<Value>>,
}

impl RpcError {
    /// Makes an error without `data`.
    pub(crate) fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Makes a [`PARSE_ERROR`].
    pub(crate) fn parse_error(message: impl Into<String>) -> RpcError {
        RpcError::new(PARSE_ERROR, message)
    }

    /// Makes an [`INVALID_REQUEST`].
    pub(crate) fn invalid_request(message: impl Into<String>) -> RpcError {
        RpcError::new(INVALID_REQUEST, message)
    }

    /// Makes a [`METHOD_NOT_FOUND`] that names the method.
    pub(crate) fn method_not_found(method: &str) -> RpcError {
        RpcError::new(METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// Makes an [`INVALID_PARAMS`].
    pub(crate) fn invalid_params(message: impl Into<String>) -> RpcError {
        RpcError::new(INVALID_PARAMS, message)
    }

    /// Makes an [`INTERNAL_ERROR`]; `message` is a fixed text, the cause goes to the log.
    pub(crate) fn internal(message: impl Into<String>) -> RpcError {
        RpcError::new(INTERNAL_ERROR, message)
    }

    /// Makes a [`RESOURCE_NOT_FOUND`] with `data.uri`.
    pub(crate) fn resource_not_found(uri: &str) -> RpcError {
        RpcError::new(RESOURCE_NOT_FOUND, format!("resource not found: {uri}"))
            .with_data(json!({ "uri": uri }))
    }

    /// Returns the error with `data` in place of what it had.
    pub(crate) fn with_data(mut self, data: Value) -> RpcError {
        self.data = Some(Box::new(data));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::RpcError;

    fn check(error: RpcError, expected: &str) {
        let data = error
            .data
            .as_ref()
            .map_or(String::new(), |data| format!(" {data}"));
        assert_eq!(format!("{error}{data}"), expected);
    }

    #[test]
    fn each_constructor_has_its_code() {
        check(RpcError::parse_error("a"), "a (-32700)");
        check(RpcError::invalid_request("a"), "a (-32600)");
        check(
            RpcError::method_not_found("x/y"),
            "method not found: x/y (-32601)",
        );
        check(RpcError::invalid_params("a"), "a (-32602)");
        check(RpcError::internal("a"), "a (-32603)");
        check(
            RpcError::resource_not_found("a:b"),
            r#"resource not found: a:b (-32002) {"uri":"a:b"}"#,
        );
        check(RpcError::new(7, "a").with_data(1.into()), "a (7) 1");
    }
}
