//! The `requestState` of a request that needs more from its client (MCP 2026-07-28, Multi Round-Trip Requests, Server
//! Requirements): what was done so far, given to the client and taken back from it on whatever instance.
//!
//! It is encrypted, since it may hold what the client must not see, and bound to the principal, the method and its arguments.
//! It opens for ten minutes; that does not make it single-use.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};

use crate::feed::{FeedError, Keyring, SealingKey};

/// How long a client has for its answers.
const VALID_MS: i64 = 10 * 60 * 1_000;

/// The form of a state; another form gets another number.
const FORM: u8 = 1;

/// Form and number of the key.
const HEADER_BYTES: usize = 1 + 8;

/// Long enough to be random for every state (XChaCha20-Poly1305), so that no instance has to count.
const NONCE_BYTES: usize = 24;

/// Which request a state belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    /// Who asked.
    pub(super) principal: &'a str,
    /// What for.
    pub(super) method: &'a str,
    /// With which arguments: the same bytes for the same arguments.
    pub(super) arguments: &'a [u8],
}

/// Seals a state; `now_ms` is the present in milliseconds since the Unix epoch.
///
/// # Errors
/// There is no key or no randomness.
pub(super) async fn seal(
    keyring: &Keyring,
    origin: Origin<'_>,
    now_ms: i64,
    state: &[u8],
) -> Result<String, FeedError> {
    let key = keyring.newest().await?;
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|_| FeedError::Internal)?;
    seal_with(&key, nonce, origin, now_ms, state).ok_or(FeedError::Internal)
}

/// Opens a state; `None` if it is not of this request, was altered, or is older than ten minutes.
///
/// # Errors
/// Its key is not known here and the feed service cannot be asked.
pub(super) async fn open(
    keyring: &Keyring,
    origin: Origin<'_>,
    now_ms: i64,
    sealed: &str,
) -> Result<Option<Vec<u8>>, FeedError> {
    let Ok(bytes) = URL_SAFE_NO_PAD.decode(sealed) else {
        return Ok(None);
    };
    let Some(id) = key_id(&bytes) else {
        return Ok(None);
    };
    let Some(key) = keyring.find(id).await? else {
        return Ok(None);
    };
    Ok(open_with(&key, origin, now_ms, &bytes))
}

fn seal_with(
    key: &SealingKey,
    nonce: [u8; NONCE_BYTES],
    origin: Origin<'_>,
    now_ms: i64,
    state: &[u8],
) -> Option<String> {
    let mut bytes = vec![FORM];
    bytes.extend_from_slice(&key.id.to_be_bytes());
    bytes.extend_from_slice(&nonce);
    let plain = [&now_ms.saturating_add(VALID_MS).to_be_bytes(), state].concat();
    let payload = Payload {
        msg: &plain,
        aad: &origin.digest(&bytes),
    };
    let sealed = cipher(key)?.encrypt(&XNonce::from(nonce), payload).ok()?;
    bytes.extend_from_slice(&sealed);
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

fn key_id(bytes: &[u8]) -> Option<u64> {
    let header = bytes.get(..HEADER_BYTES)?;
    let (form, id) = header.split_first()?;
    (*form == FORM).then_some(u64::from_be_bytes(id.try_into().ok()?))
}

fn open_with(key: &SealingKey, origin: Origin<'_>, now_ms: i64, bytes: &[u8]) -> Option<Vec<u8>> {
    let (header, sealed) = bytes.split_at_checked(HEADER_BYTES + NONCE_BYTES)?;
    let nonce: [u8; NONCE_BYTES] = header.get(HEADER_BYTES..)?.try_into().ok()?;
    let payload = Payload {
        msg: sealed,
        aad: &origin.digest(header),
    };
    let plain = cipher(key)?.decrypt(&XNonce::from(nonce), payload).ok()?;
    let (until, state) = plain.split_at_checked(8)?;
    (now_ms < i64::from_be_bytes(until.try_into().ok()?)).then(|| state.to_vec())
}

/// A key of its own, derived from the shared one, which seals other things too.
fn cipher(key: &SealingKey) -> Option<XChaCha20Poly1305> {
    let derived = Sha256::new()
        .chain_update(b"tidegate request state")
        .chain_update(key.secret)
        .finalize();
    XChaCha20Poly1305::new_from_slice(&derived).ok()
}

impl Origin<'_> {
    /// Returns what a state is bound to; each part with its length, so that no others are the same bytes.
    fn digest(&self, header: &[u8]) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in [
            header,
            self.principal.as_bytes(),
            self.method.as_bytes(),
            self.arguments,
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin<'_> = Origin {
        principal: "alice",
        method: "tools/call",
        arguments: b"{\"name\":\"x\"}",
    };

    fn key(id: u64) -> SealingKey {
        SealingKey {
            id,
            secret: [u8::try_from(id).unwrap(); 32],
        }
    }

    #[test]
    fn b_6_8_a_request_state_opens_for_its_request_only_and_for_ten_minutes() {
        let sealed = seal_with(&key(1), [7; NONCE_BYTES], ORIGIN, 1_000, b"so far").unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&sealed).unwrap();
        let open = |origin, now_ms| open_with(&key(1), origin, now_ms, &bytes);
        assert_eq!(key_id(&bytes), Some(1));
        assert_eq!(open(ORIGIN, 1_000).as_deref(), Some(&b"so far"[..]));
        assert_eq!(open(ORIGIN, 600_999).as_deref(), Some(&b"so far"[..]));
        assert_eq!(open(ORIGIN, 601_000), None, "ten minutes are over");
        for other in [
            Origin {
                principal: "bob",
                ..ORIGIN
            },
            Origin {
                principal: "",
                ..ORIGIN
            },
            Origin {
                method: "prompts/get",
                ..ORIGIN
            },
            Origin {
                arguments: b"{\"name\":\"y\"}",
                ..ORIGIN
            },
            Origin {
                principal: "alicetools",
                method: "/call",
                ..ORIGIN
            },
        ] {
            assert_eq!(open(other, 1_000), None, "{other:?}");
        }
        assert_eq!(open_with(&key(2), ORIGIN, 1_000, &bytes), None, "another key");
        for index in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[index] ^= 1;
            assert_eq!(open_with(&key(1), ORIGIN, 1_000, &altered), None, "byte {index}");
        }
        for length in 0..bytes.len() {
            assert_eq!(
                open_with(&key(1), ORIGIN, 1_000, &bytes[..length]),
                None,
                "{length} bytes"
            );
        }
        assert!(!sealed.contains("so far"), "it is encrypted");
    }
}
