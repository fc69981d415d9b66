//! The methods of the modern era (MCP 2026-07-28): no sessions, and every result says its type, its server and how long it
//! is fresh. `subscriptions/listen` is no method of this kind, since its answer is a stream; [`honoured`] is its part here.

use std::collections::HashSet;

use serde::Serialize;

use super::{Call, Failure, completion, lists, resources};
use crate::protocol::complete::{self, Additions, CacheHint, CacheScope};
use crate::protocol::era::MODERN;
use crate::protocol::error::{INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError};
use crate::protocol::listen::ListenFilter;
use crate::protocol::mcp::DiscoverResult;
use crate::protocol::message::{Request, RequestId};
use crate::protocol::resource_uri::{self, ResourceUri, RowUri};

/// How long each kind of result may be taken for fresh, and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheHints {
    /// `server/discover`
    pub(crate) discover: CacheHint,
    /// `tools/list`
    pub(crate) tools: CacheHint,
    /// `prompts/list`
    pub(crate) prompts: CacheHint,
    /// `resources/list`
    pub(crate) resources: CacheHint,
    /// `resources/templates/list`
    pub(crate) templates: CacheHint,
    /// `resources/read`
    pub(crate) read: CacheHint,
}

impl Default for CacheHints {
    /// What a server says of itself changes with its version only. Lists differ by principal; a client that listens hears of
    /// their changes, any other is a minute behind at most. A record may change at any time.
    fn default() -> CacheHints {
        let list = CacheHint {
            ttl_ms: 60_000,
            scope: CacheScope::Private,
        };
        CacheHints {
            discover: CacheHint {
                ttl_ms: 3_600_000,
                scope: CacheScope::Public,
            },
            tools: list,
            prompts: list,
            resources: list,
            templates: list,
            read: CacheHint {
                ttl_ms: 0,
                scope: CacheScope::Private,
            },
        }
    }
}

/// Carries a request of the modern era out, and returns its encoded answer. Waits for the feed service where needed.
///
/// Dropping the future drops the call to the feed service with it.
pub(crate) async fn call(call: &Call<'_>, hints: &CacheHints, request: &Request) -> Result<Vec<u8>, Failure> {
    try_call(call, hints, request)
        .await
        .map_err(|failure| match failure {
            // MCP 2026-07-28, Resources, Error Handling: what is not there is an invalid parameter.
            Failure::Rpc(error) if error.code == RESOURCE_NOT_FOUND => Failure::Rpc(RpcError {
                code: INVALID_PARAMS,
                ..error
            }),
            other => other,
        })
}

async fn try_call(call: &Call<'_>, hints: &CacheHints, request: &Request) -> Result<Vec<u8>, Failure> {
    let id = &request.id;
    let params = &request.params;
    match request.method.as_str() {
        "server/discover" => cached(
            call,
            id,
            &DiscoverResult::new(&[MODERN], call.about),
            hints.discover,
        ),
        "resources/list" => cached(call, id, &resources::list(call, params).await?, hints.resources),
        "resources/templates/list" => cached(
            call,
            id,
            &resources::list_templates(call, params).await?,
            hints.templates,
        ),
        "resources/read" => {
            let (result, cursor) = resources::read(call, params).await?;
            let additions = Additions {
                cache: Some(hints.read),
                cursor: cursor.map(|cursor| cursor.encode()),
            };
            Ok(complete::result(id, &result, call.server, &additions)?)
        }
        "tools/list" => cached(call, id, &lists::tools(call, params).await?, hints.tools),
        "tools/call" => Err(lists::unknown_tool(params).into()),
        "prompts/list" => cached(call, id, &lists::prompts(call, params).await?, hints.prompts),
        "prompts/get" => Err(lists::unknown_prompt(params).into()),
        "completion/complete" => Ok(complete::result(
            id,
            &completion::complete(call, params).await?,
            call.server,
            &Additions::default(),
        )?),
        // Among them what sessions had: initialize, ping, logging/setLevel, resources/subscribe and unsubscribe.
        unknown => Err(RpcError::method_not_found(unknown).into()),
    }
}

fn cached(
    call: &Call<'_>,
    id: &RequestId,
    result: &impl Serialize,
    hint: CacheHint,
) -> Result<Vec<u8>, Failure> {
    let additions = Additions {
        cache: Some(hint),
        cursor: None,
    };
    Ok(complete::result(id, result, call.server, &additions)?)
}

/// What of a listen's URIs will be delivered.
pub(crate) struct Honoured {
    /// The tables and records, each once, in the order of the request.
    pub(crate) rows: Vec<RowUri>,
    /// The canonical URI of each, as it stands in lists.
    pub(crate) uris: Vec<String>,
}

/// Returns what of a listen's URIs can be subscribed and be read by the principal; the others are left out without an error.
///
/// # Errors
/// -32602 if there are more than one stream may have, naming the limit.
pub(crate) async fn honoured(call: &Call<'_>, filter: &ListenFilter) -> Result<Honoured, Failure> {
    let max = call.max_subscriptions;
    if filter.uris.len() > usize::try_from(max).unwrap_or(usize::MAX) {
        return Err(RpcError::invalid_params(format!(
            "params.notifications.resourceSubscriptions has {} entries, a listen takes {max}: use several",
            filter.uris.len()
        ))
        .into());
    }
    let mut seen = HashSet::new();
    let mut rows: Vec<RowUri> = filter
        .uris
        .iter()
        .filter_map(|uri| match resource_uri::parse(uri) {
            Ok(ResourceUri::Row(row)) if call.catalog.find(&row.path).is_some() => Some(row),
            Ok(ResourceUri::Row(_) | ResourceUri::Synthetic(_) | ResourceUri::Custom(_)) | Err(_) => None,
        })
        .filter(|row| seen.insert(row.clone()))
        .collect();
    let mut denied = HashSet::new();
    let paths: HashSet<String> = rows.iter().map(|row| row.path.clone()).collect();
    for path in paths {
        if let Some(table) = call.catalog.find(&path)
            && !call.feed.may_read(call.principal, table).await?
        {
            denied.insert(path);
        }
    }
    rows.retain(|row| !denied.contains(&row.path));
    let uris = rows.iter().map(|row| row.uri(call.authority)).collect();
    Ok(Honoured { rows, uris })
}
