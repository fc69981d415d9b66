//! The scalar types of attributes, and which JSON values each of them takes.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::json::Json;

/// The most digits that a BigInt may have.
const BIG_INT_DIGITS_MAX: usize = 1_000;

macro_rules! scalars {
    ($($variant:ident = $name:literal,)*) => {
        /// A scalar type of the schema language.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Scalar {
            $($variant,)*
        }

        impl Scalar {
            /// The names of all scalars, for messages.
            pub(crate) const NAMES: &[&str] = &[$($name,)*];

            /// Finds the scalar with this name.
            pub(crate) fn find(name: &str) -> Option<Scalar> {
                match name {
                    $($name => Some(Scalar::$variant),)*
                    _ => None,
                }
            }

            /// Returns the name in the schema language.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Scalar::$variant => $name,)*
                }
            }
        }
    };
}

scalars! {
    Id = "ID",
    String = "String",
    Int = "Int",
    Long = "Long",
    BigInt = "BigInt",
    Float = "Float",
    Boolean = "Boolean",
    Date = "Date",
    Bytes = "Bytes",
    Any = "Any",
}

impl Scalar {
    /// Whether a primary key may have this type: its values have one text form only.
    pub(crate) fn is_key(self) -> bool {
        match self {
            Scalar::Id | Scalar::String | Scalar::Int | Scalar::Long | Scalar::BigInt => true,
            Scalar::Float | Scalar::Boolean | Scalar::Date | Scalar::Bytes | Scalar::Any => false,
        }
    }

    /// Says which values the type takes, for messages to the writer of a record.
    pub(crate) fn allowed(self) -> &'static str {
        match self {
            Scalar::Id => "a string or an integer",
            Scalar::String => "a string",
            Scalar::Int => "an integer from -2147483648 to 2147483647",
            Scalar::Long => "an integer from -9223372036854775808 to 9223372036854775807",
            Scalar::BigInt => "an integer of at most 1000 digits",
            Scalar::Float => "a finite number",
            Scalar::Boolean => "true or false",
            Scalar::Date => "an RFC 3339 date or date-time as a string, or a number",
            Scalar::Bytes => "a base64 string",
            Scalar::Any => "any value",
        }
    }

    /// Returns whether the type takes this value, which is not null; numbers are judged by their written digits.
    pub(crate) fn takes(self, value: &Json) -> bool {
        match (self, value) {
            (Scalar::Any, _)
            | (Scalar::Id | Scalar::String, Json::String(_))
            | (Scalar::Boolean, Json::Bool(_)) => true,
            (Scalar::Int, Json::Number(text)) => text.parse::<i32>().is_ok(),
            (Scalar::Long, Json::Number(text)) => text.parse::<i64>().is_ok(),
            (Scalar::Id | Scalar::BigInt, Json::Number(text)) => is_big_int(text),
            (Scalar::Float, Json::Number(text)) => is_finite(text),
            (Scalar::Date, Json::Number(text)) => is_finite(text),
            (Scalar::Date, Json::String(text)) => is_rfc3339(text),
            (Scalar::Bytes, Json::String(text)) => is_base64(text),
            (
                Scalar::Id
                | Scalar::String
                | Scalar::Int
                | Scalar::Long
                | Scalar::BigInt
                | Scalar::Float
                | Scalar::Boolean
                | Scalar::Date
                | Scalar::Bytes,
                _,
            ) => false,
        }
    }

    /// Returns the value that a primary key of this type has for a key; `None` if the key is none of this type.
    pub(crate) fn value_of_key(self, key: &str) -> Option<Json> {
        let number = || Json::Number(key.to_owned());
        match self {
            Scalar::Int => is_canonical_integer(key)
                .then(number)
                .filter(|value| self.takes(value)),
            Scalar::Long => is_canonical_integer(key)
                .then(number)
                .filter(|value| self.takes(value)),
            Scalar::BigInt => is_canonical_integer(key)
                .then(number)
                .filter(|value| self.takes(value)),
            Scalar::Id | Scalar::String => Some(Json::String(key.to_owned())),
            Scalar::Float | Scalar::Boolean | Scalar::Date | Scalar::Bytes | Scalar::Any => None,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

fn is_big_int(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.len() <= BIG_INT_DIGITS_MAX && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether this is the only text form of an integer: no leading zero, no negative zero.
fn is_canonical_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_zero = text == "0";
    let has_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_zero || (has_digits && !digits.starts_with('0'))
}

/// The digits are kept as written; only the magnitude has to fit what every reader of JSON can hold.
fn is_finite(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn is_base64(text: &str) -> bool {
    STANDARD.decode(text).is_ok() || STANDARD_NO_PAD.decode(text).is_ok()
}

/// Whether this is a `date-time` or a `full-date` of RFC 3339, section 5.6.
fn is_rfc3339(text: &str) -> bool {
    const DATE_SHAPE: &[u8] = b"0000-00-00";
    const TIME_SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let bytes = text.as_bytes();
    if has_shape(bytes, DATE_SHAPE) {
        return text.parse::<jiff::civil::Date>().is_ok();
    }
    let Some((time, rest)) = bytes.split_at_checked(TIME_SHAPE.len()) else {
        return false;
    };
    let offset = match rest.strip_prefix(b".") {
        Some(fraction) => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=9).contains(&digits) {
                return false;
            }
            &fraction[digits..]
        }
        None => rest,
    };
    let has_offset =
        matches!(offset, b"Z" | b"z") || has_shape(offset, b"+00:00") || has_shape(offset, b"-00:00");
    has_shape(time, TIME_SHAPE) && has_offset && text.parse::<jiff::Timestamp>().is_ok()
}

/// Compares with a shape in which 0 stands for any digit and T for the separator of date and time.
fn has_shape(bytes: &[u8], shape: &[u8]) -> bool {
    bytes.len() == shape.len()
        && bytes.iter().zip(shape).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b't' | b' '),
            _ => byte == shape,
        })
}

#[cfg(test)]
mod tests {
    use super::Scalar;
    use crate::catalog::json::Json;

    fn check(scalar: Scalar, taken: &[&str], refused: &[&str]) {
        for (texts, expected) in [(taken, true), (refused, false)] {
            for text in texts {
                let value = Json::parse(text.as_bytes()).unwrap();
                assert_eq!(scalar.takes(&value), expected, "{scalar} {text}");
            }
        }
    }

    #[test]
    fn each_scalar_takes_what_it_can_hold() {
        check(Scalar::Id, &[r#""a""#, "7"], &["1.5", "true", "[]"]);
        check(Scalar::String, &[r#""""#], &["7", "{}"]);
        check(
            Scalar::Int,
            &["0", "-0", "2147483647", "-2147483648"],
            &["2147483648", "1.0", "1e2", r#""1""#],
        );
        check(
            Scalar::Long,
            &["9223372036854775807", "9007199254740993"],
            &["9223372036854775808", "1.0"],
        );
        check(
            Scalar::BigInt,
            &["18446744073709551615", &"9".repeat(1000)],
            &[&"9".repeat(1001), "1.0", "1e2"],
        );
        check(
            Scalar::Float,
            &["0.1", "1e308", "-0", "18446744073709551615"],
            &["1e400", "-1e400", r#""1""#],
        );
        check(Scalar::Boolean, &["true", "false"], &["0", r#""true""#]);
        check(
            Scalar::Date,
            &[
                "1700000000000",
                r#""2024-02-29""#,
                r#""2024-02-29T12:00:00Z""#,
                r#""2024-02-29t12:00:00.123+01:00""#,
            ],
            &[
                r#""2023-02-29""#,
                r#""2024-02-29T12:00:00""#,
                r#""20240229T120000Z""#,
                r#""2024-02-29T25:00:00Z""#,
            ],
        );
        check(
            Scalar::Bytes,
            &[r#""""#, r#""AAE=""#, r#""AAE""#],
            &[r#""A""#, r#""a b""#, "1"],
        );
        check(Scalar::Any, &["1e400", "{}", "[]", "\"\""], &[]);
    }

    #[test]
    fn an_integer_key_has_one_text_form() {
        for (key, is_key) in [
            ("0", true),
            ("-7", true),
            ("007", false),
            ("-0", false),
            ("", false),
            ("-", false),
            ("x", false),
        ] {
            assert_eq!(Scalar::Int.value_of_key(key).is_some(), is_key, "{key}");
        }
        assert!(Scalar::Int.value_of_key("2147483648").is_none());
        assert_eq!(
            Scalar::Id.value_of_key("007"),
            Some(Json::String("007".to_owned()))
        );
    }
}
