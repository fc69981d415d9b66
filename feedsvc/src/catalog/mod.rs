//! The catalogue: which tables there are, and what their records look like.
//!
//! `sdl` reads tables from the schema language, `model` is what they are, `record` checks records against them, and
//! `scalar` and `json` are what records are made of. No I/O but the reading of schema files in `source`.

pub(crate) mod json;
mod model;
mod problem;
mod record;
mod scalar;
mod sdl;
mod source;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use model::{
    Attribute, AttributeType, Catalog, CatalogTable, Shape, TableDefinition, TableId, TableName,
};
pub use problem::SchemaError;
pub(crate) use record::{
    GivenTimes, RecordFault, ValidRecord, check_object, check_record, merge_patch, parse_object,
};
pub(crate) use scalar::Scalar;
#[cfg(test)]
pub(crate) use sdl::parse_documents;
pub use source::{SchemaReadError, SchemaSource};

/// The database of the service's own tables; only the service itself writes it.
pub(crate) const SYSTEM_DATABASE: &str = "system";

/// The table whose records are the definitions of all other tables.
pub(crate) const SYSTEM_TABLE: &str = "table";
