//! Text that is given to a client and taken back from it, on whatever instance: signed, and bound to who got it and for what.
//!
//! A key of the feed service is never used itself: each purpose has a key that is derived from it (HMAC-SHA-256 of the purpose).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::feed::{FeedError, Keyring, SealingKey};

/// The form of a sealed text; another form gets another number.
const FORM: u8 = 1;

/// Form and number of the key.
const HEADER_BYTES: usize = 1 + 8;

/// 128 bits cannot be guessed.
const TAG_BYTES: usize = 16;

/// What a text is bound to; it opens with the same values only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding<'a> {
    /// What it is for.
    pub(super) purpose: &'a str,
    /// To whom it was given.
    pub(super) principal: &'a str,
}

/// Seals a text.
///
/// # Errors
/// There is no key, because the feed service was never reached.
pub(super) async fn seal(keyring: &Keyring, binding: Binding<'_>, text: &str) -> Result<String, FeedError> {
    let key = keyring.newest().await?;
    seal_with(&key, binding, text).ok_or(FeedError::Internal)
}

/// Opens a sealed text; `None` if it was not sealed for this, was altered, or is too old.
///
/// # Errors
/// Its key is not known here and the feed service cannot be asked.
pub(super) async fn open(
    keyring: &Keyring,
    binding: Binding<'_>,
    sealed: &str,
) -> Result<Option<String>, FeedError> {
    let Some(bytes) = read(sealed) else {
        return Ok(None);
    };
    let Some(key) = keyring.find(key_id(&bytes)).await? else {
        return Ok(None);
    };
    Ok(open_with(&key, binding, &bytes))
}

fn seal_with(key: &SealingKey, binding: Binding<'_>, text: &str) -> Option<String> {
    let mut bytes = vec![FORM];
    bytes.extend_from_slice(&key.id.to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    let tag = mac(key, binding, &bytes)?.finalize().into_bytes();
    bytes.extend_from_slice(tag.get(..TAG_BYTES)?);
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// Reads the bytes of something that may be a sealed text.
fn read(sealed: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
    (bytes.first() == Some(&FORM) && bytes.len() >= HEADER_BYTES + TAG_BYTES).then_some(bytes)
}

fn key_id(bytes: &[u8]) -> u64 {
    bytes
        .get(1..HEADER_BYTES)
        .and_then(|id| id.try_into().ok())
        .map_or(0, u64::from_be_bytes)
}

fn open_with(key: &SealingKey, binding: Binding<'_>, bytes: &[u8]) -> Option<String> {
    let (signed, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG_BYTES)?)?;
    mac(key, binding, signed)?.verify_truncated_left(tag).ok()?;
    String::from_utf8(signed.get(HEADER_BYTES..)?.to_vec()).ok()
}

fn mac(key: &SealingKey, binding: Binding<'_>, bytes: &[u8]) -> Option<Hmac<Sha256>> {
    let mut derived = <Hmac<Sha256> as KeyInit>::new_from_slice(&key.secret).ok()?;
    derived.update(b"tidegate ");
    derived.update(binding.purpose.as_bytes());
    let derived = derived.finalize().into_bytes();
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&derived).ok()?;
    // With its length, so that no other principal and text are the same bytes.
    mac.update(&u64::try_from(binding.principal.len()).ok()?.to_be_bytes());
    mac.update(binding.principal.as_bytes());
    mac.update(bytes);
    Some(mac)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::*;

    fn key(id: u64) -> SealingKey {
        SealingKey {
            id,
            secret: [u8::try_from(id).unwrap(); 32],
        }
    }

    const BINDING: Binding<'_> = Binding {
        purpose: "list",
        principal: "alice",
    };

    #[test]
    fn a_text_opens_for_whom_and_what_it_was_sealed_and_unaltered() {
        let sealed = seal_with(&key(1), BINDING, "where").unwrap();
        let bytes = read(&sealed).unwrap();
        assert_eq!(key_id(&bytes), 1);
        assert_eq!(open_with(&key(1), BINDING, &bytes).as_deref(), Some("where"));
        assert_eq!(open_with(&key(2), BINDING, &bytes), None);
        assert_eq!(
            open_with(
                &key(1),
                Binding {
                    purpose: "other",
                    ..BINDING
                },
                &bytes
            ),
            None
        );
        assert_eq!(
            open_with(
                &key(1),
                Binding {
                    principal: "",
                    ..BINDING
                },
                &bytes
            ),
            None
        );
        for index in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[index] ^= 1;
            assert_eq!(open_with(&key(1), BINDING, &altered), None, "byte {index}");
        }
        assert_eq!(read("bogus"), None);
        assert_eq!(read(""), None);
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text: String, principal: String) {
            let binding = Binding { purpose: "list", principal: &principal };
            let sealed = seal_with(&key(7), binding, &text).unwrap();
            assert_eq!(open_with(&key(7), binding, &read(&sealed).unwrap()), Some(text));
        }
    }
}
