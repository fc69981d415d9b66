//! Protocol versions, the two eras that they fall into, and what depends on them.

use std::fmt;

use serde_json::json;

use super::error::RpcError;
use super::message::Params;

/// The one version of the modern era that is served, the era without sessions (MCP 2026-07-28, Versioning, Terminology).
pub(crate) const MODERN: &str = "2026-07-28";

/// The `_meta` key that makes a request modern, whatever else it carries.
pub(super) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// Which of the two ways of speaking MCP a request means; decided here and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// Up to 2025-11-25: a session that `initialize` makes.
    Legacy,
    /// From 2026-07-28 on: every request says all that there is to know.
    Modern,
}

impl Era {
    /// Decides by the `MCP-Protocol-Version` header and, where there is one, the message's parameters.
    pub(crate) fn of(header: Option<&[u8]>, params: Option<&Params>) -> Era {
        if header.is_some_and(is_modern)
            || params.is_some_and(|params| params.meta().get(VERSION_KEY).is_some())
        {
            Era::Modern
        } else {
            Era::Legacy
        }
    }
}

/// Says whether a header names a version of the modern era: a date from [`MODERN`] on, served or not.
fn is_modern(header: &[u8]) -> bool {
    let is_date = header.len() == MODERN.len()
        && header.iter().zip(MODERN.bytes()).all(|(byte, model)| {
            if model == b'-' {
                *byte == b'-'
            } else {
                byte.is_ascii_digit()
            }
        });
    is_date && header >= MODERN.as_bytes()
}

/// A version of the legacy era, the one with sessions; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Version {
    /// HTTP+SSE.
    V2024_11_05,
    /// Streamable HTTP; the only one with batches.
    V2025_03_26,
    /// Structured tool results, the version header.
    V2025_06_18,
    /// Priming events.
    V2025_11_25,
}

/// What a version's clients can take.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Features {
    /// An event with an id and empty data primes the client's cursor when a stream opens; clients of older versions
    /// dispatch it as a message.
    pub(crate) opening_block: bool,
    /// The same kind of event moves the cursor of a quiet stream on.
    pub(crate) bookmarks: bool,
    /// JSON-RPC batches may be POSTed.
    pub(crate) batches: bool,
}

/// What a stream of the modern era carries besides notices.
pub(crate) const LISTEN: &Features = &Features {
    opening_block: false,
    bookmarks: false,
    batches: false,
};

impl Version {
    /// The one that is preferred.
    pub(crate) const LATEST: Version = Version::V2025_11_25;

    /// The one whose transport is HTTP+SSE.
    pub(crate) const HTTP_SSE: Version = Version::V2024_11_05;

    /// Every legacy version, the oldest first.
    pub(crate) const ALL: [Version; 4] = [
        Version::V2024_11_05,
        Version::V2025_03_26,
        Version::V2025_06_18,
        Version::V2025_11_25,
    ];

    /// Returns the text that names it on the wire.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Version::V2024_11_05 => "2024-11-05",
            Version::V2025_03_26 => "2025-03-26",
            Version::V2025_06_18 => "2025-06-18",
            Version::V2025_11_25 => "2025-11-25",
        }
    }

    /// Finds the version with exactly this text.
    pub(crate) fn find(text: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.as_str() == text)
    }

    /// Returns the version to answer an `initialize` with: the one asked for, or the preferred one (MCP 2025-11-25,
    /// Lifecycle, Version Negotiation).
    pub(crate) fn negotiate(requested: &str) -> Version {
        Version::find(requested).unwrap_or(Version::LATEST)
    }

    /// Returns what the version's clients can take.
    pub(crate) const fn features(self) -> &'static Features {
        match self {
            Version::V2024_11_05 | Version::V2025_06_18 => &Features {
                opening_block: false,
                bookmarks: false,
                batches: false,
            },
            Version::V2025_03_26 => &Features {
                opening_block: false,
                bookmarks: false,
                batches: true,
            },
            Version::V2025_11_25 => &Features {
                opening_block: true,
                bookmarks: true,
                batches: false,
            },
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Checks the `MCP-Protocol-Version` header of a request in a session (MCP 2025-11-25, Transports, Protocol Version
/// Header): absent, or any legacy version, means the version that the session has.
///
/// # Errors
/// -32600 for any other value, naming what was asked and what is supported, in the message and in `data`.
pub(crate) fn check_header(header: Option<&[u8]>) -> Result<(), RpcError> {
    let Some(header) = header else {
        return Ok(());
    };
    let requested = String::from_utf8_lossy(header);
    match Version::find(&requested) {
        Some(_) => Ok(()),
        None => Err(RpcError::invalid_request(format!(
            "unsupported protocol version: {requested} (supported: {})",
            supported().join(", ")
        ))
        .with_data(json!({ "supported": supported(), "requested": requested }))),
    }
}

/// Returns the texts of [`Version::ALL`], for `data.supported`.
pub(crate) fn supported() -> [&'static str; 4] {
    Version::ALL.map(Version::as_str)
}

#[cfg(test)]
mod tests {
    use super::super::error::INVALID_REQUEST;
    use super::super::message::{Body, Message, parse};
    use super::{Era, Features, Version, check_header, supported};

    #[test]
    fn b_1_4_the_era_is_that_of_the_meta_version_or_of_the_header() {
        let check = |header: Option<&str>, params: &str, expected: Era| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
            let Ok(Body::Single(Message::Request(request))) = parse(body.as_bytes()) else {
                panic!("{body} is no request");
            };
            let era = Era::of(header.map(str::as_bytes), Some(&request.params));
            assert_eq!(era, expected, "{header:?} {params}");
        };
        let meta =
            |version: &str| format!(r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":{version}}}}}"#);
        for header in [
            None,
            Some("2025-11-25"),
            Some("1999-01-01"),
            Some("v999.0.0"),
            Some(""),
        ] {
            check(header, "{}", Era::Legacy);
            check(header, "null", Era::Legacy);
            check(header, r#"{"_meta":{"progressToken":1}}"#, Era::Legacy);
            for version in ["\"2026-07-28\"", "\"2025-11-25\"", "\"v999.0.0\"", "null", "7"] {
                check(header, &meta(version), Era::Modern);
            }
        }
        for header in ["2026-07-28", "2026-07-29", "2027-01-01", "9999-99-99"] {
            check(Some(header), "{}", Era::Modern);
            assert_eq!(Era::of(Some(header.as_bytes()), None), Era::Modern);
        }
        for header in [
            "2026-07-27",
            "2026-07-28 ",
            "2026-07-281",
            "2026-07-2",
            "2026/07/28",
            "DRAFT-2026",
        ] {
            assert_eq!(Era::of(Some(header.as_bytes()), None), Era::Legacy, "{header}");
        }
    }

    fn check(text: &str, version: Version, features: Features) {
        assert_eq!(Version::find(text), Some(version));
        assert_eq!(version.to_string(), text);
        assert_eq!(Version::negotiate(text), version);
        assert_eq!(version.features(), &features);
    }

    #[test]
    fn each_version_has_its_features() {
        let none = || Features {
            opening_block: false,
            bookmarks: false,
            batches: false,
        };
        check("2024-11-05", Version::V2024_11_05, none());
        check(
            "2025-03-26",
            Version::V2025_03_26,
            Features {
                batches: true,
                ..none()
            },
        );
        check("2025-06-18", Version::V2025_06_18, none());
        check(
            "2025-11-25",
            Version::V2025_11_25,
            Features {
                opening_block: true,
                bookmarks: true,
                ..none()
            },
        );
    }

    #[test]
    fn versions_rise_by_date() {
        assert!(Version::ALL.is_sorted() && supported().is_sorted());
        assert_eq!(Version::ALL.last(), Some(&Version::LATEST));
    }

    #[test]
    fn an_unknown_version_is_answered_with_the_preferred_one() {
        for text in [
            "",
            "1999-01-01",
            "2026-07-28",
            "2025-11-25 ",
            "v2025-11-25",
            "latest",
        ] {
            assert_eq!(Version::find(text), None);
            assert_eq!(Version::negotiate(text), Version::LATEST);
        }
    }

    #[test]
    fn field_case_a13_a_header_is_absent_supported_or_refused() {
        for header in [None, Some("2025-11-25"), Some("2024-11-05")] {
            assert_eq!(check_header(header.map(str::as_bytes)), Ok(()));
        }
        for header in [&b"1999-01-01"[..], b"", b"\xC3\x28", b"2025-11-25, 2025-11-25"] {
            let error = check_header(Some(header)).unwrap_err();
            assert_eq!(error.code, INVALID_REQUEST);
            let data = error.data.unwrap();
            assert_eq!(data["requested"], String::from_utf8_lossy(header).as_ref());
            assert_eq!(data["supported"], serde_json::json!(supported()));
        }
    }
}
