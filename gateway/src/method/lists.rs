//! The lists that are empty as long as nothing provides tools and prompts.

use serde::Serialize;

use super::{Call, Failure, page};
use crate::protocol::error::RpcError;
use crate::protocol::message::Params;

/// The result of `tools/list`.
#[derive(Serialize)]
pub(super) struct ToolsListResult {
    tools: [(); 0],
}

/// The result of `prompts/list`.
#[derive(Serialize)]
pub(super) struct PromptsListResult {
    prompts: [(); 0],
}

/// Lists the tools: there are none.
pub(super) async fn tools(call: &Call<'_>, params: &Params) -> Result<ToolsListResult, Failure> {
    page::cut(call, "tools/list", params, [], |name: &&str| name).await?;
    Ok(ToolsListResult { tools: [] })
}

/// Lists the prompts: there are none.
pub(super) async fn prompts(call: &Call<'_>, params: &Params) -> Result<PromptsListResult, Failure> {
    page::cut(call, "prompts/list", params, [], |name: &&str| name).await?;
    Ok(PromptsListResult { prompts: [] })
}

/// Refuses a call of a tool.
pub(super) fn unknown_tool(params: &Params) -> RpcError {
    unknown("tools/call", "tool", params)
}

/// Refuses the reading of a prompt.
pub(super) fn unknown_prompt(params: &Params) -> RpcError {
    unknown("prompts/get", "prompt", params)
}

fn unknown(method: &str, thing: &str, params: &Params) -> RpcError {
    match params.string("name") {
        Ok(Some(name)) => RpcError::invalid_params(format!("unknown {thing}: {name}")),
        Ok(None) => RpcError::invalid_params(format!("{method} requires params.name")),
        Err(error) => error,
    }
}
