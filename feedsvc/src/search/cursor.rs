//! Cursors: the position at which the next page begins, signed together with the search that it belongs to.
//!
//! A cursor is base64url of: version, number of the secret, length of the first step, position, tag. The tag covers all of it and
//! the query, so a cursor that was altered, or belongs to another search, is none.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::position::Position;

/// The form of a cursor; another form gets another number.
const VERSION: u8 = 1;
/// Version, number of the secret, length of the first step.
const HEADER_BYTES: usize = 1 + 8 + 4;
/// 128 bits cannot be guessed.
const TAG_BYTES: usize = 16;
/// What sets these tags apart from others that may be made with the same secrets.
const PURPOSE: &[u8] = b"tidegate search cursor";

/// What a cursor is bound to: table, condition, order and principal, hashed.
pub(crate) type Fingerprint = [u8; 32];

/// A secret that signs cursors, with its number.
#[derive(Clone)]
pub(crate) struct CursorSecret {
    pub(crate) id: i64,
    pub(crate) secret: Vec<u8>,
}

/// The secrets of a store.
pub(crate) struct CursorSeal {
    /// By rising number; the last one signs, all are accepted.
    secrets: Vec<CursorSecret>,
}

/// The text is no cursor of this search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidCursor;

impl CursorSeal {
    /// Takes the secrets of a store, by rising number.
    pub(crate) fn new(secrets: Vec<CursorSecret>) -> CursorSeal {
        CursorSeal { secrets }
    }

    /// Returns the cursor of a position; `None` if there is no secret to sign with.
    pub(crate) fn seal(&self, position: &Position, fingerprint: &Fingerprint) -> Option<String> {
        let secret = self.secrets.last()?;
        let first_length = u32::try_from(position.first_length).ok()?;
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&secret.id.to_be_bytes());
        bytes.extend_from_slice(&first_length.to_be_bytes());
        bytes.extend_from_slice(&position.bytes);
        let tag = mac(secret, fingerprint, &bytes)?.finalize().into_bytes();
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
        let secret = self.secrets.iter().find(|secret| secret.id == id);
        let (VERSION, Some(secret)) = (*version, secret) else {
            return Err(InvalidCursor);
        };
        mac(secret, fingerprint, signed)
            .ok_or(InvalidCursor)?
            .verify_truncated_left(tag)
            .map_err(|_| InvalidCursor)?;
        Ok(Position {
            bytes: position.to_vec(),
            first_length: usize::try_from(first_length).map_err(|_| InvalidCursor)?,
        })
    }
}

fn mac(secret: &CursorSecret, fingerprint: &Fingerprint, bytes: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&secret.secret).ok()?;
    mac.update(PURPOSE);
    mac.update(fingerprint);
    mac.update(bytes);
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::{CursorSeal, CursorSecret, InvalidCursor};
    use crate::search::position::Position;

    fn secret(id: i64) -> CursorSecret {
        CursorSecret {
            id,
            secret: vec![u8::try_from(id).unwrap(); 32],
        }
    }

    #[test]
    fn a_cursor_is_of_one_search_and_unaltered() {
        let seal = CursorSeal::new(vec![secret(1)]);
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
    fn secrets_can_be_replaced() {
        let position = Position::default();
        let old = CursorSeal::new(vec![secret(1)])
            .seal(&position, &[0; 32])
            .unwrap();
        let both = CursorSeal::new(vec![secret(1), secret(2)]);
        assert_eq!(both.open(&old, &[0; 32]), Ok(position.clone()));
        let new = both.seal(&position, &[0; 32]).unwrap();
        let only_new = CursorSeal::new(vec![secret(2)]);
        assert_eq!(only_new.open(&new, &[0; 32]), Ok(position));
        assert_eq!(only_new.open(&old, &[0; 32]), Err(InvalidCursor));
    }
}
