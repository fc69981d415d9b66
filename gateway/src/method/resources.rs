//! `resources/list`, `resources/templates/list` and `resources/read`.

use serde::Serialize;

use super::page::{self, Page};
use super::{Call, Failure, synthetic};
use crate::feed::{FeedError, Table};
use crate::protocol::cursor::{Cursor, FeedIdentity};
use crate::protocol::error::RpcError;
use crate::protocol::event_id::{EventId, Slot};
use crate::protocol::mcp::{ReadResourceResult, Resource, ResourcesListResult, TextContents};
use crate::protocol::message::Params;
use crate::protocol::resource_uri::{self, ResourceUri, RowUri};

/// What every resource of ours is.
const JSON: &str = "application/json";

/// The result of `resources/templates/list`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TemplatesListResult {
    resource_templates: Vec<Template>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Template {
    uri_template: String,
    name: String,
    description: String,
    mime_type: &'static str,
}

/// What a read of a table's URI gives.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor<'a> {
    uri: &'a str,
    path: &'a str,
    database: &'a str,
    table: &'a str,
    hint: String,
    record_count: u64,
    revision: u64,
}

/// Lists the synthetic resources and the exported tables, sorted by URI, a page at a time.
pub(super) async fn list(call: &Call<'_>, params: &Params) -> Result<ResourcesListResult, Failure> {
    let tables = call.catalog.tables().map(|table| Resource {
        uri: table_uri(call, table),
        name: table.path.clone(),
        title: None,
        description: described(table),
        mime_type: Some(JSON.into()),
    });
    let mut resources: Vec<Resource> = synthetic::list(call).into_iter().chain(tables).collect();
    resources.sort_unstable_by(|a, b| a.uri.cmp(&b.uri));
    let Page { entries, next_cursor } = page::cut(call, "resources/list", params, resources, |resource| {
        &resource.uri
    })
    .await?;
    Ok(ResourcesListResult {
        resources: entries,
        next_cursor,
    })
}

/// Lists the templates: the records of each exported table, and the schema of a table.
pub(super) async fn list_templates(call: &Call<'_>, params: &Params) -> Result<TemplatesListResult, Failure> {
    let records = call.catalog.tables().map(|table| Template {
        uri_template: format!("{}/{{key}}", table_uri(call, table)),
        name: format!("{} record", table.path),
        description: format!("The record of {} with this key", table.path),
        mime_type: JSON,
    });
    let schema = Template {
        uri_template: synthetic::SCHEMA_TEMPLATE.into(),
        name: "table schema".into(),
        description: "The attributes of a table".into(),
        mime_type: JSON,
    };
    let mut templates: Vec<Template> = records.chain([schema]).collect();
    templates.sort_unstable_by(|a, b| a.uri_template.cmp(&b.uri_template));
    let Page { entries, next_cursor } =
        page::cut(call, "resources/templates/list", params, templates, |template| {
            &template.uri_template
        })
        .await?;
    Ok(TemplatesListResult {
        resource_templates: entries,
        next_cursor,
    })
}

/// Reads a record, a table's descriptor or a synthetic resource. A record's digits are those it was written with.
///
/// The cursor is that of the state that the text was taken from: who listens from there misses nothing. What is no state of
/// the feed has none.
pub(super) async fn read(
    call: &Call<'_>,
    params: &Params,
) -> Result<(ReadResourceResult, Option<Cursor>), Failure> {
    let uri = match params.string("uri") {
        Ok(Some(uri)) => uri,
        Ok(None) | Err(_) => {
            return Err(RpcError::invalid_params("resources/read requires params.uri").into());
        }
    };
    let (text, revision) = match resource_uri::parse(&uri) {
        Ok(ResourceUri::Row(row)) => {
            let (text, revision) = read_row(call, &uri, &row).await?;
            (text, Some(revision))
        }
        Ok(ResourceUri::Synthetic(name)) => {
            let text = synthetic::read(call, &name).ok_or_else(|| RpcError::resource_not_found(&uri))?;
            // What it tells of the tables is as old as that; while no feed was seen it is no state of one.
            (text, (call.identity != FeedIdentity::NONE).then_some(call.head))
        }
        Ok(ResourceUri::Custom(_)) => return Err(RpcError::resource_not_found(&uri).into()),
        Err(error) => return Err(RpcError::invalid_params(format!("invalid uri {uri}: {error}")).into()),
    };
    let cursor = revision.map(|revision| Cursor {
        feed: call.identity,
        id: EventId::new(revision, Slot::Bookmark),
    });
    let result = ReadResourceResult {
        contents: vec![TextContents {
            uri,
            mime_type: JSON,
            text,
        }],
    };
    Ok((result, cursor))
}

/// Reads a record or a table's descriptor, with the revision that the text reflects.
async fn read_row(call: &Call<'_>, uri: &str, row: &RowUri) -> Result<(String, u64), Failure> {
    let table = call
        .catalog
        .find(&row.path)
        .ok_or_else(|| RpcError::resource_not_found(uri))?;
    let Some(key) = &row.key else {
        return describe(call, table).await.map_err(|error| denied(uri, error));
    };
    let (record, revision) = call
        .feed
        .read_record(call.principal, &table.database, &table.name, key)
        .await
        .map_err(|error| denied(uri, error))?;
    let record = record.ok_or_else(|| RpcError::resource_not_found(uri))?;
    let text = String::from_utf8(record.value.into()).map_err(|error| {
        tracing::error!(uri, %error, "a record is not UTF-8");
        Failure::Internal
    })?;
    Ok((text, revision))
}

async fn describe(call: &Call<'_>, table: &Table) -> Result<(String, u64), FeedError> {
    let (record_count, revision) = call
        .feed
        .count_records(call.principal, &table.database, &table.name)
        .await?;
    let uri = table_uri(call, table);
    let descriptor = Descriptor {
        uri: &uri,
        path: &table.path,
        database: &table.database,
        table: &table.name,
        hint: format!(
            "read {uri}/{{key}} for a record; subscribe to this uri to hear of every change of the table"
        ),
        record_count,
        revision,
    };
    let text = serde_json::to_string(&descriptor).map_err(|error| {
        tracing::error!(%error, "cannot describe a table");
        FeedError::Internal
    })?;
    Ok((text, revision))
}

fn denied(uri: &str, error: FeedError) -> Failure {
    match error {
        FeedError::PermissionDenied => RpcError::invalid_params(format!("permission denied: {uri}")).into(),
        other => other.into(),
    }
}

fn table_uri(call: &Call<'_>, table: &Table) -> String {
    RowUri {
        path: table.path.clone(),
        key: None,
    }
    .uri(call.authority)
}

fn described(table: &Table) -> Option<String> {
    (!table.description.is_empty()).then(|| table.description.clone())
}
