//! The calls of `feed.v1.Keys`.

use std::sync::Arc;

use proto::feed::v1::server::keys_server::Keys as KeysService;
use proto::feed::v1::{GetSealingKeysRequest, GetSealingKeysResponse, SealingKey as SealingKeyMessage};
use tonic::{Request, Response, Status};

use super::request::admit;
use super::status::status;
use crate::access::{Action, Object};
use crate::clock::duration_ms;
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::store::SealingKey;

/// The service behind the calls.
pub(super) struct KeysApi {
    feed: Arc<Feed>,
}

impl KeysApi {
    pub(super) fn new(feed: Arc<Feed>) -> KeysApi {
        KeysApi { feed }
    }

    async fn get_sealing_keys(
        &self,
        request: GetSealingKeysRequest,
    ) -> Result<GetSealingKeysResponse, Refusal> {
        // Who has them can make what a gateway takes for its own: as much as writing everything.
        admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Write,
            Object::Feed,
        )?;
        let rotate_after_ms = duration_ms(self.feed.limits.sealing_key_age);
        let keys = self.feed.pipeline.sealing_keys(rotate_after_ms).await?;
        Ok(GetSealingKeysResponse {
            keys: keys.into_iter().map(key_message).collect(),
        })
    }
}

fn key_message(key: SealingKey) -> SealingKeyMessage {
    SealingKeyMessage {
        id: key.id.cast_unsigned(),
        secret: key.secret.into(),
        made_ms: key.made_ms,
    }
}

#[tonic::async_trait]
impl KeysService for KeysApi {
    async fn get_sealing_keys(
        &self,
        request: Request<GetSealingKeysRequest>,
    ) -> Result<Response<GetSealingKeysResponse>, Status> {
        KeysApi::get_sealing_keys(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }
}
