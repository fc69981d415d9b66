//! The cursor of the extension `dev.tidegate/resume`: a place in one feed's log, as an opaque string.
//!
//! It holds which feed it is of and an event id, so that any instance can go on from it. It is no secret and not signed:
//! who changes it gets another place in the same log, and what is sent from there is filtered by the present rights.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::event_id::EventId;

/// The `_meta` key of a cursor.
pub(crate) const CURSOR_KEY: &str = "dev.tidegate/cursor";

/// The `_meta` key that says whether a listen went on where its client was.
pub(crate) const RESUMED_KEY: &str = "dev.tidegate/resumed";

/// The first byte: another form of the cursor gets another number.
const FORM: u8 = 1;

/// Which feed a place is in: 64 bits made of the name of its store, so a feed that was replaced by another one, or begun
/// anew, is told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeedIdentity(u64);

impl FeedIdentity {
    /// No feed: a cursor with it can never be gone on from.
    pub(crate) const NONE: FeedIdentity = FeedIdentity(0);

    /// Makes the identity of the feed in the store of this name, which is random text (FNV-1a, 64 bits).
    pub(crate) fn of_store(store_id: &str) -> FeedIdentity {
        let hash = store_id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        FeedIdentity(hash.max(1))
    }
}

/// A place in a feed's log: everything up to `id` was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Which feed it is of.
    pub(crate) feed: FeedIdentity,
    /// The last frame that was seen.
    pub(crate) id: EventId,
}

impl Cursor {
    /// The place of a client that missed something and was not told all of it yet: to go on from it is the same gap again.
    pub(crate) const GAP: Cursor = Cursor {
        feed: FeedIdentity::NONE,
        id: EventId::from_u64(0),
    };

    /// Returns the text for clients: 23 characters that need no escape anywhere.
    pub(crate) fn encode(self) -> String {
        let mut bytes = [FORM; 17];
        bytes[1..9].copy_from_slice(&self.feed.0.to_be_bytes());
        bytes[9..].copy_from_slice(&self.id.get().to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a client's text; `None` for anything that no server of this kind ever gave.
    pub(crate) fn decode(text: &str) -> Option<Cursor> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (form, rest) = bytes.split_first()?;
        let (feed, id) = rest.split_at_checked(8)?;
        let (feed, id) = (feed.try_into().ok()?, id.try_into().ok()?);
        (*form == FORM).then_some(Cursor {
            feed: FeedIdentity(u64::from_be_bytes(feed)),
            id: EventId::from_u64(u64::from_be_bytes(id)),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::{Cursor, EventId, FeedIdentity};

    #[test]
    fn stores_are_told_apart_and_a_gap_is_of_none() {
        let [one, other] = ["a", "b"].map(FeedIdentity::of_store);
        assert!(one != other && one != FeedIdentity::NONE);
        assert_eq!(Cursor::decode(&Cursor::GAP.encode()), Some(Cursor::GAP));
    }

    #[test]
    fn what_was_never_given_is_no_cursor() {
        let good = Cursor {
            feed: FeedIdentity::of_store("a"),
            id: EventId::from_u64(7),
        }
        .encode();
        for text in [
            "",
            "7",
            "bogus",
            "####",
            &good[1..],
            &format!("{good}A"),
            &format!("{good}="),
            &good.replacen('A', "B", 1),
        ] {
            assert_eq!(Cursor::decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_place_reads_back(store: String, id: u64) {
            let cursor = Cursor { feed: FeedIdentity::of_store(&store), id: EventId::from_u64(id) };
            let text = cursor.encode();
            assert!(text.len() == 23 && text.bytes().all(|byte| byte.is_ascii_graphic()));
            assert_eq!(Cursor::decode(&text), Some(cursor));
        }

        #[test]
        fn any_text_is_read(text: String) {
            let _ = Cursor::decode(&text);
        }
    }
}
