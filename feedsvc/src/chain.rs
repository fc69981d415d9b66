//! The hash chain over the log, by which a reader finds out that it stands in another history.

use sha2::{Digest, Sha256};

/// The chained hash at one revision of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainHash([u8; 32]);

impl ChainHash {
    /// Returns the hash before the first entry, which is that of the store's identity.
    pub(crate) fn genesis(store_id: &str) -> ChainHash {
        ChainHash(Sha256::digest(store_id.as_bytes()).into())
    }

    /// Returns the hash after one more entry, over exactly the bytes that the store keeps of it.
    pub(crate) fn followed_by(&self, entry: &[u8], before: Option<&[u8]>, after: Option<&[u8]>) -> ChainHash {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        for part in [Some(entry), before, after] {
            // The length in front keeps the parts apart; an absent part differs from an empty one.
            match part {
                Some(bytes) => {
                    hasher.update((bytes.len() as u64).to_be_bytes());
                    hasher.update(bytes);
                }
                None => hasher.update(u64::MAX.to_be_bytes()),
            }
        }
        ChainHash(hasher.finalize().into())
    }

    /// Takes a hash from its stored form; `None` if it does not have the length of one.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<ChainHash> {
        bytes.try_into().ok().map(ChainHash)
    }

    /// Returns the hash as it is stored and sent.
    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::ChainHash;

    #[test]
    fn the_hash_depends_on_every_part_and_on_what_was_before() {
        let genesis = ChainHash::genesis("a");
        let hashes = [
            genesis,
            ChainHash::genesis("b"),
            genesis.followed_by(b"e", None, None),
            genesis.followed_by(b"e", Some(b""), None),
            genesis.followed_by(b"e", None, Some(b"")),
            genesis.followed_by(b"", Some(b"e"), None),
            ChainHash::genesis("b").followed_by(b"e", None, None),
        ];
        for (index, hash) in hashes.iter().enumerate() {
            assert!(
                !hashes[..index].contains(hash),
                "hash {index} repeats an earlier one"
            );
        }
    }
}
