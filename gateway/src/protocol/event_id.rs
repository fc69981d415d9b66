//! The ids of a GET stream's frames, and what a client may send back as `Last-Event-ID`.

use std::fmt;

/// The kind of frame that a revision caused; it makes ids of one revision different, and orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
#[cfg_attr(
    not(test),
    expect(
        dead_code,
        reason = "the slots are complete from the first day, since clients keep ids; some have no frame yet"
    )
)]
pub(crate) enum Slot {
    /// `resources/updated` for the table's URI.
    Table = 0,
    /// `resources/updated` for the record's URI.
    Record = 1,
    /// `tools/list_changed`.
    ToolsListChanged = 2,
    /// `resources/list_changed`.
    ResourcesListChanged = 3,
    /// `prompts/list_changed`.
    PromptsListChanged = 4,
    /// `resources/updated` for a custom URI.
    CustomUri = 5,
    /// The opening block of a stream, at the open's own revision.
    Opening = 6,
    /// A bookmark: all of this revision and before is written.
    Bookmark = u16::MAX,
}

/// The id of a frame of the GET stream: `revision << 16 | slot`, written in decimal.
///
/// A client may send any number back, so an id that was read need not be one that was ever sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EventId(u64);

impl EventId {
    const SLOT_BITS: u32 = 16;
    const REVISION_MAX: u64 = u64::MAX >> EventId::SLOT_BITS;

    /// Makes the id of a frame. Revisions from 2^48 on count as 2^48 - 1: at a million changes a second that is nine
    /// years away, and an id that stands still is a gap told too often, where one that wraps around is a loss.
    pub(crate) const fn new(revision: u64, slot: Slot) -> EventId {
        let revision = if revision > EventId::REVISION_MAX {
            EventId::REVISION_MAX
        } else {
            revision
        };
        EventId(revision << EventId::SLOT_BITS | slot as u64)
    }

    /// Takes a number that was an id before, for example as a stored cursor.
    pub(crate) const fn from_u64(number: u64) -> EventId {
        EventId(number)
    }

    /// Returns the number.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number of the slot, which need be none of [`Slot`].
    pub(crate) const fn slot(self) -> u64 {
        self.0 & ((1 << EventId::SLOT_BITS) - 1)
    }

    /// Returns the revision of what caused the frame.
    pub(crate) const fn revision(self) -> u64 {
        self.0 >> EventId::SLOT_BITS
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What a `Last-Event-ID` header says (rules B-4.3 and B-4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastEventId {
    /// There is none, or it is empty.
    Absent,
    /// A cursor into the GET stream.
    Id(EventId),
    /// A number above u64, so ahead of everything: a gap.
    AboveRange,
    /// Anything that no stream of this server ever sent.
    NotANumber,
    /// The id of a POST stream, `p<instance>.<stream>.<n>`; it has nothing to say about the GET stream.
    PostStream,
}

impl LastEventId {
    /// Reads the header's bytes; any bytes have a meaning.
    pub(crate) fn read(header: Option<&[u8]>) -> LastEventId {
        match header.map_or(&b""[..], <[u8]>::trim_ascii) {
            b"" => LastEventId::Absent,
            digits if digits.iter().all(u8::is_ascii_digit) => LastEventId::read_number(digits),
            [b'p', rest @ ..] if is_post_stream(rest) => LastEventId::PostStream,
            _ => LastEventId::NotANumber,
        }
    }

    /// Leading zeros do not make a number large.
    fn read_number(digits: &[u8]) -> LastEventId {
        let number = digits.iter().try_fold(0u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        });
        number.map_or(LastEventId::AboveRange, |number| LastEventId::Id(EventId(number)))
    }
}

/// Returns the instance that sent the id of a POST stream.
pub(crate) fn post_stream_instance(header: Option<&[u8]>) -> Option<&str> {
    let id = std::str::from_utf8(header?.trim_ascii())
        .ok()?
        .strip_prefix('p')?;
    is_post_stream(id.as_bytes()).then(|| id.split('.').next())?
}

/// Looks at what follows the `p`: instance and stream are words, the last part is a number.
fn is_post_stream(rest: &[u8]) -> bool {
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let is_word = |part: &[u8]| {
        !part.is_empty()
            && part
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let mut parts = rest.split(|byte| *byte == b'.');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(instance), Some(stream), Some(number), None) => {
            is_word(instance) && is_word(stream) && is_number(number)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;
    use proptest::sample::select;

    use super::{EventId, LastEventId, Slot};

    const SLOTS: [Slot; 8] = [
        Slot::Table,
        Slot::Record,
        Slot::ToolsListChanged,
        Slot::ResourcesListChanged,
        Slot::PromptsListChanged,
        Slot::CustomUri,
        Slot::Opening,
        Slot::Bookmark,
    ];

    #[test]
    fn an_id_is_the_revision_and_the_slot() {
        let cases = [
            (0, Slot::Table, 0),
            (1, Slot::Table, 65_536),
            (1, Slot::Record, 65_537),
            (1, Slot::Opening, 65_542),
            (1, Slot::Bookmark, 131_071),
            ((1 << 48) - 1, Slot::Bookmark, u64::MAX),
            (1 << 48, Slot::Table, u64::MAX << 16),
            (u64::MAX, Slot::Bookmark, u64::MAX),
        ];
        for (revision, slot, expected) in cases {
            let id = EventId::new(revision, slot);
            assert_eq!((id.get(), id.to_string()), (expected, expected.to_string()));
        }
    }

    fn check(header: &[u8], expected: LastEventId) {
        assert_eq!(
            LastEventId::read(Some(header)),
            expected,
            "{}",
            header.escape_ascii()
        );
    }

    #[test]
    fn field_case_a02_any_last_event_id_has_a_meaning() {
        let id = |number| LastEventId::Id(EventId::from_u64(number));
        assert_eq!(LastEventId::read(None), LastEventId::Absent);
        check(b"", LastEventId::Absent);
        check(b" \t", LastEventId::Absent);
        check(b"0", id(0));
        check(b" 65537 ", id(65_537));
        check(b"0000000000000000000000000000000000065537", id(65_537));
        check(b"18446744073709551615", id(u64::MAX));
        check(b"18446744073709551616", LastEventId::AboveRange);
        check(&[b'9'; 4_000], LastEventId::AboveRange);
        check(&[b'0'; 4_000], id(0));
        for header in [
            "zz-404", "-1", "+1", "1.0", "1e3", "0x10", "1 2", "1,2", "1\0", "１", "p", "p.", "p..", "p1.2",
            "p.2.3", "p1..3", "p1.2.", "p1.2.3.4", "p1.2.x", "P1.2.3", "p1.2.-3", "pü.2.3",
        ] {
            check(header.as_bytes(), LastEventId::NotANumber);
        }
        check(b"\xc3\x28", LastEventId::NotANumber);
        for header in ["p1.2.3", "p9f86d081.17.0", "pa-b_c.x.99999999999999999999999"] {
            check(header.as_bytes(), LastEventId::PostStream);
        }
    }

    proptest! {
        #[test]
        fn ids_come_back_and_rise_by_revision_and_slot(
            first in (0u64..1 << 48, select(&SLOTS[..])),
            second in (0u64..1 << 48, select(&SLOTS[..])),
        ) {
            let id = EventId::new(first.0, first.1);
            assert_eq!(id.revision(), first.0);
            assert_eq!(LastEventId::read(Some(id.to_string().as_bytes())), LastEventId::Id(id));
            assert_eq!(id.cmp(&EventId::new(second.0, second.1)), first.cmp(&second));
        }

        #[test]
        fn numbers_are_read_as_the_standard_library_does(digits in "[0-9]{1,24}") {
            let number = digits.parse().map(|number| LastEventId::Id(EventId::from_u64(number)));
            check(digits.as_bytes(), number.unwrap_or(LastEventId::AboveRange));
        }

        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            LastEventId::read(Some(&bytes));
        }
    }
}
