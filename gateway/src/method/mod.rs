//! What each MCP method does, for one request of one session, or of the modern era ([`modern`]).
//!
//! A method knows the feed and the shapes of the wire, not the transport and not the session layer: what has to happen
//! to the session's stream it returns as an [`Effect`].

mod completion;
mod failure;
mod lists;
mod logging;
pub(crate) mod modern;
mod page;
mod record;
#[allow(dead_code, reason = "no method that is served asks its client for more yet")]
mod request_state;
mod resources;
mod seal;
mod subscriptions;
mod synthetic;

use std::sync::Arc;

use serde::Serialize;

pub(crate) use failure::Failure;
pub(crate) use modern::CacheHints;
pub(crate) use record::{RecordFailure, Records};

use crate::feed::{Catalog, FeedClient, Keyring};
use crate::protocol::answer;
use crate::protocol::complete;
use crate::protocol::cursor::FeedIdentity;
use crate::protocol::error::RpcError;
use crate::protocol::mcp::{About, EmptyResult};
use crate::protocol::message::{Request, RequestId};
use crate::protocol::trace::TraceId;

/// Who calls, in which session, and with what a method works.
pub(crate) struct Call<'a> {
    /// The feed service.
    pub(crate) feed: &'a FeedClient,
    /// The keys by which texts are sealed.
    pub(crate) keyring: &'a Keyring,
    /// Which feed that is, as of before the call.
    pub(crate) identity: FeedIdentity,
    /// A revision that `catalog` reflects, with all before.
    pub(crate) head: u64,
    /// The exported tables.
    pub(crate) catalog: Arc<Catalog>,
    /// The host and port that URIs of this server name.
    pub(crate) authority: &'a str,
    /// The name of the principal; empty: anonymous.
    pub(crate) principal: &'a str,
    /// The id of the session; empty in the modern era, which has none.
    pub(crate) session: &'a str,
    /// The trace that the request belongs to.
    pub(crate) trace: TraceId,
    /// How many subscriptions a session may have.
    pub(crate) max_subscriptions: u32,
    /// What this server says about itself.
    pub(crate) about: &'a About,
    /// Who it is, as JSON.
    pub(crate) server: &'a str,
}

/// What a method did.
pub(crate) struct Done {
    /// The encoded JSON-RPC answer.
    pub(crate) answer: Vec<u8>,
    /// What has to happen before it leaves.
    pub(crate) effect: Effect,
}

/// What has to happen to the session's stream before an answer leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// The stream has to have passed this revision, if it is here.
    Settle(u64),
}

/// Carries a request out. Waits for the feed service where the method needs it.
///
/// Dropping the future leaves open whether a write was carried out.
pub(crate) async fn call(call: &Call<'_>, request: &Request) -> Result<Done, Failure> {
    let id = &request.id;
    let params = &request.params;
    match request.method.as_str() {
        "ping" => done(id, &EmptyResult {}),
        "resources/list" => done(id, &resources::list(call, params).await?),
        "resources/templates/list" => done(id, &resources::list_templates(call, params).await?),
        "resources/read" => match resources::read(call, params).await? {
            (result, None) => done(id, &result),
            (result, Some(cursor)) => Ok(Done {
                answer: complete::legacy_result(id, &result, &cursor.encode())?,
                effect: Effect::None,
            }),
        },
        "resources/subscribe" => {
            subscriptions::subscribe(call, params).await?;
            done(id, &EmptyResult {})
        }
        "resources/unsubscribe" => {
            let revision = subscriptions::unsubscribe(call, params).await?;
            Ok(Done {
                effect: Effect::Settle(revision),
                ..done(id, &EmptyResult {})?
            })
        }
        "tools/list" => done(id, &lists::tools(call, params).await?),
        "tools/call" => Err(lists::unknown_tool(params).into()),
        "prompts/list" => done(id, &lists::prompts(call, params).await?),
        "prompts/get" => Err(lists::unknown_prompt(params).into()),
        "completion/complete" => done(id, &completion::complete(call, params).await?),
        "logging/setLevel" => {
            logging::set_level(call, params).await?;
            done(id, &EmptyResult {})
        }
        unknown => Err(RpcError::method_not_found(unknown).into()),
    }
}

fn done(id: &RequestId, result: &impl Serialize) -> Result<Done, Failure> {
    Ok(Done {
        answer: answer::result(id, result)?,
        effect: Effect::None,
    })
}
