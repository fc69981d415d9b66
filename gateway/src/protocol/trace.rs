//! The trace that a request belongs to (W3C Trace Context, level 1, section 3.2): what ties an answer to the log.

use std::fmt;

/// The member of `_meta`, and the header, that carries the caller's trace.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// The id of a trace.
///
/// Invariant: not zero, which is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(u128);

impl TraceId {
    /// Makes an id from random bits.
    pub(crate) fn from_random(bits: u128) -> TraceId {
        TraceId(bits.max(1))
    }

    /// Reads the id in a `traceparent`; `None` if that is none, and so is to be dropped.
    pub(crate) fn read(traceparent: &str) -> Option<TraceId> {
        let mut parts = traceparent.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace = hex(parts.next()?, 32)?;
        let parent = hex(parts.next()?, 16)?;
        hex(parts.next()?, 2)?;
        // A later version may add fields; ff is none, and 00 has these four.
        let has_more = parts.next().is_some();
        (version != 0xff && (version != 0 || !has_more) && trace != 0 && parent != 0)
            .then_some(TraceId(trace))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

/// Reads exactly so many digits; only the lower case is allowed.
fn hex(digits: &str, length: usize) -> Option<u128> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != length || !digits.bytes().all(is_hex) {
        return None;
    }
    u128::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::TraceId;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn check(traceparent: &str, expected: Option<&str>) {
        let read = TraceId::read(traceparent).map(|trace| trace.to_string());
        assert_eq!(read.as_deref(), expected, "{traceparent:?}");
    }

    #[test]
    fn a_traceparent_is_read_or_dropped() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        check(VALID, Some(id));
        check(&VALID.replacen("00", "cc", 1), Some(id));
        check(&format!("{}-later", VALID.replacen("00", "cc", 1)), Some(id));
        for wrong in [
            "",
            "nonsense",
            &VALID.to_uppercase(),
            &VALID[..54],
            &format!("{VALID}-more"),
            &VALID.replacen("00", "ff", 1),
            &VALID.replacen("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32), 1),
            &VALID.replacen("00f067aa0ba902b7", &"0".repeat(16), 1),
            &VALID.replacen('4', "+", 1),
            &VALID.replacen('-', "_", 1),
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_random_id_is_never_the_one_that_is_none() {
        assert_eq!(TraceId::from_random(0).to_string(), format!("{:032x}", 1));
        assert_eq!(TraceId::from_random(u128::MAX).to_string(), "f".repeat(32));
    }
}
