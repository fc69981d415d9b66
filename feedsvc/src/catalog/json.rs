//! JSON as records are written in: one parse that keeps the digits of numbers and bounds the depth.
//!
//! Why not `serde_json::Value`: under `arbitrary_precision` and `raw_value` it takes an object whose key is one of its
//! private tokens for a number or for raw text, and a record comes from outside. Such keys are refused here, so that no
//! other reader of a record can be led astray either.

use indexmap::IndexMap;

/// The deepest nesting of objects and arrays that a record may have.
pub(crate) const DEPTH_MAX: usize = 128;

/// Object keys with this beginning mean something to `serde_json` itself.
const PRIVATE_KEY_PREFIX: &str = "$serde_json::private::";

/// A JSON object: attributes in the order in which they were first written, of two with one name the last.
pub(crate) type JsonObject = IndexMap<String, Json>;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// The number as it was written.
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(JsonObject),
}

/// Why a text is no JSON value that this service takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {offset}")]
pub(crate) struct JsonFault {
    problem: &'static str,
    /// 0-based, in bytes.
    offset: usize,
}

impl JsonFault {
    /// Returns what is wrong.
    pub(crate) fn problem(&self) -> &'static str {
        self.problem
    }

    /// Returns the place, 0-based, in bytes.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }
}

/// Returns where the value of an attribute begins in the text of an object, 0-based, in bytes; of two the last.
pub(crate) fn offset_of_attribute(text: &str, attribute: &str) -> Option<usize> {
    let mut parser = Parser { text, position: 0 };
    let mut found = None;
    parser.skip_space();
    parser.expect(b'{', "expected an object").ok()?;
    while !parser.close(b'}') {
        if parser.peek() != Some(b'"') {
            return None;
        }
        let name = parser.string().ok()?;
        parser.skip_space();
        parser.expect(b':', "expected a colon").ok()?;
        parser.skip_space();
        if name == attribute {
            found = Some(parser.position);
        }
        parser.value(DEPTH_MAX).ok()?;
        parser.skip_space();
        parser.skip_if(b",");
    }
    found
}

impl Json {
    /// Parses a whole text.
    ///
    /// # Errors
    /// The text is no UTF-8, no JSON (RFC 8259), or nested deeper than [`DEPTH_MAX`].
    pub(crate) fn parse(text: &[u8]) -> Result<Json, JsonFault> {
        let text = std::str::from_utf8(text).map_err(|error| JsonFault {
            problem: "no UTF-8",
            offset: error.valid_up_to(),
        })?;
        let mut parser = Parser { text, position: 0 };
        parser.skip_space();
        let value = parser.value(DEPTH_MAX)?;
        parser.skip_space();
        if parser.position < text.len() {
            return Err(parser.fault("unexpected text after the value"));
        }
        Ok(value)
    }

    /// Returns the value as compact JSON.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    /// Names the kind of value, with the value itself where it is short, for messages to the writer of a record.
    pub(crate) fn describe(&self) -> String {
        const SHOWN_CHARS: usize = 40;
        let (kind, text) = match self {
            Json::Null => return "null".to_owned(),
            Json::Bool(value) => return value.to_string(),
            Json::Number(text) => ("the number", text.clone()),
            Json::String(_) => ("the string", self.to_text()),
            Json::Array(_) => return "an array".to_owned(),
            Json::Object(_) => return "an object".to_owned(),
        };
        match text.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{kind} {}…", &text[..end]),
            None => format!("{kind} {text}"),
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(true) => out.push_str("true"),
            Json::Bool(false) => out.push_str("false"),
            Json::Number(text) => out.push_str(text),
            Json::String(text) => write_string(text, out),
            Json::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(object) => write_object(object, out),
        }
    }
}

/// Returns an object as compact JSON.
pub(crate) fn object_to_text(object: &JsonObject) -> String {
    let mut text = String::new();
    write_object(object, &mut text);
    text
}

fn write_object(object: &JsonObject, out: &mut String) {
    out.push('{');
    for (index, (name, value)) in object.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(name, out);
        out.push(':');
        value.write(out);
    }
    out.push('}');
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if (control as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl Parser<'_> {
    fn value(&mut self, depth_left: usize) -> Result<Json, JsonFault> {
        match self.peek() {
            Some(b'{') => self.object(depth_left),
            Some(b'[') => self.array(depth_left),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(_) => Err(self.fault("unexpected character")),
            None => Err(self.fault("unexpected end")),
        }
    }

    fn object(&mut self, depth_left: usize) -> Result<Json, JsonFault> {
        let depth_left = self.enter(depth_left)?;
        let mut object = JsonObject::new();
        if self.close(b'}') {
            return Ok(Json::Object(object));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.fault("expected an attribute name"));
            }
            let start = self.position;
            let name = self.string()?;
            if name.starts_with(PRIVATE_KEY_PREFIX) {
                self.position = start;
                return Err(self.fault("reserved attribute name"));
            }
            self.skip_space();
            self.expect(b':', "expected a colon")?;
            self.skip_space();
            let value = self.value(depth_left)?;
            object.insert(name, value);
            if self.close(b'}') {
                return Ok(Json::Object(object));
            }
            self.expect(b',', "expected a comma or the end of the object")?;
        }
    }

    fn array(&mut self, depth_left: usize) -> Result<Json, JsonFault> {
        let depth_left = self.enter(depth_left)?;
        let mut items = Vec::new();
        if self.close(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth_left)?);
            if self.close(b']') {
                return Ok(Json::Array(items));
            }
            self.expect(b',', "expected a comma or the end of the array")?;
        }
    }

    /// Goes past an opening bracket and returns the depth that is left inside.
    fn enter(&mut self, depth_left: usize) -> Result<usize, JsonFault> {
        let inside = depth_left
            .checked_sub(1)
            .ok_or_else(|| self.fault("nested too deep"))?;
        self.position += 1;
        Ok(inside)
    }

    /// Goes past space and then past the closing bracket, if it is there.
    fn close(&mut self, bracket: u8) -> bool {
        self.skip_space();
        let is_closed = self.peek() == Some(bracket);
        if is_closed {
            self.position += 1;
        }
        is_closed
    }

    fn number(&mut self) -> Result<Json, JsonFault> {
        let start = self.position;
        self.skip_if(b"-");
        match self.peek() {
            Some(b'0') => self.position += 1,
            _ => self.digits()?,
        }
        if self.skip_if(b".") {
            self.digits()?;
        }
        if self.skip_if(b"eE") {
            self.skip_if(b"+-");
            self.digits()?;
        }
        Ok(Json::Number(self.text[start..self.position].to_owned()))
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let start = self.position;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.position += 1;
        }
        if self.position == start {
            Err(self.fault("expected a digit"))
        } else {
            Ok(())
        }
    }

    fn string(&mut self) -> Result<String, JsonFault> {
        self.position += 1;
        let mut text = String::new();
        loop {
            let start = self.position;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.position += 1;
            }
            // Only ASCII ends the run, so both ends stand between characters.
            text.push_str(&self.text[start..self.position]);
            match self.peek() {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.position += 1;
                    text.push(self.escape()?);
                }
                Some(_) => return Err(self.fault("control character in a string")),
                None => return Err(self.fault("unexpected end in a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonFault> {
        let character = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.position += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.fault("unknown escape in a string")),
        };
        self.position += 1;
        Ok(character)
    }

    fn unicode_escape(&mut self) -> Result<char, JsonFault> {
        let first = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&first) && self.text[self.position..].starts_with("\\u") {
            self.position += 2;
            let second = self.hex4()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(self.fault("unpaired surrogate in a string"));
            }
            0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.fault("unpaired surrogate in a string"))
    }

    fn hex4(&mut self) -> Result<u32, JsonFault> {
        let digits = self.text.as_bytes().get(self.position..self.position + 4);
        let mut code = 0;
        for digit in digits.ok_or_else(|| self.fault("unexpected end in a string"))? {
            let value = char::from(*digit).to_digit(16);
            code = code * 16 + value.ok_or_else(|| self.fault("unknown escape in a string"))?;
        }
        self.position += 4;
        Ok(code)
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, JsonFault> {
        if !self.text[self.position..].starts_with(word) {
            return Err(self.fault("unexpected character"));
        }
        self.position += word.len();
        Ok(value)
    }

    fn expect(&mut self, byte: u8, problem: &'static str) -> Result<(), JsonFault> {
        if self.skip_if(&[byte]) {
            Ok(())
        } else {
            Err(self.fault(problem))
        }
    }

    fn skip_if(&mut self, bytes: &[u8]) -> bool {
        let is_there = self.peek().is_some_and(|byte| bytes.contains(&byte));
        if is_there {
            self.position += 1;
        }
        is_there
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.position += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn fault(&self, problem: &'static str) -> JsonFault {
        JsonFault {
            problem,
            offset: self.position,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DEPTH_MAX, Json, offset_of_attribute};

    fn check(text: &str, expected: &str) {
        let outcome = Json::parse(text.as_bytes()).map(|value| value.to_text());
        assert_eq!(
            outcome.unwrap_or_else(|fault| fault.to_string()),
            expected,
            "{text}"
        );
    }

    #[test]
    fn values_come_back_compact_and_with_their_digits() {
        for number in [
            "1.0",
            "1e2",
            "1E+02",
            "-0",
            "-0.0",
            "9007199254740993",
            "18446744073709551615",
            "0.1",
            "1e400",
        ] {
            check(number, number);
        }
        check(
            " { \"b\" : [ 1 , true , null ] , \"a\" : { } } ",
            r#"{"b":[1,true,null],"a":{}}"#,
        );
        check(r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#);
        check(r#""\u00e9\ud83d\ude00\/\n\u0001""#, "\"é😀/\\n\\u0001\"");
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        for (text, fault) in [
            ("", "unexpected end at byte 0"),
            ("{", "expected an attribute name at byte 1"),
            ("[1,]", "unexpected character at byte 3"),
            ("01", "unexpected text after the value at byte 1"),
            ("1.", "expected a digit at byte 2"),
            ("+1", "unexpected character at byte 0"),
            ("NaN", "unexpected character at byte 0"),
            ("{\"a\" 1}", "expected a colon at byte 5"),
            ("\"a\nb\"", "control character in a string at byte 2"),
            (r#""\ud800""#, "unpaired surrogate in a string at byte 7"),
            (r#""\x""#, "unknown escape in a string at byte 2"),
            (
                r#"{"$serde_json::private::Number":"1"}"#,
                "reserved attribute name at byte 1",
            ),
            (
                r#"{"\u0024serde_json::private::RawValue":"1"}"#,
                "reserved attribute name at byte 1",
            ),
        ] {
            check(text, fault);
        }
    }

    #[test]
    fn the_place_of_an_attribute_is_found() {
        let text = r#" {"a": {"b": 1}, "b" :[2], "\u0063":3, "a":4 }"#;
        for (name, expected) in [
            ("b", Some("[2]")),
            ("c", Some("3")),
            ("a", Some("4")),
            ("d", None),
        ] {
            let found = offset_of_attribute(text, name);
            assert_eq!(found.is_some(), expected.is_some(), "{name}");
            if let (Some(offset), Some(expected)) = (found, expected) {
                assert!(
                    text[offset..].starts_with(expected),
                    "{name}: {}",
                    &text[offset..]
                );
            }
        }
        assert_eq!(offset_of_attribute("[", "a"), None);
        assert_eq!(offset_of_attribute("{", "a"), None);
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        check(&nested(DEPTH_MAX), &nested(DEPTH_MAX));
        check(&nested(DEPTH_MAX + 1), "nested too deep at byte 128");
    }
}
