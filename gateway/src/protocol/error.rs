//! The JSON-RPC error, with the codes that MCP uses.

use serde_json::{Value, json};

use super::trace::TraceId;

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
/// A header that is missing, malformed, or says something else than the body (MCP 2026-07-28, Overview, Error Codes).
pub(crate) const HEADER_MISMATCH: i64 = -32020;
/// The client did not declare a capability that the request needs (MCP 2026-07-28, Overview, Error Codes).
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
/// A version of the modern era that is not served (MCP 2026-07-28, Overview, Error Codes).
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

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

    /// Makes an [`INTERNAL_ERROR`] with `data.traceId`, by which an operator finds the cause in the log.
    pub(crate) fn internal_of(trace: TraceId, message: impl Into<String>) -> RpcError {
        RpcError::internal(message).with_data(json!({ "traceId": trace.to_string() }))
    }

    /// Makes a [`RESOURCE_NOT_FOUND`] with `data.uri`.
    pub(crate) fn resource_not_found(uri: &str) -> RpcError {
        RpcError::new(RESOURCE_NOT_FOUND, format!("resource not found: {uri}"))
            .with_data(json!({ "uri": uri }))
    }

    /// Makes a [`HEADER_MISMATCH`].
    pub(crate) fn header_mismatch(message: impl Into<String>) -> RpcError {
        RpcError::new(HEADER_MISMATCH, message)
    }

    /// Makes a [`MISSING_CAPABILITY`]; `capability` is one of the names in `ClientCapabilities`.
    pub(crate) fn missing_capability(capability: &str) -> RpcError {
        RpcError::new(
            MISSING_CAPABILITY,
            format!("this request needs the client capability {capability}"),
        )
        .with_data(json!({ "requiredCapabilities": { capability: {} } }))
    }

    /// Makes an [`UNSUPPORTED_VERSION`]: with `data.supported` and `data.requested`.
    pub(crate) fn unsupported_version(requested: &str, supported: &[&str]) -> RpcError {
        RpcError::new(
            UNSUPPORTED_VERSION,
            format!("unsupported protocol version: {requested}"),
        )
        .with_data(json!({ "supported": supported, "requested": requested }))
    }

    /// Returns the error with `data` in place of what it had.
    pub(crate) fn with_data(mut self, data: Value) -> RpcError {
        self.data = Some(Box::new(data));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{RpcError, TraceId};

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
            RpcError::internal_of(TraceId::from_random(0x4b), "a"),
            r#"a (-32603) {"traceId":"0000000000000000000000000000004b"}"#,
        );
        check(
            RpcError::resource_not_found("a:b"),
            r#"resource not found: a:b (-32002) {"uri":"a:b"}"#,
        );
        check(RpcError::header_mismatch("a"), "a (-32020)");
        check(
            RpcError::missing_capability("sampling"),
            r#"this request needs the client capability sampling (-32021) {"requiredCapabilities":{"sampling":{}}}"#,
        );
        check(
            RpcError::unsupported_version("x", &["2026-07-28"]),
            r#"unsupported protocol version: x (-32022) {"supported":["2026-07-28"],"requested":"x"}"#,
        );
        check(RpcError::new(7, "a").with_data(1.into()), "a (7) 1");
    }
}
