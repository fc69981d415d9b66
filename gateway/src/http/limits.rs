//! The bounds of HTTP, and who may call from a page.

use std::fmt;
use std::time::Duration;

use http::Uri;

use super::body::BodyLimits;

/// The bounds of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Connections that are served at a time.
    pub(crate) connections_max: usize,
    /// The largest header block, and so hyper's read buffer, in bytes.
    pub(crate) header_bytes: usize,
    /// How long a client may take for the headers of a request, or stay idle between two.
    pub(crate) header_timeout: Duration,
    /// The largest body of a request, in bytes.
    pub(crate) body_bytes: usize,
    /// How long a body may take.
    pub(crate) body_timeout: Duration,
    /// After so long without an acknowledgement of what was sent the peer is dead.
    pub(crate) peer_timeout: Duration,
    /// Origins of pages that may call, besides those of the loopback interface on a loopback listener.
    pub(crate) allowed_origins: Vec<Origin>,
}

impl Default for Limits {
    fn default() -> Limits {
        let body = BodyLimits::default();
        Limits {
            // With 12 KB each they take 1.2 GB.
            connections_max: 100_000,
            header_bytes: 16 * 1024,
            header_timeout: Duration::from_secs(75),
            body_bytes: body.bytes,
            body_timeout: body.timeout,
            // Two missed keep-alives.
            peer_timeout: Duration::from_secs(30),
            allowed_origins: Vec::new(),
        }
    }
}

impl Limits {
    /// Returns the bounds of a body.
    pub(super) fn body(&self) -> BodyLimits {
        BodyLimits {
            bytes: self.body_bytes,
            timeout: self.body_timeout,
        }
    }
}

/// The origin of a page: scheme, host and port, as browsers write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin(String);

impl Origin {
    /// Reads an origin; `None` if the text is none. A port that is the scheme's own is left out, as browsers do.
    pub(crate) fn parse(text: &str) -> Option<Origin> {
        let uri: Uri = text.parse().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
        let is_bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
        if !is_bare || text.ends_with('/') || authority.as_str().contains('@') {
            return None;
        }
        let own_port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return None,
        };
        let authority = authority.as_str().to_ascii_lowercase();
        let authority = authority.strip_suffix(own_port).unwrap_or(&authority);
        Some(Origin(format!("{scheme}://{authority}")))
    }

    /// Returns it as it stands in a header.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Origin;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        for (text, expected) in [
            ("https://App.example.org", "https://app.example.org"),
            ("https://app.example.org:443", "https://app.example.org"),
            ("http://app.example.org:8080", "http://app.example.org:8080"),
        ] {
            assert_eq!(Origin::parse(text).unwrap().as_str(), expected, "{text}");
        }
        for text in [
            "",
            "*",
            "null",
            "app.example.org",
            "https://app.example.org/",
            "https://app.example.org/x",
            "https://a@b",
            "ftp://a",
        ] {
            assert_eq!(Origin::parse(text), None, "{text}");
        }
    }
}
