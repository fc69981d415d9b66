//! JSON and numbers written so that they stay on one line, for whoever splits lines.
//!
//! SSE ends a line at CR and LF only, but client libraries also split at U+2028, U+2029 and control characters
//! (Python's `splitlines` does). JSON may carry all of these as escapes, so none of them leaves unescaped.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

/// Appends `value` as one line of compact JSON; raw JSON inside it is brought onto the line too.
///
/// # Errors
/// Those of `value`'s own `Serialize`, for example a map whose keys are not strings; `out` may then end in a part of it.
pub(crate) fn push(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), serde_json::Error> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, LineFormatter))
}

/// Appends `text` as a JSON string without its quotes.
pub(crate) fn push_escaped(out: &mut Vec<u8>, text: &str) {
    for (run, special) in runs(text, |c| is_line_breaking(c) || c == '"' || c == '\\') {
        out.extend_from_slice(run.as_bytes());
        match special {
            None => {}
            Some('"') => out.extend_from_slice(b"\\\""),
            Some('\\') => out.extend_from_slice(b"\\\\"),
            Some(special) => out.extend_from_slice(&unicode_escape(special)),
        }
    }
}

/// Appends `text` as a JSON string with its quotes.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    push_escaped(out, text);
    out.push(b'"');
}

/// Appends `json`, which must be valid JSON: white space that breaks the line becomes a space.
pub(crate) fn push_json(out: &mut Vec<u8>, json: &str) {
    for (run, special) in runs(json, is_line_breaking) {
        out.extend_from_slice(run.as_bytes());
        match special {
            None => {}
            Some(space) if space.is_ascii_whitespace() => out.push(b' '),
            Some(special) => out.extend_from_slice(&unicode_escape(special)),
        }
    }
}

/// The decimal digits of a number, on the stack.
#[derive(Debug)]
pub(crate) struct Digits {
    /// Invariant: the digits stand in `buffer[start..]`, and there is at least one.
    buffer: [u8; Digits::MAX_COUNT],
    start: usize,
}

impl Digits {
    /// `u64::MAX` has twenty digits.
    const MAX_COUNT: usize = 20;

    /// Writes the digits of `number`, without leading zeros.
    pub(crate) fn new(mut number: u64) -> Digits {
        let mut buffer = [b'0'; Digits::MAX_COUNT];
        let mut start = Digits::MAX_COUNT - 1;
        loop {
            buffer[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Digits { buffer, start };
            }
            start -= 1;
        }
    }

    /// Returns the digits as ASCII.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }
}

/// Serde's compact JSON, with every character escaped that could end a line.
struct LineFormatter;

impl Formatter for LineFormatter {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for (run, special) in runs(fragment, is_line_breaking) {
            writer.write_all(run.as_bytes())?;
            if let Some(special) = special {
                writer.write_all(&unicode_escape(special))?;
            }
        }
        Ok(())
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut line = Vec::with_capacity(fragment.len());
        push_json(&mut line, fragment);
        writer.write_all(&line)
    }
}

/// Tells whether some reader of lines may end a line at `character`: U+0000 to U+001F, U+007F to U+009F, U+2028, U+2029.
fn is_line_breaking(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

/// Cuts `text` after each special character: what stands before it, and the character; the last run may have none.
fn runs(text: &str, is_special: fn(char) -> bool) -> impl Iterator<Item = (&str, Option<char>)> {
    text.split_inclusive(is_special)
        .map(move |run| match run.chars().next_back() {
            Some(last) if is_special(last) => (run.strip_suffix(last).unwrap_or(run), Some(last)),
            _ => (run, None),
        })
}

/// Returns `\uXXXX` for a special character; all of them are below U+10000.
fn unicode_escape(character: char) -> [u8; 6] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let code = u32::from(character);
    debug_assert!(code < 0x1_0000, "only characters of the basic plane are special");
    let digit = |shift: u32| HEX[((code >> shift) & 0xf) as usize];
    [b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::{Digits, push, push_json, push_string};

    fn encode(value: &impl serde::Serialize) -> Result<Vec<u8>, serde_json::Error> {
        let mut out = Vec::new();
        push(&mut out, value).map(|()| out)
    }

    /// What leaves must stay on one line, for Rust's, Python's and JavaScript's idea of lines.
    fn check_line(line: &[u8], expected: &Value) {
        let text = std::str::from_utf8(line).unwrap();
        let is_breaking = |c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}';
        assert!(!text.contains(is_breaking), "{text:?}");
        assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), expected);
    }

    #[test]
    fn what_breaks_a_line_is_escaped_and_nothing_else() {
        let mut out = Vec::new();
        push_string(&mut out, "\"\\\n\u{7f}\u{85}\u{2028}\u{2029}ü/");
        assert_eq!(
            std::str::from_utf8(&out),
            Ok(r#""\"\\\u000a\u007f\u0085\u2028\u2029ü/""#)
        );
    }

    #[test]
    fn white_space_of_raw_json_becomes_spaces() {
        let raw: Box<RawValue> = serde_json::from_str("{\r\n\t\"a\": 1.0}").unwrap();
        assert_eq!(encode(&raw).unwrap(), b"{   \"a\": 1.0}");
    }

    #[test]
    fn a_map_without_string_keys_is_an_error() {
        assert!(encode(&std::collections::BTreeMap::from([((1, 2), 3)])).is_err());
    }

    proptest! {
        #[test]
        fn strings_come_back(text: String) {
            let expected = Value::String(text.clone());
            let mut out = Vec::new();
            push_string(&mut out, &text);
            check_line(&out, &expected);
            check_line(&encode(&text).unwrap(), &expected);
        }

        #[test]
        fn raw_json_comes_back(text in "[ !#-\\[\\]-\u{2030}]*", space in "[ \t\r\n]*") {
            let json = format!("{space}[{space}\"{text}\"{space},{space}1.0]{space}");
            let expected = serde_json::from_str(&json).unwrap();
            let mut out = Vec::new();
            push_json(&mut out, &json);
            check_line(&out, &expected);
            let raw: Box<RawValue> = serde_json::from_str(&json).unwrap();
            check_line(&encode(&raw).unwrap(), &expected);
        }

        #[test]
        fn digits_are_those_of_the_standard_library(number in any::<u64>(), shift in 0u32..64) {
            for number in [number, number >> shift, 0, u64::MAX] {
                assert_eq!(Digits::new(number).as_bytes(), number.to_string().as_bytes());
            }
        }
    }
}
