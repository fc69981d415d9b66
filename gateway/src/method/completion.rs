//! `completion/complete`: the values that an argument of a resource template may take.
//!
//! Prompts are not served yet, so a reference to one is unknown.

use std::sync::Arc;

use serde::Serialize;
use tracing::debug;

use super::{Call, Failure, synthetic};
use crate::feed::{FeedError, Table};
use crate::protocol::error::RpcError;
use crate::protocol::json::Members;
use crate::protocol::message::Params;
use crate::protocol::resource_uri::{self, ResourceUri};

/// How many values an answer has at most (MCP 2025-11-25, Completion, Completion Results).
const VALUES_MAX: u32 = 100;

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
    /// How many there are; left out where that would take too long to count.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    has_more: bool,
}

/// Completes an argument. Waits for the feed service where that has the values.
///
/// # Errors
/// -32602, naming what is missing or unknown.
pub(super) async fn complete(call: &Call<'_>, params: &Params) -> Result<CompleteResult, Failure> {
    let members = params.members()?;
    let part = |name: &str| members.get(name).and_then(|raw| Members::read(raw.get()).ok());
    let reference =
        part("ref").ok_or_else(|| RpcError::invalid_params("completion/complete requires params.ref"))?;
    let argument = part("argument")
        .ok_or_else(|| RpcError::invalid_params("completion/complete requires params.argument"))?;
    let text = |members: &Members<'_>, name: &str| members.string(name).ok().flatten();
    let (Some(name), Some(value)) = (text(&argument, "name"), text(&argument, "value")) else {
        return Err(RpcError::invalid_params("params.argument requires a name and a value").into());
    };
    let Some(named) = text(&reference, "uri").or_else(|| text(&reference, "name")) else {
        return Err(RpcError::invalid_params("params.ref requires a uri or a name").into());
    };
    let is_resource = text(&reference, "type").as_deref() == Some("ref/resource");
    let context = part("context");
    let given = context
        .as_ref()
        .and_then(|context| Members::read(context.get("arguments")?.get()).ok());
    let database = given.as_ref().and_then(|given| text(given, "database"));

    let table = if is_resource {
        table_of_template(call, &named)
    } else {
        None
    };
    if let ("key", Some(table)) = (name.as_str(), &table) {
        return Ok(CompleteResult {
            completion: keys(call, table, &value).await?,
        });
    }
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
        _ if is_resource && (named == synthetic::SCHEMA_TEMPLATE || table.is_some()) => {
            return Err(RpcError::invalid_params(format!("{named} has no argument {name}")).into());
        }
        _ => return Err(RpcError::invalid_params(format!("unknown reference: {named}")).into()),
    };
    Ok(CompleteResult {
        completion: cut(candidates, &value),
    })
}

/// Finds the table whose records a template names.
fn table_of_template(call: &Call<'_>, template: &str) -> Option<Arc<Table>> {
    match resource_uri::parse(template.strip_suffix(KEY_TEMPLATE)?) {
        Ok(ResourceUri::Row(row)) if row.key.is_none() => call.catalog.find(&row.path).cloned(),
        _ => None,
    }
}

/// Completes a key: the first ones that the principal may see. Whoever may see none is told none, as with names that do not exist.
async fn keys(call: &Call<'_>, table: &Table, prefix: &str) -> Result<Completion, Failure> {
    let attribute = table.attributes.iter().find(|attribute| attribute.primary_key);
    let attribute = attribute.map_or("", |attribute| &attribute.name);
    let found = call
        .feed
        .find_keys(call.principal, table, attribute, prefix, VALUES_MAX)
        .await;
    let (values, total) = match found {
        Ok(found) => found,
        Err(error @ (FeedError::PermissionDenied | FeedError::Invalid(_))) => {
            debug!(table = table.path, %error, "there are no keys to suggest");
            (Vec::new(), Some(0))
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Completion {
        has_more: total.is_none_or(|total| total > values.len() as u64),
        values,
        total,
    })
}

fn cut(candidates: Vec<&str>, prefix: &str) -> Completion {
    let mut values: Vec<String> = candidates
        .into_iter()
        .filter(|candidate| candidate.starts_with(prefix))
        .map(str::to_owned)
        .collect();
    values.sort_unstable();
    values.dedup();
    let total = values.len() as u64;
    values.truncate(usize::try_from(VALUES_MAX).unwrap_or(usize::MAX));
    Completion {
        has_more: total > values.len() as u64,
        values,
        total: Some(total),
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
            (100, Some(150), true)
        );
        assert!(completion.values.is_sorted());
        let completion = cut(vec!["other", "t1"], "t");
        assert_eq!(
            completion,
            Completion {
                values: vec!["t1".into()],
                total: Some(1),
                has_more: false
            }
        );
    }
}
