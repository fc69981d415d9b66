//! Cursors: the position at which the next page begins, signed together with the search that it belongs to.
//!
//! A cursor is base64url of: version, number of the sealing key, length of the first step, position, tag. The tag covers all of it and
//! the query, so a cursor that was altered, or belongs to another search, is none. The keys are those by which gateways seal too (keys.proto); each
//! purpose derives its own from them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::position::Position;
use crate::store::SealingKey;

/// The form of a cursor; another form gets another number.
const VERSION: u8 = 2;
/// Version, number of the key, length of the first step.
const HEADER_BYTES: usize = 1 + 8 + 4;
/// 128 bits cannot be guessed.
const TAG_BYTES: usize = 16;
/// What the key for these tags is derived by, which sets it apart from those of other purposes.
const PURPOSE: &[u8] = b"tidegate search cursor";

/// What a cursor is bound to: store, table, condition, order and principal, hashed.
pub(crate) type Fingerprint = [u8; 32];

/// The keys that seal cursors.
#[derive(Debug)]
pub(crate) struct CursorSeal {
    /// The newest first, which seals; all are accepted.
    keys: Vec<SealingKey>,
}

/// The text is no cursor of this search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidCursor;

impl CursorSeal {
    /// Takes the sealing keys of a store, the newest first.
    pub(crate) fn new(keys: Vec<SealingKey>) -> CursorSeal {
        CursorSeal { keys }
    }

    /// Returns when the key was made that seals; `None` if there is none.
    pub(crate) fn newest_made_ms(&self) -> Option<i64> {
        self.keys.first().map(|key| key.made_ms)
    }

    /// Returns the cursor of a position; `None` if there is no key to seal with.
    pub(crate) fn seal(&self, position: &Position, fingerprint: &Fingerprint) -> Option<String> {
        let key = self.keys.first()?;
        let first_length = u32::try_from(position.first_length).ok()?;
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&key.id.to_be_bytes());
        bytes.extend_from_slice(&first_length.to_be_bytes());
        bytes.extend_from_slice(&position.bytes);
        let tag = mac(key, fingerprint, &bytes)?.finalize().into_bytes();
        bytes.extend_from_slice(tag.get(..TAG_BYTES)?);
        Some(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Returns the position of a cursor.
    ///
    /// # Errors
    /// This seal did not make it for this search.
    pub(crate) fn open(&self, cursor: &str, fingerprint: &Fingerprint) -> Result<Position, InvalidCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| InvalidCursor)?;
        let split = bytes.len().checked_sub(TAG_BYTES).ok_or(InvalidCursor)?;
        let (signed, tag) = bytes.split_at(split);
        let (header, position) = signed.split_at_checked(HEADER_BYTES).ok_or(InvalidCursor)?;
        let [version, numbers @ ..] = header else {
            return Err(InvalidCursor);
        };
        let (id, first_length) = numbers.split_at_checked(8).ok_or(InvalidCursor)?;
        let id = i64::from_be_bytes(id.try_into().map_err(|_| InvalidCursor)?);
        let first_length = u32::from_be_bytes(first_length.try_into().map_err(|_| InvalidCursor)?);
        let key = self.keys.iter().find(|key| key.id == id);
        let (VERSION, Some(key)) = (*version, key) else {
            return Err(InvalidCursor);
        };
        mac(key, fingerprint, signed)
            .ok_or(InvalidCursor)?
            .verify_truncated_left(tag)
            .map_err(|_| InvalidCursor)?;
        Ok(Position {
            bytes: position.to_vec(),
            first_length: usize::try_from(first_length).map_err(|_| InvalidCursor)?,
        })
    }
}

fn mac(key: &SealingKey, fingerprint: &Fingerprint, bytes: &[u8]) -> Option<Hmac<Sha256>> {
    let mut derivation = <Hmac<Sha256> as KeyInit>::new_from_slice(&key.secret).ok()?;
    derivation.update(PURPOSE);
    let derived = derivation.finalize().into_bytes();
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&derived).ok()?;
    mac.update(fingerprint);
    mac.update(bytes);
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::{CursorSeal, InvalidCursor};
    use crate::search::position::Position;
    use crate::store::SealingKey;

    fn key(id: i64) -> SealingKey {
        SealingKey {
            id,
            secret: vec![u8::try_from(id).unwrap(); 32],
            made_ms: 0,
        }
    }

    #[test]
    fn a_cursor_is_of_one_search_and_unaltered() {
        let seal = CursorSeal::new(vec![key(1)]);
        let position = Position {
            bytes: b"where".to_vec(),
            first_length: 3,
        };
        let cursor = seal.seal(&position, &[7; 32]).unwrap();
        assert_eq!(seal.open(&cursor, &[7; 32]), Ok(position.clone()));
        assert_eq!(seal.open(&cursor, &[8; 32]), Err(InvalidCursor));
        for index in 0..cursor.len() {
            let mut altered = cursor.clone().into_bytes();
            altered[index] = if altered[index] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).unwrap();
            assert_eq!(seal.open(&altered, &[7; 32]), Err(InvalidCursor), "{altered}");
            assert_eq!(seal.open(&cursor[..index], &[7; 32]), Err(InvalidCursor));
        }
        for other in ["", "x", "not base64!", &"A".repeat(100)] {
            assert_eq!(seal.open(other, &[7; 32]), Err(InvalidCursor), "{other}");
        }
    }

    #[test]
    fn keys_can_be_replaced() {
        let position = Position::default();
        let old = CursorSeal::new(vec![key(1)]).seal(&position, &[0; 32]).unwrap();
        let both = CursorSeal::new(vec![key(2), key(1)]);
        assert_eq!(both.open(&old, &[0; 32]), Ok(position.clone()));
        let new = both.seal(&position, &[0; 32]).unwrap();
        let only_new = CursorSeal::new(vec![key(2)]);
        assert_eq!(only_new.open(&new, &[0; 32]), Ok(position));
        assert_eq!(only_new.open(&old, &[0; 32]), Err(InvalidCursor));
    }
}
