//! Tables for the tests of this crate.

use std::sync::Arc;

use super::model::{Catalog, CatalogTable, TableDefinition, TableId, TableName};
use super::sdl::parse_documents;

/// Returns a table of the database "data" that a schema declares.
pub(crate) fn table(sdl: &str, name: &str) -> Arc<CatalogTable> {
    let mut catalog = Catalog::default();
    for definition in definitions(sdl) {
        catalog.insert(TableId(2), definition);
    }
    catalog.find(&TableName::new("data", name)).unwrap().clone()
}

/// Returns the tables that a schema declares.
pub(crate) fn definitions(sdl: &str) -> Vec<TableDefinition> {
    parse_documents(&[("test.graphql".to_owned(), sdl.to_owned())]).unwrap()
}
