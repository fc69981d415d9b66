//! `completion/complete`: nothing here can be completed yet, so every reference is unknown.

use crate::protocol::error::RpcError;
use crate::protocol::json::Members;
use crate::protocol::message::Params;

/// Refuses a completion: -32602, naming what is missing or unknown.
pub(super) fn complete(params: &Params) -> RpcError {
    let members = match params.members() {
        Ok(members) => members,
        Err(error) => return error,
    };
    let Some(reference) = members.get("ref").and_then(|raw| Members::read(raw.get()).ok()) else {
        return RpcError::invalid_params("completion/complete requires params.ref");
    };
    if members.get("argument").is_none() {
        return RpcError::invalid_params("completion/complete requires params.argument");
    }
    let named = ["uri", "name"]
        .iter()
        .find_map(|name| reference.string(name).ok().flatten());
    match named {
        Some(name) => RpcError::invalid_params(format!("unknown reference: {name}")),
        None => RpcError::invalid_params("params.ref requires a uri or a name"),
    }
}
