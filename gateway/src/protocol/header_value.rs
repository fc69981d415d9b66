//! Values of the body that stand in a header too (MCP 2026-07-28, Streamable HTTP, Value Encoding).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const PREFIX: &[u8] = b"=?base64?";
const SUFFIX: &[u8] = b"?=";

/// Why a header has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderValueError {
    /// It holds bytes that a header must not hold unencoded.
    #[error("it holds characters that have to be encoded as =?base64?…?=")]
    NotPlain,
    /// What stands between the marks is no Base64 with padding.
    #[error("it holds no valid Base64 between =?base64? and ?=")]
    NotBase64,
    /// What was encoded is no text.
    #[error("what it encodes is no UTF-8")]
    NotUtf8,
}

/// Reads a value that may be encoded: text between the marks is always decoded, so a plain value that looks like an
/// encoded one has to be encoded itself.
pub(crate) fn decode(value: &[u8]) -> Result<String, HeaderValueError> {
    let encoded = value
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(SUFFIX));
    if let Some(encoded) = encoded {
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|_| HeaderValueError::NotBase64)?;
        return String::from_utf8(bytes).map_err(|_| HeaderValueError::NotUtf8);
    }
    let is_plain = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    if !value.iter().all(is_plain) {
        return Err(HeaderValueError::NotPlain);
    }
    String::from_utf8(value.to_vec()).map_err(|_| HeaderValueError::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::{HeaderValueError, decode};

    fn check(value: impl AsRef<[u8]>, expected: Result<&str, HeaderValueError>) {
        let value = value.as_ref();
        assert_eq!(
            decode(value),
            expected.map(str::to_owned),
            "{}",
            value.escape_ascii()
        );
    }

    #[test]
    fn field_case_a14_a_value_has_one_reading() {
        check("us-west1", Ok("us-west1"));
        check("a b\tc", Ok("a b\tc"));
        check("", Ok(""));
        check("=?base64?SGVsbG8sIOS4lueVjA==?=", Ok("Hello, 世界"));
        check("=?base64?IHBhZGRlZCA=?=", Ok(" padded "));
        check("=?base64?bGluZTEKbGluZTI=?=", Ok("line1\nline2"));
        check("=?base64?PT9iYXNlNjQ/eD89?=", Ok("=?base64?x?="));
        check("=?base64??=", Ok(""));
        // The marks are case-sensitive and may not share a character.
        check("=?BASE64?eA==?=", Ok("=?BASE64?eA==?="));
        check("=?base64?=", Ok("=?base64?="));
        check("=?base64?eA==", Ok("=?base64?eA=="));
        check("=?base64?x?=", Err(HeaderValueError::NotBase64));
        check("=?base64?eA?=", Err(HeaderValueError::NotBase64));
        check("=?base64?e A==?=", Err(HeaderValueError::NotBase64));
        check("=?base64?eB==?=", Err(HeaderValueError::NotBase64));
        check("=?base64?_-8=?=", Err(HeaderValueError::NotBase64));
        check("=?base64?wyg=?=", Err(HeaderValueError::NotUtf8));
        check("été", Err(HeaderValueError::NotPlain));
        check(b"\xE9", Err(HeaderValueError::NotPlain));
        check(b"a\x7F", Err(HeaderValueError::NotPlain));
    }
}
