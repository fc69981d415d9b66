//! What a request of the modern era says about itself: its `_meta`, and the headers that mirror its body.
//!
//! MCP 2026-07-28, Overview, `_meta`, and Streamable HTTP, Request Metadata and Server Validation. A client may send
//! several mistakes at once, so the order of the checks is part of the contract (rule B-6.1): first `_meta`, then the
//! version header against it, then whether the version is served, then the headers that name method and object.

use serde_json::value::RawValue;

use super::era::{MODERN, VERSION_KEY};
use super::error::RpcError;
use super::header_value;
use super::json::{Kind, Members};
use super::log_level;
use super::message::{Params, Request, RequestId};

const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
const RESUME_KEY: &str = "dev.tidegate/resumeFrom";

/// The headers that say again what stands in the body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mirrored<'a> {
    /// `MCP-Protocol-Version`
    pub(crate) version: Option<&'a [u8]>,
    /// `Mcp-Method`
    pub(crate) method: Option<&'a [u8]>,
    /// `Mcp-Name`
    pub(crate) name: Option<&'a [u8]>,
}

/// The `_meta` of a request of the modern era.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestMeta {
    /// `ClientCapabilities` as a JSON object; they hold for this request only.
    pub(crate) capabilities: String,
    /// From which level on log messages may be sent on this request's answer; `None`: none may.
    pub(crate) log_level: Option<String>,
    /// Where a listen goes on (extension `dev.tidegate/resume`).
    pub(crate) resume_from: Option<String>,
}

impl RequestMeta {
    /// Checks that the client declared a capability, one of the names in `ClientCapabilities`; nothing that an earlier request
    /// declared counts (MCP 2026-07-28, Overview, `_meta`).
    ///
    /// # Errors
    /// -32021 with `data.requiredCapabilities`.
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "no method that is served needs a capability of the client yet"
        )
    )]
    pub(crate) fn require(&self, capability: &str) -> Result<(), RpcError> {
        let declared = Members::read(&self.capabilities).unwrap_or_default();
        match declared.get(capability) {
            Some(settings) if is_object(settings) => Ok(()),
            Some(_) | None => Err(RpcError::missing_capability(capability)),
        }
    }
}

/// Checks everything about a request that does not depend on its method, in the order of rule B-6.1.
///
/// # Errors
/// -32602 for `_meta`; -32020 for headers; -32022 for a version that is not served.
pub(crate) fn check(headers: Mirrored<'_>, request: &Request) -> Result<RequestMeta, RpcError> {
    let (version, meta) = read_meta(&request.params)?;
    match headers.version {
        None => return Err(missing("MCP-Protocol-Version")),
        Some(header) if header != version.as_bytes() => {
            return Err(differs("MCP-Protocol-Version", header, &version));
        }
        Some(_) => {}
    }
    if version != MODERN {
        return Err(RpcError::unsupported_version(&version, &[MODERN]));
    }
    match headers.method {
        None => return Err(missing("Mcp-Method")),
        Some(header) if header != request.method.as_bytes() => {
            return Err(differs("Mcp-Method", header, &request.method));
        }
        Some(_) => {}
    }
    if let Some(member) = named_by(&request.method) {
        check_name(headers.name, request.params.string(member).ok().flatten())?;
    }
    Ok(meta)
}

/// Returns the member of `params` that `Mcp-Name` mirrors, for the methods that need the header.
fn named_by(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    }
}

fn check_name(header: Option<&[u8]>, body: Option<String>) -> Result<(), RpcError> {
    let (header, body) = match (header, body) {
        (Some(header), Some(body)) => (header, body),
        // Nothing to mirror: what is missing is a parameter.
        (None, None) => return Ok(()),
        (None, Some(_)) => return Err(missing("Mcp-Name")),
        (Some(header), None) => return Err(differs("Mcp-Name", header, "")),
    };
    match header_value::decode(header) {
        Ok(decoded) if decoded == body => Ok(()),
        Ok(_) => Err(differs("Mcp-Name", header, &body)),
        Err(error) => Err(RpcError::header_mismatch(format!(
            "invalid Mcp-Name header: {error}"
        ))),
    }
}

fn missing(header: &str) -> RpcError {
    RpcError::header_mismatch(format!("the {header} header is missing"))
}

fn differs(header: &str, value: &[u8], body: &str) -> RpcError {
    RpcError::header_mismatch(format!(
        "the {header} header says {:?} and the body says {body:?}",
        String::from_utf8_lossy(value)
    ))
}

/// Reads the version and the rest of `_meta`.
fn read_meta(params: &Params) -> Result<(String, RequestMeta), RpcError> {
    let members = params.members()?;
    let meta = match members.get("_meta") {
        None => return Err(required(VERSION_KEY)),
        Some(meta) => Members::read(meta.get())
            .map_err(|_| RpcError::invalid_params("params._meta must be an object"))?,
    };
    let version = text(&meta, VERSION_KEY)?.ok_or_else(|| required(VERSION_KEY))?;
    let capabilities = match meta.get(CAPABILITIES_KEY) {
        Some(value) if is_object(value) => value.get().to_owned(),
        Some(_) => return Err(wrong(CAPABILITIES_KEY, "an object")),
        None => return Err(required(CAPABILITIES_KEY)),
    };
    if meta.get(CLIENT_KEY).is_some_and(|client| !is_object(client)) {
        return Err(wrong(CLIENT_KEY, "an object"));
    }
    if meta
        .get("progressToken")
        .is_some_and(|token| RequestId::read(token).is_none())
    {
        return Err(wrong("progressToken", "a string or an integer"));
    }
    let log_level = text(&meta, LOG_LEVEL_KEY)?;
    if let Some(level) = &log_level {
        log_level::check(level).map_err(|problem| {
            RpcError::invalid_params(format!("params._meta.{LOG_LEVEL_KEY}: {problem}"))
        })?;
    }
    let meta = RequestMeta {
        capabilities,
        log_level,
        resume_from: text(&meta, RESUME_KEY)?,
    };
    Ok((version, meta))
}

/// Returns a member that must be a string if it is there.
fn text(meta: &Members<'_>, key: &str) -> Result<Option<String>, RpcError> {
    match meta.get(key) {
        None => Ok(None),
        Some(_) => match meta.string(key) {
            Ok(Some(text)) => Ok(Some(text)),
            Ok(None) | Err(_) => Err(wrong(key, "a string")),
        },
    }
}

fn is_object(value: &RawValue) -> bool {
    Kind::of(value.get()) == Kind::Object
}

fn required(key: &str) -> RpcError {
    RpcError::invalid_params(format!("a request of {MODERN} requires params._meta.{key}"))
}

fn wrong(key: &str, form: &str) -> RpcError {
    RpcError::invalid_params(format!("params._meta.{key} must be {form}"))
}

#[cfg(test)]
mod tests {
    use super::super::error::{HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION};
    use super::super::message::{Body, Message, Request, parse};
    use super::{Mirrored, RequestMeta, check};

    const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

    fn request(method: &str, params: &str) -> Request {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        match parse(body.as_bytes()) {
            Ok(Body::Single(Message::Request(request))) => request,
            other => panic!("{body} is no request: {other:?}"),
        }
    }

    fn headers<'a>(version: Option<&'a str>, method: Option<&'a str>, name: Option<&'a str>) -> Mirrored<'a> {
        Mirrored {
            version: version.map(str::as_bytes),
            method: method.map(str::as_bytes),
            name: name.map(str::as_bytes),
        }
    }

    /// The code that a request is refused with; 0: it is not.
    fn code(headers: Mirrored<'_>, request: &Request) -> i64 {
        check(headers, request).map_or_else(|error| error.code, |_| 0)
    }

    #[test]
    fn b_6_8_what_was_not_declared_is_named() {
        let refusal = r#"this request needs the client capability sampling (-32021) {"requiredCapabilities":{"sampling":{}}}"#;
        for (capabilities, expected) in [
            (r#"{"sampling":{}}"#, ""),
            (r#"{"elicitation":{"url":{}},"sampling":{"tools":{}}}"#, ""),
            ("{}", refusal),
            (r#"{"elicitation":{}}"#, refusal),
            (r#"{"sampling":null}"#, refusal),
            (r#"{"sampling":true}"#, refusal),
            (r#"{"Sampling":{}}"#, refusal),
        ] {
            let meta = RequestMeta {
                capabilities: capabilities.to_owned(),
                ..Default::default()
            };
            let checked = meta.require("sampling").map_or_else(
                |error| format!("{error} {}", error.data.as_deref().cloned().unwrap_or_default()),
                |()| String::new(),
            );
            assert_eq!(checked, expected, "{capabilities}");
        }
    }

    #[test]
    fn b_6_1_meta_is_complete_and_has_the_right_types() {
        let good = headers(Some("2026-07-28"), Some("tools/list"), None);
        let with = |extra: &str| format!(r#"{{"_meta":{{{META},{extra}}}}}"#);
        let version = |value: &str| {
            format!(
                r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":{value},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}"#
            )
        };
        let refused = [
            "null".to_owned(),
            "{}".to_owned(),
            "[]".to_owned(),
            r#"{"_meta":null}"#.to_owned(),
            r#"{"_meta":[]}"#.to_owned(),
            r#"{"_meta":{}}"#.to_owned(),
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#.to_owned(),
            r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}"#.to_owned(),
            version("null"),
            version("20260728"),
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}}"#.to_owned(),
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":null}}"#.to_owned(),
            with(r#""io.modelcontextprotocol/clientInfo":"me""#),
            with(r#""io.modelcontextprotocol/logLevel":"loud""#),
            with(r#""io.modelcontextprotocol/logLevel":3"#),
            with(r#""progressToken":{}"#),
            with(r#""dev.tidegate/resumeFrom":7"#),
        ];
        for params in refused {
            assert_eq!(
                code(good, &request("tools/list", &params)),
                INVALID_PARAMS,
                "{params}"
            );
        }
        let served = with(
            r#""io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},"io.modelcontextprotocol/logLevel":"debug",
               "progressToken":"p","traceparent":"nonsense","dev.tidegate/resumeFrom":"c","com.example/x":null"#,
        );
        let meta = check(good, &request("tools/list", &served)).unwrap();
        assert_eq!(meta.capabilities, "{}");
        assert_eq!(meta.log_level.as_deref(), Some("debug"));
        assert_eq!(meta.resume_from.as_deref(), Some("c"));
        assert_eq!(code(good, &request("tools/list", &with(r#""traceparent":7"#))), 0);
    }

    #[test]
    fn b_6_1_field_case_a14_headers_must_say_what_the_body_says() {
        let (version, list) = (Some("2026-07-28"), Some("tools/list"));
        let meta = format!(r#"{{"_meta":{{{META}}}}}"#);
        let plain = request("tools/list", &meta);
        let cases = [
            (headers(version, list, None), 0),
            // A header that the method does not need is not looked at.
            (headers(version, list, Some("x")), 0),
            (headers(None, list, None), HEADER_MISMATCH),
            (headers(Some("2025-11-25"), list, None), HEADER_MISMATCH),
            (headers(Some(""), list, None), HEADER_MISMATCH),
            (headers(version, None, None), HEADER_MISMATCH),
            (headers(version, Some("tools/call"), None), HEADER_MISMATCH),
            (headers(version, Some("Tools/List"), None), HEADER_MISMATCH),
            (
                headers(version, Some("=?base64?dG9vbHMvbGlzdA==?="), None),
                HEADER_MISMATCH,
            ),
        ];
        for (headers, expected) in cases {
            assert_eq!(code(headers, &plain), expected, "{headers:?}");
        }

        let named = |member: &str, value: &str| format!(r#"{{"{member}":{value},"_meta":{{{META}}}}}"#);
        let name_cases = [
            ("tools/call", "name", r#""get_Item""#, Some("get_Item"), 0),
            (
                "tools/call",
                "name",
                r#""get_Item""#,
                Some("=?base64?Z2V0X0l0ZW0=?="),
                0,
            ),
            (
                "tools/call",
                "name",
                r#""get_Item""#,
                Some("get_item"),
                HEADER_MISMATCH,
            ),
            ("tools/call", "name", r#""get_Item""#, None, HEADER_MISMATCH),
            ("prompts/get", "name", r#""a""#, Some("b"), HEADER_MISMATCH),
            // The uri does not count for a call, nor the name for a read.
            ("tools/call", "uri", r#""a""#, Some("a"), HEADER_MISMATCH),
            (
                "resources/read",
                "uri",
                r#""feed+rest://h/Item/7""#,
                Some("feed+rest://h/Item/7"),
                0,
            ),
            (
                "resources/read",
                "uri",
                r#""été 7""#,
                Some("=?base64?w6l0w6kgNw==?="),
                0,
            ),
            (
                "resources/read",
                "uri",
                r#""été 7""#,
                Some("été 7"),
                HEADER_MISMATCH,
            ),
            (
                "resources/read",
                "uri",
                r#""=?base64?x?=""#,
                Some("=?base64?x?="),
                HEADER_MISMATCH,
            ),
            (
                "resources/read",
                "uri",
                r#""=?base64?x?=""#,
                Some("=?base64?PT9iYXNlNjQ/eD89?="),
                0,
            ),
            (
                "resources/read",
                "uri",
                r#""x""#,
                Some("=?base64?eA?="),
                HEADER_MISMATCH,
            ),
            (
                "resources/read",
                "uri",
                r#""x""#,
                Some("=?base64?wyg=?="),
                HEADER_MISMATCH,
            ),
            // Without a parameter there is nothing to mirror: that is for the method to say.
            ("resources/read", "uri", "7", None, 0),
            ("resources/read", "uri", "7", Some("7"), HEADER_MISMATCH),
        ];
        for (method, member, value, header, expected) in name_cases {
            let request = request(method, &named(member, value));
            assert_eq!(
                code(headers(version, Some(method), header), &request),
                expected,
                "{method} {value} {header:?}"
            );
        }
    }

    #[test]
    fn b_6_1_of_several_mistakes_the_first_in_the_order_is_told() {
        let unserved = |version: &str| {
            format!(
                r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}"#
            )
        };
        let nothing = headers(None, None, None);
        assert_eq!(
            code(nothing, &request("x", "{}")),
            INVALID_PARAMS,
            "_meta before the headers"
        );
        assert_eq!(
            code(nothing, &request("x", &unserved("v999"))),
            HEADER_MISMATCH,
            "the version header before the version"
        );
        for version in ["v999.0.0", "2025-11-25", "2027-01-01", ""] {
            let error = check(
                headers(Some(version), None, None),
                &request("x", &unserved(version)),
            )
            .unwrap_err();
            assert_eq!(error.code, UNSUPPORTED_VERSION, "the version before Mcp-Method");
            let data = error.data.unwrap();
            assert_eq!(
                *data,
                serde_json::json!({"supported": ["2026-07-28"], "requested": version})
            );
        }
    }
}
