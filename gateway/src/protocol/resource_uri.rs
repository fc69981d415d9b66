//! Which resource a URI names, and the one spelling that stands for all of its spellings.
//!
//! A row URI is `feed+rest://<authority>/<Path>` for a table and `…/<Path>/<key>` for a record. Its path is cut at `/`
//! before anything is percent-decoded, so `…/Item/a%2Fb` is the record `a/b` and `…/Item/a/b` names nothing
//! (RFC 3986, section 2.2). An export path is one segment here, so it may hold a `/` only escaped.

/// Longest URI that is looked at: a key has at most 1,024 bytes, so three times that when every byte is escaped,
/// and the rest is for authority and path.
pub(crate) const MAX_URI_BYTES: usize = 8 * 1024;

const ROW_SCHEME: &str = "feed+rest";
const SYNTHETIC_SCHEME: &str = "feed";

/// What a URI names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResourceUri {
    /// A table or a record.
    Row(RowUri),
    /// A `feed:` URI, with the scheme in lower case and otherwise as written.
    Synthetic(String),
    /// Any other URI, as written; perhaps a component has it.
    Custom(String),
}

/// The decoded path of a row URI: two spellings of one resource are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RowUri {
    /// The export path of the table. Invariant: not empty.
    pub(crate) path: String,
    /// The record's key; `None` for the whole table. Invariant: not empty (an empty segment is the table).
    pub(crate) key: Option<String>,
}

/// Why a text names no resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UriError {
    /// It is longer than [`MAX_URI_BYTES`].
    #[error("the uri is longer than {limit} bytes", limit = MAX_URI_BYTES)]
    TooLong,
    /// It has no scheme, so it is no absolute URI.
    #[error("the uri has no scheme")]
    NoScheme,
    /// No `//` follows the scheme of a row URI.
    #[error("the uri has no authority")]
    NoAuthority,
    /// A row URI without the path of a table.
    #[error("the uri has no path")]
    NoPath,
    /// A row URI with more segments than path and key; a `/` in a key must be escaped.
    #[error("the uri has more segments than path and key")]
    TooManySegments,
    /// A row URI with a `?` or `#`; in a key they must be escaped.
    #[error("the uri has a query or a fragment")]
    QueryOrFragment,
    /// A `.` or `..` segment that is not escaped: any library on the way may have resolved it, or may not have.
    #[error("the uri has a dot segment")]
    DotSegment,
    /// A `%` without two hexadecimal digits behind it.
    #[error("the uri has an invalid percent escape")]
    InvalidEscape,
    /// Escapes that decode to bytes which are not UTF-8.
    #[error("an escape in the uri is not utf-8")]
    NotUtf8,
}

/// Reads a URI.
///
/// # Errors
/// Any text that names nothing, see [`UriError`]. Whether a resource exists is not looked at.
pub(crate) fn parse(text: &str) -> Result<ResourceUri, UriError> {
    if text.len() > MAX_URI_BYTES {
        return Err(UriError::TooLong);
    }
    let (scheme, rest) = text
        .split_once(':')
        .filter(|(scheme, _)| is_scheme(scheme))
        .ok_or(UriError::NoScheme)?;
    if [ROW_SCHEME, "http", "https"]
        .iter()
        .any(|row| scheme.eq_ignore_ascii_case(row))
    {
        parse_row(rest).map(ResourceUri::Row)
    } else if scheme.eq_ignore_ascii_case(SYNTHETIC_SCHEME) {
        Ok(ResourceUri::Synthetic(format!("{SYNTHETIC_SCHEME}:{rest}")))
    } else {
        Ok(ResourceUri::Custom(text.to_owned()))
    }
}

/// Reads what follows the scheme of a row URI.
fn parse_row(rest: &str) -> Result<RowUri, UriError> {
    let rest = rest.strip_prefix("//").ok_or(UriError::NoAuthority)?;
    if rest.contains(['?', '#']) {
        return Err(UriError::QueryOrFragment);
    }
    let (_authority, path) = rest.split_once('/').ok_or(UriError::NoPath)?;
    let mut segments = path.split('/');
    let path = segments
        .next()
        .filter(|path| !path.is_empty())
        .ok_or(UriError::NoPath)?;
    let key = match (segments.next(), segments.next()) {
        (None | Some(""), None) => None,
        (Some(key), None) => Some(decode(key)?),
        (_, Some(_)) => return Err(UriError::TooManySegments),
    };
    Ok(RowUri {
        path: decode(path)?,
        key,
    })
}

impl RowUri {
    /// Returns the one spelling that is the identity of a subscription: `feed+rest:///Path/key`, with unreserved
    /// characters as they are and everything else escaped, the hexadecimal digits in upper case.
    pub(crate) fn canonical(&self) -> String {
        self.uri("")
    }

    /// Returns the same spelling with an authority (`host:port`, not checked), as it is shown to clients.
    pub(crate) fn uri(&self, authority: &str) -> String {
        let mut uri = format!("{ROW_SCHEME}://{authority}/");
        push_encoded(&mut uri, &self.path);
        if let Some(key) = &self.key {
            uri.push('/');
            push_encoded(&mut uri, key);
        }
        uri
    }
}

/// RFC 3986, section 3.1.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Decodes one segment. Characters that a URI should have escaped are taken as they are.
fn decode(segment: &str) -> Result<String, UriError> {
    if is_dot_segment(segment) {
        return Err(UriError::DotSegment);
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let [high, low, after @ ..] = after else {
            return Err(UriError::InvalidEscape);
        };
        bytes.push(hex_value(*high)? << 4 | hex_value(*low)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| UriError::NotUtf8)
}

fn hex_value(digit: u8) -> Result<u8, UriError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(UriError::InvalidEscape),
    }
}

/// Appends one segment so that [`decode`] gives it back.
fn push_encoded(uri: &mut String, segment: &str) {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    // The dot is unreserved, but a segment of dots alone would not survive.
    let escapes_dots = is_dot_segment(segment);
    for byte in segment.bytes() {
        let is_unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        if is_unreserved && !(escapes_dots && byte == b'.') {
            uri.push(char::from(byte));
        } else {
            uri.extend(['%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
        }
    }
}

fn is_dot_segment(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::{Strategy, any, prop_oneof, proptest};

    use super::{MAX_URI_BYTES, ResourceUri, RowUri, UriError, parse};

    fn check_row(uri: &str, path: &str, key: Option<&str>, canonical: &str) {
        let row = RowUri {
            path: path.to_owned(),
            key: key.map(str::to_owned),
        };
        assert_eq!(parse(uri), Ok(ResourceUri::Row(row.clone())), "{uri}");
        assert_eq!(row.canonical(), canonical);
        assert_eq!(parse(canonical), Ok(ResourceUri::Row(row)), "{canonical}");
    }

    fn check_refused(uri: &str, expected: UriError) {
        assert_eq!(parse(uri), Err(expected), "{uri}");
    }

    #[test]
    fn only_the_path_of_a_row_uri_counts() {
        for start in [
            "feed+rest://host:9926",
            "feed+rest://",
            "FEED+Rest://HOST",
            "http://127.0.0.1:1",
            "HTTPS://u:p@[::1]:2",
            "feed+rest://%zz",
        ] {
            check_row(&format!("{start}/Item"), "Item", None, "feed+rest:///Item");
            check_row(&format!("{start}/Item/"), "Item", None, "feed+rest:///Item");
            check_row(
                &format!("{start}/%49tem/7"),
                "Item",
                Some("7"),
                "feed+rest:///Item/7",
            );
        }
    }

    #[test]
    fn field_case_a17_distinct_keys_stay_distinct() {
        let cases = [
            ("a%2Fb", "a/b", "a%2Fb"),
            ("a%2fb", "a/b", "a%2Fb"),
            ("100%25", "100%", "100%25"),
            ("%C3%BC", "ü", "%C3%BC"),
            ("ü", "ü", "%C3%BC"),
            ("été 7", "été 7", "%C3%A9t%C3%A9%207"),
            ("x%3Fy%23z", "x?y#z", "x%3Fy%23z"),
            ("%2E", ".", "%2E"),
            ("%2e%2E", "..", "%2E%2E"),
            (".%2E", "..", "%2E%2E"),
            ("...", "...", "..."),
            ("a..b", "a..b", "a..b"),
            ("%2541", "%41", "%2541"),
            ("a+b", "a+b", "a%2Bb"),
            ("%00%0A", "\0\n", "%00%0A"),
            ("-._~", "-._~", "-._~"),
            ("a\\b:@", "a\\b:@", "a%5Cb%3A%40"),
            ("\u{2028}", "\u{2028}", "%E2%80%A8"),
        ];
        for (segment, key, canonical) in cases {
            let uri = format!("feed+rest://host/Item/{segment}");
            check_row(&uri, "Item", Some(key), &format!("feed+rest:///Item/{canonical}"));
        }
        check_row(
            "feed+rest://host/a%2Fb/%2F",
            "a/b",
            Some("/"),
            "feed+rest:///a%2Fb/%2F",
        );
        check_row("feed+rest://host/%2E%2E", "..", None, "feed+rest:///%2E%2E");
    }

    #[test]
    fn what_names_no_row_is_refused() {
        let cases = [
            ("Item/%zz", UriError::InvalidEscape),
            ("Item/%", UriError::InvalidEscape),
            ("Item/a%2", UriError::InvalidEscape),
            ("Item/%2é", UriError::InvalidEscape),
            ("%z0/a", UriError::InvalidEscape),
            ("Item/%C3", UriError::NotUtf8),
            ("Item/%ED%A0%80", UriError::NotUtf8),
            ("Item/%C0%AF", UriError::NotUtf8),
            ("Item/%FF", UriError::NotUtf8),
            ("Item/a/b", UriError::TooManySegments),
            ("Item/a/", UriError::TooManySegments),
            ("Item//", UriError::TooManySegments),
            ("Item//a", UriError::TooManySegments),
            ("Item/a?b=1", UriError::QueryOrFragment),
            ("Item/a#b", UriError::QueryOrFragment),
            ("Item?", UriError::QueryOrFragment),
            ("Item/.", UriError::DotSegment),
            ("Item/..", UriError::DotSegment),
            ("../Item", UriError::DotSegment),
            ("", UriError::NoPath),
            ("/Item", UriError::NoPath),
        ];
        for (path, expected) in cases {
            check_refused(&format!("feed+rest://host/{path}"), expected);
        }
        check_refused("feed+rest://host", UriError::NoPath);
        check_refused("feed+rest://host?/Item", UriError::QueryOrFragment);
        check_refused("feed+rest:/Item/7", UriError::NoAuthority);
        check_refused("http:Item", UriError::NoAuthority);
        for text in [
            "",
            "Item/7",
            "//host/Item",
            ":",
            "://host/Item",
            "1a:b",
            " feed+rest://host/Item",
            "ü:a",
        ] {
            check_refused(text, UriError::NoScheme);
        }
    }

    #[test]
    fn a_uri_has_a_bound() {
        let longest = format!("{:a<1$}", "feed+rest://host/Item/", MAX_URI_BYTES);
        assert!(parse(&longest).is_ok());
        assert_eq!(parse(&(longest + "a")), Err(UriError::TooLong));
        let key = "\u{1}".repeat(1_024);
        let row = RowUri {
            path: "a".repeat(1_000),
            key: Some(key),
        };
        assert!(
            parse(&row.canonical()).is_ok(),
            "the longest key of a record fits"
        );
    }

    #[test]
    fn other_schemes_are_no_rows() {
        let synthetic = |text: &str| Ok(ResourceUri::Synthetic(text.to_owned()));
        assert_eq!(parse("feed://about"), synthetic("feed://about"));
        assert_eq!(
            parse("FEED://schema/data/Item?x"),
            synthetic("feed://schema/data/Item?x")
        );
        for text in [
            "weather://berlin",
            "Feed+rest2://host/Item",
            "urn:x:%zz",
            "httpx://a",
            "a:",
        ] {
            assert_eq!(parse(text), Ok(ResourceUri::Custom(text.to_owned())));
        }
    }

    #[test]
    fn an_authority_is_shown_but_changes_nothing() {
        let row = RowUri {
            path: "Item".to_owned(),
            key: Some("a/b".to_owned()),
        };
        assert_eq!(row.uri("localhost:9926"), "feed+rest://localhost:9926/Item/a%2Fb");
        assert_eq!(parse(&row.uri("[::1]:1")), Ok(ResourceUri::Row(row)));
    }

    fn segment() -> impl Strategy<Value = String> {
        prop_oneof![
            "[./%?#]{1,3}",
            vec(any::<char>(), 1..40).prop_map(String::from_iter)
        ]
    }

    /// Escapes what must be escaped and, in turn, whatever else is chosen: a spelling that is not ours.
    fn spell(text: &str, chosen: &[bool]) -> String {
        let spell_one = |(character, chosen): (char, &bool)| {
            let spelled = character.to_string();
            if !chosen && !"%/?#.".contains(character) {
                return spelled;
            }
            spelled.bytes().map(|byte| format!("%{byte:02x}")).collect()
        };
        text.chars().zip(chosen.iter().cycle()).map(spell_one).collect()
    }

    proptest! {
        #[test]
        fn a_canonical_spelling_reads_back(path in segment(), key in option::of(segment())) {
            let row = RowUri { path, key };
            let canonical = row.canonical();
            assert!(canonical.bytes().all(|byte| byte.is_ascii_graphic()));
            assert_eq!(parse(&canonical), Ok(ResourceUri::Row(row)));
        }

        #[test]
        fn every_spelling_of_a_row_is_one_row(path in segment(), key in segment(), chosen in vec(any::<bool>(), 1..9)) {
            let uri = format!("http://a/{}/{}", spell(&path, &chosen), spell(&key, &chosen));
            assert_eq!(parse(&uri), Ok(ResourceUri::Row(RowUri { path, key: Some(key) })));
        }

        #[test]
        fn any_text_is_read_or_refused(rest: String, tail in "[%/a-fA-F0-9.?#]*") {
            for uri in [rest.clone(), format!("feed+rest://h/{rest}"), format!("feed+rest://h/I/{tail}")] {
                if let Ok(ResourceUri::Row(row)) = parse(&uri) {
                    assert!(!row.path.is_empty() && row.key.as_deref() != Some(""));
                    assert_eq!(parse(&row.canonical()), Ok(ResourceUri::Row(row)));
                }
            }
        }
    }
}
