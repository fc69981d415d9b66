//! Durations: a whole number and its unit.

use std::time::Duration;

/// The units, the largest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Reads `500ms`, `30s`, `5m`, `1h`, `7d`, with or without a space before the unit.
///
/// # Errors
/// What is wrong with the text, to stand after it.
pub fn parse(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    if number.is_empty() {
        return Err("it is not a whole number with a unit".to_owned());
    }
    if unit.is_empty() {
        return Err(format!(
            "it has no unit, write {number}ms, {number}s, {number}m, …"
        ));
    }
    let Some((_, unit_ms)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("`{unit}` is no unit of time (ms, s, m, h, d)"));
    };
    let duration_ms = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*unit_ms));
    duration_ms
        .map(Duration::from_millis)
        .ok_or_else(|| "it is too long for a duration".to_owned())
}

/// Writes a duration in the largest unit that divides it; what is below a millisecond is lost.
pub(crate) fn write(duration: Duration) -> String {
    let duration_ms = duration.as_millis();
    let unit = UNITS
        .iter()
        .find(|(_, unit_ms)| duration_ms > 0 && duration_ms.is_multiple_of(u128::from(*unit_ms)));
    match unit {
        Some((name, unit_ms)) => format!("{}{name}", duration_ms / u128::from(*unit_ms)),
        None => "0s".to_owned(),
    }
}

/// Splits at the end of the digits; a space between number and unit belongs to neither.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    (number, unit.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        for (text, expected_ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("30 s", 30_000),
            (" 5m ", 300_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(expected_ms)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "+1s",
            "1.5s",
            "1h30m",
            "5M",
            "5 sec",
            "99999999999999999999h",
            "18446744073709551615h",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_written_duration_is_read_as_itself() {
        for text in ["0s", "1ms", "1500ms", "90s", "30m", "36h", "2d"] {
            assert_eq!(write(parse(text).unwrap()), text);
        }
    }
}
