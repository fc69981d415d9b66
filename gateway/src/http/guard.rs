//! Who may call at all: `Host`, `Origin`, and CORS for browsers.
//!
//! A page in a browser can reach a server on the loopback interface, by an own origin or by a name that it lets resolve
//! to 127.0.0.1 (DNS rebinding). MCP 2025-11-25, Transports, Security Warning, demands that both are refused. Written here
//! and not taken from a CORS library: the allowed headers are a list with a pattern (`Mcp-*`), which none expresses.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::HeaderName;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};

use super::Origin;
use super::answer::refusal;
use crate::protocol::error::RpcError;

/// Headers that a page may send, in lower case, besides `mcp-*`.
const ALLOWED_HEADERS: [&str; 9] = [
    "accept",
    "authorization",
    "content-type",
    "if-match",
    "if-none-match",
    "last-event-id",
    "prefer",
    "traceparent",
    "tracestate",
];

const ALLOWED_METHODS: &str = "GET, POST, PUT, DELETE";

/// Headers that a page may read.
const EXPOSED_HEADERS: &str = "Mcp-Session-Id, WWW-Authenticate, Retry-After, ETag, Location";

/// How long a browser may remember the answer to a preflight, in seconds: two hours, the most that one keeps.
const PREFLIGHT_MAX_AGE: &str = "7200";

/// Headers that decide whom a request is for and from: with two of them nobody knows which one was meant.
const SINGLE_HEADERS: [HeaderName; 7] = [
    HOST,
    ORIGIN,
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
];

/// Why a request is refused.
struct Refusal {
    status: StatusCode,
    reason: String,
}

/// The rules of one listener.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    loopback: bool,
    /// Origins that may call besides.
    allowed: Arc<[Origin]>,
}

impl Guard {
    /// Makes the rules for a listener that is bound to `address`.
    pub(super) fn new(address: SocketAddr, allowed: &[Origin]) -> Guard {
        Guard {
            loopback: address.ip().is_loopback(),
            allowed: allowed.into(),
        }
    }

    fn refuses(&self, uri: &Uri, headers: &HeaderMap) -> Option<Refusal> {
        if let Some(name) = SINGLE_HEADERS
            .iter()
            .find(|name| headers.get_all(*name).iter().count() > 1)
        {
            let reason = format!("the {name} header must not come twice");
            return Some(Refusal {
                status: StatusCode::BAD_REQUEST,
                reason,
            });
        }
        // A target with an authority counts more than the header (RFC 9112, section 3.2.2).
        let host = uri
            .authority()
            .map(Authority::as_str)
            .or_else(|| headers.get(HOST)?.to_str().ok());
        if self.loopback && !host.is_some_and(is_loopback) {
            let reason = format!(
                "Host must name the loopback interface, not {:?}",
                host.unwrap_or_default()
            );
            return Some(Refusal {
                status: StatusCode::FORBIDDEN,
                reason,
            });
        }
        match headers.get(ORIGIN) {
            Some(origin) if !self.allows(origin) => Some(Refusal {
                status: StatusCode::FORBIDDEN,
                reason: format!(
                    "Origin {:?} is not allowed",
                    String::from_utf8_lossy(origin.as_bytes())
                ),
            }),
            _ => None,
        }
    }

    fn allows(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else {
            return false;
        };
        let authority = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        self.allowed.iter().any(|allowed| allowed.as_str() == origin)
            || (self.loopback && authority.is_some_and(is_loopback))
    }
}

/// Refuses a request that breaks the rules, answers a preflight, and lets a page of an allowed origin read the response.
pub(super) async fn check(State(guard): State<Guard>, request: Request<Body>, next: Next) -> Response {
    if let Some(Refusal { status, reason }) = guard.refuses(request.uri(), request.headers()) {
        return refusal(status, &RpcError::invalid_request(reason));
    }
    let Some(origin) = request.headers().get(ORIGIN).cloned() else {
        return next.run(request).await;
    };
    let is_preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if is_preflight {
        preflight(request.headers())
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(EXPOSED_HEADERS),
    );
    headers.append(VARY, HeaderValue::from_static("Origin"));
    response
}

fn preflight(headers: &HeaderMap) -> Response {
    let requested = headers
        .get(ACCESS_CONTROL_REQUEST_HEADERS)
        .and_then(|names| names.to_str().ok());
    let allowed: Vec<String> = requested
        .unwrap_or_default()
        .split(',')
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| name.starts_with("mcp-") || ALLOWED_HEADERS.contains(&name.as_str()))
        .collect();
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static(ALLOWED_METHODS),
    );
    headers.insert(
        ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static(PREFLIGHT_MAX_AGE),
    );
    if let Ok(allowed) = HeaderValue::from_str(&allowed.join(", ")) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    response
}

/// Says whether `host` or `host:port` is a name or an address of the loopback interface.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if port.is_empty() || is_port(port.strip_prefix(':')) => address,
            _ => return false,
        },
        None => match authority.split_once(':') {
            Some((host, port)) if is_port(Some(port)) => host,
            Some(_) => return false,
            None => authority,
        },
    };
    let name = host.strip_suffix('.').unwrap_or(host);
    name.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn is_port(port: Option<&str>) -> bool {
    port.is_some_and(|port| port.parse::<u16>().is_ok() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_host(host: &str, served: bool) {
        assert_eq!(is_loopback(host), served, "{host:?}");
    }

    #[test]
    fn only_names_of_the_loopback_interface_are_hosts_of_a_loopback_listener() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9926",
            "[::1]",
            "[::1]:9926",
            "LOCALHOST:9926",
            "localhost.:9926",
            "127.9.9.9",
        ] {
            check_host(host, true);
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:9926",
            "localhost:9926@evil.example",
            "localhost:+9926",
            "localhost:",
            "[::1",
            "[::1]x",
            "::1:80",
            "10.0.0.1",
            "[fe80::1]:9926",
            "127.0.0.1.evil.example",
        ] {
            check_host(host, false);
        }
    }

    #[test]
    fn origins_are_those_of_the_loopback_interface() {
        let guard = |loopback: &str, allowed: &[Origin]| Guard::new(loopback.parse().unwrap(), allowed);
        let allowed = [Origin::parse("https://app.example.org").unwrap()];
        let with_list = guard("127.0.0.1:1", &allowed);
        for (origin, is_allowed) in [
            ("https://app.example.org", true),
            ("http://localhost", true),
            ("http://app.example.org", false),
            ("https://app.example.org:8443", false),
            ("https://app.example.org.evil.example", false),
        ] {
            let origin = HeaderValue::from_static(origin);
            assert_eq!(with_list.allows(&origin), is_allowed, "{origin:?}");
        }
        let guard = |address| guard(address, &[]);
        let (guard, public) = (guard("127.0.0.1:1"), guard("10.0.0.1:1"));
        let allows = |origin| guard.allows(&HeaderValue::from_static(origin));
        assert!(allows("http://localhost:3000") && allows("https://127.0.0.1") && allows("http://[::1]:80"));
        assert!(!allows("null") && !allows("http://evil.example") && !allows("ftp://localhost"));
        assert!(!public.allows(&HeaderValue::from_static("http://localhost")));
    }
}
