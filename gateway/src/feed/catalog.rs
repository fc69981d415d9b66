//! The tables of the feed service, by path and by name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proto::feed::v1;

/// The name under which the feed service logs changes of its catalogue.
const CATALOG_DATABASE: &str = "system";
const CATALOG_TABLE: &str = "table";

/// A table as the feed service describes it.
#[derive(Debug, PartialEq)]
pub(crate) struct Table {
    /// The database it is in.
    pub(crate) database: String,
    /// Its name there.
    pub(crate) name: String,
    /// The path under which clients see it: one segment of a URI, not escaped.
    pub(crate) path: String,
    /// What the schema says of it; may be empty.
    pub(crate) description: String,
    /// Its attributes in the order of the schema.
    pub(crate) attributes: Vec<Attribute>,
}

/// An attribute of a table.
#[derive(Debug, PartialEq)]
pub(crate) struct Attribute {
    /// Its name.
    pub(crate) name: String,
    /// Its type as the schema writes it, for example `[String!]`.
    pub(crate) declared_type: String,
    /// What the schema says of it; may be empty.
    pub(crate) description: String,
    /// It is the primary key.
    pub(crate) primary_key: bool,
}

/// The exported tables at one revision of the feed.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    by_path: BTreeMap<String, Arc<Table>>,
    by_name: HashMap<String, HashMap<String, Arc<Table>>>,
}

impl Catalog {
    /// Reads the catalogue of the wire; tables without a path are not exported and left out.
    pub(super) fn read(tables: Vec<v1::Table>) -> Catalog {
        let mut catalog = Catalog::default();
        for table in tables.into_iter().filter(|table| !table.path.is_empty()) {
            let table = Arc::new(Table {
                database: table.database,
                name: table.name,
                path: table.path,
                description: table.description,
                attributes: table.attributes.into_iter().map(Attribute::read).collect(),
            });
            catalog.by_path.insert(table.path.clone(), Arc::clone(&table));
            catalog
                .by_name
                .entry(table.database.clone())
                .or_default()
                .insert(table.name.clone(), table);
        }
        catalog
    }

    /// Says whether an entry is a change of the catalogue itself.
    pub(super) fn is_changed_by(entry: &v1::Entry) -> bool {
        matches!(&entry.body, Some(v1::entry::Body::Change(change))
            if change.database == CATALOG_DATABASE && change.table == CATALOG_TABLE)
    }

    /// Finds the table that is exported under `path`.
    pub(crate) fn find(&self, path: &str) -> Option<&Arc<Table>> {
        self.by_path.get(path)
    }

    /// Finds the exported table with this name.
    pub(crate) fn exported(&self, database: &str, name: &str) -> Option<&Arc<Table>> {
        self.by_name.get(database)?.get(name)
    }

    /// Returns the exported tables, sorted by path.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.by_path.values()
    }
}

impl Attribute {
    fn read(attribute: v1::Attribute) -> Attribute {
        Attribute {
            name: attribute.name,
            declared_type: attribute.r#type,
            description: attribute.description,
            primary_key: attribute.primary_key,
        }
    }
}
