//! Tests of import and export within the process.
//!
//! `arbitrary` makes tables and records of every kind; `stores` exports and imports between stores.

pub(in crate::transfer) mod arbitrary;
mod lines;
mod stores;

use std::sync::Arc;

use crate::catalog::{Catalog, CatalogTable, TableId, parse_documents};

/// Returns the only table of a schema.
pub(in crate::transfer) fn table_of(sdl: &str) -> Arc<CatalogTable> {
    let mut catalog = Catalog::default();
    for definition in parse_documents(&[("test.graphql".to_owned(), sdl.to_owned())]).unwrap() {
        catalog.insert(TableId(2), definition);
    }
    let table = catalog.tables().next().unwrap().clone();
    assert_eq!(catalog.tables().count(), 1);
    table
}
