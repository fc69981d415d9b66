//! Sizes in bytes: a whole number, with a binary unit or without.

use crate::duration::split;

/// The units, the largest first.
const UNITS: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// Returns `count` KiB in bytes.
pub const fn kibibytes(count: usize) -> usize {
    count << 10
}

/// Returns `count` MiB in bytes.
pub const fn mebibytes(count: usize) -> usize {
    count << 20
}

/// Returns `count` GiB in bytes.
pub const fn gibibytes(count: usize) -> usize {
    count << 30
}

/// Reads `64 MiB`, `64MiB`, `1048576`.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    if number.is_empty() {
        return Err("it is not a whole number of bytes, KiB, MiB, GiB or TiB".to_owned());
    }
    let unit_bytes = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, unit_bytes)) => *unit_bytes,
        None if unit.is_empty() => 1,
        None => return Err(no_unit(unit)),
    };
    let bytes = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit_bytes));
    bytes.ok_or_else(|| "it is more than a size can be".to_owned())
}

/// A thousand or 1,024: who writes MB may mean either, so neither is taken.
fn no_unit(unit: &str) -> String {
    let first = unit.chars().next().map(|letter| letter.to_ascii_uppercase());
    let meant = UNITS
        .iter()
        .find(|(name, _)| unit.len() <= 3 && name.chars().next() == first);
    match meant {
        Some((name, _)) => format!("`{unit}` is no unit of size, did you mean {name}?"),
        None => format!("`{unit}` is no unit of size (B, KiB, MiB, GiB, TiB)"),
    }
}

/// Writes a size in the largest unit that divides it.
pub(crate) fn write(bytes: u64) -> String {
    let unit = UNITS
        .iter()
        .find(|(_, unit_bytes)| bytes > 0 && bytes.is_multiple_of(*unit_bytes));
    match unit {
        Some((name, unit_bytes)) => format!("{} {name}", bytes / unit_bytes),
        None => "0 B".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_binary_unit_or_none() {
        for (text, expected) in [
            ("0", 0),
            ("1048576", 1_048_576),
            ("64 MiB", 67_108_864),
            ("64MiB", 67_108_864),
            ("1 KiB", 1_024),
            ("2GiB", 2 << 30),
            ("1TiB", 1 << 40),
            ("7 B", 7),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "MiB",
            "-1",
            "1.5 MiB",
            "64 MB",
            "64 mib",
            "1_000",
            "99999999999999999999",
            "18446744073709551615 KiB",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(
            parse("64 mb"),
            Err("`mb` is no unit of size, did you mean MiB?".to_owned())
        );
    }

    #[test]
    fn a_written_size_is_read_as_itself() {
        for bytes in [0, 1, 1_023, 1_024, 1_536, 67_108_864, 67_108_865, 1 << 40] {
            assert_eq!(parse(&write(bytes)), Ok(bytes));
        }
    }
}
