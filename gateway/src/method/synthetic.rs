//! The `feed://` resources: what the server tells of itself and of its tables.

use serde_json::{Value, json};

use super::Call;
use crate::feed::Table;
use crate::protocol::era;
use crate::protocol::mcp::Resource;

const ABOUT: &str = "feed://about";

const SCHEMA: &str = "feed://schema/";

/// The template of the schema resources.
pub(super) const SCHEMA_TEMPLATE: &str = "feed://schema/{database}/{table}";

/// Lists the synthetic resources that have a fixed URI, and one schema for each exported table.
pub(super) fn list(call: &Call<'_>) -> Vec<Resource> {
    let about = resource(
        ABOUT.into(),
        "about",
        "This server: version, profile, protocol versions",
    );
    let schemas = call.catalog.tables().map(|table| {
        resource(
            schema_uri(table),
            &format!("{} schema", table.path),
            &format!("The attributes of {}", table.path),
        )
    });
    std::iter::once(about).chain(schemas).collect()
}

/// Reads a synthetic resource; `None` if there is none of this name.
pub(super) fn read(call: &Call<'_>, uri: &str) -> Option<String> {
    if uri == ABOUT {
        return Some(about().to_string());
    }
    let (database, name) = uri.strip_prefix(SCHEMA)?.split_once('/')?;
    let decoded = |text: &str| {
        Some(
            percent_encoding::percent_decode_str(text)
                .decode_utf8()
                .ok()?
                .into_owned(),
        )
    };
    let table = call.catalog.exported(&decoded(database)?, &decoded(name)?)?;
    Some(schema(table).to_string())
}

fn about() -> Value {
    json!({
        "name": "tidegate",
        "version": env!("CARGO_PKG_VERSION"),
        "profile": "application",
        "protocolVersions": era::supported().into_iter().chain([era::MODERN]).collect::<Vec<_>>(),
    })
}

fn schema(table: &Table) -> Value {
    let attributes = table.attributes.iter().map(|attribute| {
        let mut described = json!({ "name": attribute.name, "type": attribute.declared_type });
        if attribute.primary_key {
            described["primaryKey"] = Value::Bool(true);
        }
        if !attribute.description.is_empty() {
            described["description"] = Value::String(attribute.description.clone());
        }
        described
    });
    json!({
        "database": table.database,
        "table": table.name,
        "path": table.path,
        "description": table.description,
        "attributes": attributes.collect::<Vec<Value>>(),
    })
}

fn schema_uri(table: &Table) -> String {
    let escaped =
        |text| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
    // The names of a schema are letters, digits and underscores; escaping keeps that true for any other source of tables.
    format!(
        "{SCHEMA}{}/{}",
        escaped(&table.database).replace("%5F", "_"),
        escaped(&table.name).replace("%5F", "_")
    )
}

fn resource(uri: String, name: &str, description: &str) -> Resource {
    Resource {
        uri,
        name: name.into(),
        title: None,
        description: Some(description.into()),
        mime_type: Some("application/json".into()),
    }
}
