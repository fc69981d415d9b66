//! `completion/complete`: the values that an argument of a resource template may take.
//!
//! Prompts are not served yet, so a reference to one is unknown.

use serde::Serialize;

use super::{Call, synthetic};
use crate::protocol::error::RpcError;
use crate::protocol::json::Members;
use crate::protocol::message::Params;
use crate::protocol::resource_uri::{self, ResourceUri};

/// How many values an answer has at most (MCP 2025-11-25, Completion, Completion Results).
const VALUES_MAX: usize = 100;

/// What stands behind a table's URI in the template of its records.
const KEY_TEMPLATE: &str = "/{key}";

/// The result of `completion/complete`.
#[derive(Debug, Serialize)]
pub(super) struct CompleteResult {
    completion: Completion,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Completion {
    /// Sorted, each once.
    values: Vec<String>,
    total: usize,
    has_more: bool,
}

/// Completes an argument.
///
/// # Errors
/// -32602, naming what is missing or unknown.
pub(super) fn complete(call: &Call<'_>, params: &Params) -> Result<CompleteResult, RpcError> {
    let members = params.members()?;
    let part = |name: &str| members.get(name).and_then(|raw| Members::read(raw.get()).ok());
    let reference =
        part("ref").ok_or_else(|| RpcError::invalid_params("completion/complete requires params.ref"))?;
    let argument = part("argument")
        .ok_or_else(|| RpcError::invalid_params("completion/complete requires params.argument"))?;
    let text = |members: &Members<'_>, name: &str| members.string(name).ok().flatten();
    let (Some(name), Some(value)) = (text(&argument, "name"), text(&argument, "value")) else {
        return Err(RpcError::invalid_params(
            "params.argument requires a name and a value",
        ));
    };
    let Some(named) = text(&reference, "uri").or_else(|| text(&reference, "name")) else {
        return Err(RpcError::invalid_params("params.ref requires a uri or a name"));
    };
    let is_resource = text(&reference, "type").as_deref() == Some("ref/resource");
    let context = part("context");
    let given = context
        .as_ref()
        .and_then(|context| Members::read(context.get("arguments")?.get()).ok());
    let database = given.as_ref().and_then(|given| text(given, "database"));

    let candidates: Vec<&str> = match name.as_str() {
        "database" if is_resource && named == synthetic::SCHEMA_TEMPLATE => call
            .catalog
            .tables()
            .map(|table| table.database.as_str())
            .collect(),
        "table" if is_resource && named == synthetic::SCHEMA_TEMPLATE => call
            .catalog
            .tables()
            .filter(|table| {
                database
                    .as_deref()
                    .is_none_or(|database| table.database == database)
            })
            .map(|table| table.name.as_str())
            .collect(),
        // Keys are not looked up yet: no suggestion is no error.
        "key" if is_resource && is_record_template(call, &named) => Vec::new(),
        _ if is_resource && (named == synthetic::SCHEMA_TEMPLATE || is_record_template(call, &named)) => {
            return Err(RpcError::invalid_params(format!(
                "{named} has no argument {name}"
            )));
        }
        _ => return Err(RpcError::invalid_params(format!("unknown reference: {named}"))),
    };
    Ok(CompleteResult {
        completion: cut(candidates, &value),
    })
}

fn is_record_template(call: &Call<'_>, template: &str) -> bool {
    let table = template.strip_suffix(KEY_TEMPLATE).map(resource_uri::parse);
    matches!(table, Some(Ok(ResourceUri::Row(row))) if row.key.is_none() && call.catalog.find(&row.path).is_some())
}

fn cut(candidates: Vec<&str>, prefix: &str) -> Completion {
    let mut values: Vec<String> = candidates
        .into_iter()
        .filter(|candidate| candidate.starts_with(prefix))
        .map(str::to_owned)
        .collect();
    values.sort_unstable();
    values.dedup();
    let total = values.len();
    values.truncate(VALUES_MAX);
    Completion {
        has_more: total > values.len(),
        values,
        total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_is_sorted_cut_and_tells_how_many_there_are() {
        let names: Vec<String> = (0..150).rev().map(|n| format!("t{n:03}")).collect();
        let completion = cut(names.iter().chain(&names).map(String::as_str).collect(), "t");
        assert_eq!(
            (completion.values.len(), completion.total, completion.has_more),
            (100, 150, true)
        );
        assert!(completion.values.is_sorted());
        let completion = cut(vec!["other", "t1"], "t");
        assert_eq!(
            completion,
            Completion {
                values: vec!["t1".into()],
                total: 1,
                has_more: false
            }
        );
    }
}
