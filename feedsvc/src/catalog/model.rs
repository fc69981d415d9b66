//! What tables are: names, attributes, types, and the catalogue that holds them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::scalar::Scalar;
use super::{SYSTEM_DATABASE, SYSTEM_TABLE};
use crate::revision::Revision;

/// A table's full name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableName {
    pub(crate) database: String,
    pub(crate) table: String,
}

impl TableName {
    /// Makes a name from its parts.
    pub(crate) fn new(database: impl Into<String>, table: impl Into<String>) -> TableName {
        TableName {
            database: database.into(),
            table: table.into(),
        }
    }

    /// Returns the name of the table of tables.
    pub(crate) fn system_table() -> TableName {
        TableName::new(SYSTEM_DATABASE, SYSTEM_TABLE)
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.database, self.table)
    }
}

/// The store's number for a table; it stays when the table leaves the catalogue and comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableId(pub(crate) i64);

/// An attribute's type: a scalar or a list of a type, nullable or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct AttributeType {
    pub(crate) shape: Shape,
    pub(crate) is_nullable: bool,
}

/// What a value that is not null looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Scalar(Scalar),
    List(Box<AttributeType>),
}

impl fmt::Display for AttributeType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Shape::Scalar(scalar) => write!(formatter, "{scalar}")?,
            Shape::List(inner) => write!(formatter, "[{inner}]")?,
        }
        formatter.write_str(if self.is_nullable { "" } else { "!" })
    }
}

/// A text is no attribute type.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no attribute type")]
pub(crate) struct TypeFault(String);

impl TryFrom<String> for AttributeType {
    type Error = TypeFault;

    fn try_from(text: String) -> Result<AttributeType, TypeFault> {
        let (inner, is_nullable) = match text.strip_suffix('!') {
            Some(inner) => (inner, false),
            None => (text.as_str(), true),
        };
        let list = inner.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        let shape = match list {
            Some(item) => Shape::List(Box::new(AttributeType::try_from(item.to_owned())?)),
            None => match Scalar::find(inner) {
                Some(scalar) => Shape::Scalar(scalar),
                None => return Err(TypeFault(text)),
            },
        };
        Ok(AttributeType { shape, is_nullable })
    }
}

impl From<AttributeType> for String {
    fn from(attribute_type: AttributeType) -> String {
        attribute_type.to_string()
    }
}

/// One attribute of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attribute {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) attribute_type: AttributeType,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) description: String,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) primary_key: bool,
    /// Filled in by the service when the record is made.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) created_time: bool,
    /// Filled in by the service at every write.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) updated_time: bool,
    /// Searches by it are served from an index.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) indexed: bool,
}

impl Attribute {
    /// Whether the service fills the attribute in, whatever the writer says.
    pub(crate) fn is_stamped(&self) -> bool {
        self.created_time || self.updated_time
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

/// What a table is, as its schema says.
///
/// Invariant: exactly one attribute is the primary key, and its type is a scalar that may be one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TableDefinition {
    pub(crate) database: String,
    #[serde(rename = "name")]
    pub(crate) table: String,
    /// The path under which REST and MCP show the table; `None`: not exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) description: String,
    /// Records may have attributes that the schema does not declare.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) open: bool,
    pub(crate) attributes: Vec<Attribute>,
}

impl TableDefinition {
    /// Returns the full name.
    pub(crate) fn name(&self) -> TableName {
        TableName::new(&self.database, &self.table)
    }

    /// Finds an attribute by its name.
    pub(crate) fn find_attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Finds the primary key with its scalar type; `None` only where the invariant is broken.
    pub(crate) fn find_primary_key(&self) -> Option<(&Attribute, Scalar)> {
        let key = self.attributes.iter().find(|attribute| attribute.primary_key)?;
        match &key.attribute_type.shape {
            Shape::Scalar(scalar) => Some((key, *scalar)),
            Shape::List(_) => None,
        }
    }
}

/// A table of the catalogue, with its place in the store.
#[derive(Debug)]
pub(crate) struct CatalogTable {
    pub(crate) id: TableId,
    pub(crate) name: TableName,
    pub(crate) definition: TableDefinition,
}

/// The catalogue as it stands at a revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// The revision of its last change.
    pub(crate) revision: Revision,
    tables: BTreeMap<TableName, Arc<CatalogTable>>,
    /// Every table that the store ever had, the service's own included.
    ids: BTreeMap<TableName, TableId>,
}

impl Catalog {
    /// Makes an empty catalogue over the tables that the store has.
    pub(crate) fn new(ids: BTreeMap<TableName, TableId>) -> Catalog {
        Catalog {
            ids,
            ..Catalog::default()
        }
    }

    /// Finds a table by its name.
    pub(crate) fn find(&self, name: &TableName) -> Option<&Arc<CatalogTable>> {
        self.tables.get(name)
    }

    /// Finds the number of a table, also of one that left the catalogue, and of the service's own.
    pub(crate) fn find_id(&self, name: &TableName) -> Option<TableId> {
        self.ids.get(name).copied()
    }

    /// Returns all tables, sorted by database and name.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<CatalogTable>> {
        self.tables.values()
    }

    /// Notes the number of a table that stands in the store but not in the catalogue.
    pub(crate) fn note_id(&mut self, name: TableName, id: TableId) {
        self.ids.insert(name, id);
    }

    /// Puts a table in, in the place of an earlier one of its name.
    pub(crate) fn insert(&mut self, id: TableId, definition: TableDefinition) {
        let name = definition.name();
        self.ids.insert(name.clone(), id);
        self.tables
            .insert(name.clone(), Arc::new(CatalogTable { id, name, definition }));
    }

    /// Takes a table out; its number stays.
    pub(crate) fn remove(&mut self, name: &TableName) {
        self.tables.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::AttributeType;

    #[test]
    fn a_type_is_written_as_the_schema_writes_it() {
        for text in ["ID!", "String", "[Int]", "[Int!]!", "[[Any]!]"] {
            assert_eq!(
                AttributeType::try_from(text.to_owned()).unwrap().to_string(),
                text
            );
        }
        for text in ["", "!", "Foo", "[Int", "Int]", "Int!!"] {
            assert!(AttributeType::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
