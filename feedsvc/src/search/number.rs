//! Numbers as bytes: of two JSON numbers, the lower one has the lower bytes, and equal ones have the same.
//!
//! A number that is not zero is ±0.d₁d₂d₃… × 10ᵉ with d₁ and the last digit not 0, in one way only. Its bytes are the
//! sign, then e, then two digits to a byte; all but the sign inverted for a negative number. Digits and e may have any
//! length, so nothing is rounded and nothing overflows. No number's bytes are the beginning of another's.

use std::cmp::Ordering;

/// The first byte of a number; all below strings and above booleans (`sort_key`).
pub(super) const NEGATIVE: u8 = 0x30;
pub(super) const ZERO: u8 = 0x31;
pub(super) const POSITIVE: u8 = 0x32;

/// Exponents in this range take one byte, in the order of their values: the usual numbers.
const SHORT_EXPONENTS: std::ops::RangeInclusive<i64> = -124..=125;
/// What is added to a short exponent to make its byte: 3 to 252.
const SHORT_EXPONENT_BASE: i64 = 127;
const HUGE_BELOW: u8 = 0x01;
const LONG_BELOW: u8 = 0x02;
const LONG_ABOVE: u8 = 0xfd;
const HUGE_ABOVE: u8 = 0xfe;
/// Exponents of up to so many digits are counted as `i64`, with room for what the position of the point adds.
const LONG_EXPONENT_DIGITS: usize = 18;

/// Appends a number's bytes. The text must be a JSON number.
pub(super) fn encode_number(text: &str, out: &mut Vec<u8>) {
    let (is_negative, magnitude) = match text.strip_prefix('-') {
        Some(magnitude) => (true, magnitude),
        None => (false, text),
    };
    let (mantissa, exponent) = magnitude.split_once(['e', 'E']).unwrap_or((magnitude, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let leading_zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    if leading_zeros == digits.len() {
        out.push(ZERO);
        return;
    }
    digits.drain(..leading_zeros);
    while digits.last() == Some(&b'0') {
        digits.pop();
    }

    out.push(if is_negative { NEGATIVE } else { POSITIVE });
    let start = out.len();
    encode_exponent(exponent, whole.len(), leading_zeros, out);
    for pair in digits.chunks(2) {
        let first = pair[0] - b'0';
        let second = pair.get(1).map_or(0, |digit| digit - b'0');
        // Never 0, which ends the digits: what goes on is higher than what has ended.
        out.push(first * 10 + second + 1);
    }
    out.push(0);
    if is_negative {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

/// Appends the exponent that the number has when its first digit that is not 0 stands right behind the point.
fn encode_exponent(written: &str, whole_digits: usize, leading_zeros: usize, out: &mut Vec<u8>) {
    // Both are lengths of texts that are in memory.
    let shift =
        i64::try_from(whole_digits).unwrap_or(i64::MAX) - i64::try_from(leading_zeros).unwrap_or(i64::MAX);
    let (is_negative, digits) = match written.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, written.strip_prefix('+').unwrap_or(written)),
    };
    let digits = digits.trim_start_matches('0');
    if digits.len() <= LONG_EXPONENT_DIGITS {
        let magnitude: i64 = digits.parse().unwrap_or(0);
        let exponent = if is_negative { -magnitude } else { magnitude } + shift;
        return encode_long_exponent(exponent, out);
    }
    let is_shift_outwards = is_negative == (shift < 0);
    let moved = if is_shift_outwards {
        add_small(digits, shift.unsigned_abs())
    } else {
        subtract_small(digits, shift.unsigned_abs())
    };
    match moved.parse::<i64>() {
        Ok(magnitude) if moved.len() <= LONG_EXPONENT_DIGITS => {
            encode_long_exponent(if is_negative { -magnitude } else { magnitude }, out);
        }
        Ok(_) | Err(_) => encode_huge_exponent(is_negative, &moved, out),
    }
}

fn encode_long_exponent(exponent: i64, out: &mut Vec<u8>) {
    let magnitude = exponent.unsigned_abs().to_string();
    if magnitude.len() > LONG_EXPONENT_DIGITS {
        return encode_huge_exponent(exponent < 0, &magnitude, out);
    }
    let byte = SHORT_EXPONENTS
        .contains(&exponent)
        .then(|| u8::try_from(exponent + SHORT_EXPONENT_BASE).ok())
        .flatten();
    match (byte, exponent.cmp(&0)) {
        (Some(byte), _) => out.push(byte),
        (None, side) => {
            out.push(if side == Ordering::Less {
                LONG_BELOW
            } else {
                LONG_ABOVE
            });
            // Numbers of one sign in two's complement have the order of their bytes.
            out.extend_from_slice(&exponent.to_be_bytes());
        }
    }
}

/// The longer exponent is further from zero, and of two equally long ones the one with the higher digits.
fn encode_huge_exponent(is_negative: bool, digits: &str, out: &mut Vec<u8>) {
    out.push(if is_negative { HUGE_BELOW } else { HUGE_ABOVE });
    let start = out.len();
    out.extend_from_slice(&(digits.len() as u64).to_be_bytes());
    out.extend_from_slice(digits.as_bytes());
    if is_negative {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

/// Adds to a whole number in decimal digits.
fn add_small(digits: &str, mut addend: u64) -> String {
    let mut sum: Vec<u8> = digits.bytes().collect();
    for digit in sum.iter_mut().rev() {
        let place = u64::from(*digit - b'0') + addend % 10;
        addend = addend / 10 + place / 10;
        *digit = digit_of(place % 10);
    }
    let mut text = if addend > 0 {
        addend.to_string()
    } else {
        String::new()
    };
    text.extend(sum.into_iter().map(char::from));
    text
}

/// Subtracts from a whole number in decimal digits, which is larger; the result has no leading zeros.
fn subtract_small(digits: &str, mut subtrahend: u64) -> String {
    let mut difference: Vec<u8> = digits.bytes().collect();
    for digit in difference.iter_mut().rev() {
        let place = u64::from(*digit - b'0') + 10 - subtrahend % 10;
        subtrahend = subtrahend / 10 + u64::from(place < 10);
        *digit = digit_of(place % 10);
    }
    let text: String = difference.into_iter().map(char::from).collect();
    text.trim_start_matches('0').to_owned()
}

fn digit_of(value: u64) -> u8 {
    b'0' + u8::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::encode_number;

    fn encoded(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_number(text, &mut bytes);
        bytes
    }

    #[test]
    fn one_number_has_one_form_whatever_its_digits() {
        for equal in [
            &["0", "-0", "0.0", "0e5", "-0.000e-7"][..],
            &["1", "1.0", "1e0", "10e-1", "0.1e1", "1E+00"],
            &["100", "1e2", "1.00e+2", "0.001e5"],
            &["-12.5", "-125e-1", "-0.0125e3"],
            &[
                "1e1000000000000000000",
                "10e999999999999999999",
                "0.1e1000000000000000001",
            ],
            &["1e-1000000000000000000", "0.01e-999999999999999998"],
            &[
                "1e100000000000000000000000000000",
                "100e99999999999999999999999999998",
            ],
            &["1e99999999999999999", "0.01e100000000000000001"],
        ] {
            for text in equal {
                assert_eq!(encoded(text), encoded(equal[0]), "{text}");
            }
        }
    }

    #[test]
    fn numbers_have_the_order_of_their_values() {
        let rising = [
            "-1e1000000000000000000000",
            "-1e1000000000000000000",
            "-1e999999999999999998",
            "-1e400",
            "-126e124",
            "-18446744073709551616",
            "-18446744073709551615",
            "-2",
            "-1.5",
            "-1.49999999999999999999999999999999999999999",
            "-1",
            "-1e-400",
            "-1e-1000000000000000000000",
            "0",
            "1e-1000000000000000000000",
            "1e-1000000000000000000",
            "1e-999999999999999998",
            "1e-400",
            "0.1",
            "0.10000000000000000000000000000000000000000000001",
            "0.11",
            "0.9",
            "1",
            "9",
            "10",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551615",
            "18446744073709551616",
            "1e125",
            "1e126",
            "1e400",
            "1e999999999999999998",
            "1e1000000000000000000",
            "1.5e1000000000000000000",
            "1e1000000000000000000000",
        ];
        for (index, lower) in rising.iter().enumerate() {
            for higher in &rising[index + 1..] {
                assert!(encoded(lower) < encoded(higher), "{lower} {higher}");
            }
        }
    }

    /// A number as it is written, with the exact value: `mantissa` × 10^`exponent`.
    fn written() -> impl Strategy<Value = (String, i128, i32)> {
        (-999_999_999_999_i64..=999_999_999_999, 0_usize..8, -6_i32..6).prop_map(
            |(mantissa, decimals, exponent)| {
                let digits = format!("{:0width$}", mantissa.unsigned_abs(), width = decimals + 1);
                let (whole, fraction) = digits.split_at(digits.len() - decimals);
                let sign = if mantissa < 0 { "-" } else { "" };
                let point = if fraction.is_empty() { "" } else { "." };
                let text = format!("{sign}{whole}{point}{fraction}e{exponent}");
                (
                    text,
                    i128::from(mantissa),
                    exponent - i32::try_from(decimals).unwrap(),
                )
            },
        )
    }

    /// Both values scaled to one exponent, as whole numbers.
    fn compare(left: (i128, i32), right: (i128, i32)) -> Ordering {
        let lowest = left.1.min(right.1);
        let scaled = |(mantissa, exponent): (i128, i32)| {
            mantissa * 10_i128.pow(u32::try_from(exponent - lowest).unwrap())
        };
        scaled(left).cmp(&scaled(right))
    }

    proptest! {
        #[test]
        fn bytes_compare_as_exact_arithmetic_does(left in written(), right in written()) {
            prop_assert_eq!(
                encoded(&left.0).cmp(&encoded(&right.0)),
                compare((left.1, left.2), (right.1, right.2)),
                "{} {}", left.0, right.0
            );
        }
    }
}
