//! The keys by which gateways seal what clients give back; all instances have the same ones from the feed service.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

use super::client::FeedClient;
use super::error::FeedError;

/// How long the keys are used without asking again: far less than a key is accepted after its successor was made (a day).
const REFRESH_AFTER: Duration = Duration::from_secs(60 * 60);

/// How soon to ask again because of a key that is not known: another instance has a newer one, or somebody made its number up.
const UNKNOWN_AFTER: Duration = Duration::from_secs(2);

/// A key by which gateways seal.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SealingKey {
    /// Its number.
    pub(crate) id: u64,
    /// 32 random bytes.
    pub(crate) secret: [u8; 32],
}

/// The keys, fetched when they are needed first.
pub(crate) struct Keyring {
    client: FeedClient,
    /// Held only to take a copy out or to put one in.
    fetched: RwLock<Option<Fetched>>,
}

#[derive(Clone)]
struct Fetched {
    /// The newest first, one at least.
    keys: Arc<[SealingKey]>,
    at: Instant,
}

impl Keyring {
    /// Makes a keyring that has no key yet.
    pub(crate) fn new(client: FeedClient) -> Keyring {
        Keyring {
            client,
            fetched: RwLock::new(None),
        }
    }

    /// Returns the key to seal with. Waits for the feed service if the keys are old, and takes an old one if it is away.
    pub(crate) async fn newest(&self) -> Result<SealingKey, FeedError> {
        let keys = match self.known() {
            Some(fetched) if fetched.at.elapsed() < REFRESH_AFTER => fetched.keys,
            Some(fetched) => self.fetch().await.unwrap_or(fetched.keys),
            None => self.fetch().await?,
        };
        keys.first().cloned().ok_or(FeedError::Internal)
    }

    /// Finds a key by its number; asks the feed service if it is not known here.
    pub(crate) async fn find(&self, id: u64) -> Result<Option<SealingKey>, FeedError> {
        let known = self.known();
        let find = |keys: &[SealingKey]| keys.iter().find(|key| key.id == id).cloned();
        if let Some(fetched) = &known {
            let found = find(&fetched.keys);
            if found.is_some() || fetched.at.elapsed() < UNKNOWN_AFTER {
                return Ok(found);
            }
        }
        Ok(find(&self.fetch().await?))
    }

    fn known(&self) -> Option<Fetched> {
        self.fetched
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn fetch(&self) -> Result<Arc<[SealingKey]>, FeedError> {
        let keys: Arc<[SealingKey]> = self.client.read_sealing_keys().await?.into();
        let fetched = Fetched {
            keys: Arc::clone(&keys),
            at: Instant::now(),
        };
        *self.fetched.write().unwrap_or_else(PoisonError::into_inner) = Some(fetched);
        Ok(keys)
    }
}
