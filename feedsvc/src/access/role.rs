//! What a role may do, compiled from its record.

use std::collections::HashMap;

use super::rights::Operation;
use super::row_filter::RowFilter;
use crate::catalog::{Catalog, CatalogTable, TableName};

/// How many places of a role are listed as unknown at most, and how much of each (feed.proto, `OperationResult.unknown`).
const UNKNOWN_MAX: usize = 100;
const UNKNOWN_CHARS: usize = 200;

/// A role. What it does not name is denied.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Role {
    pub(super) name: String,
    pub(super) is_super_user: bool,
    /// Means something to the operations profile of the gateway only; the feed service keeps it.
    pub(super) is_structure_user: bool,
    /// In their order; those that the service does not know grant nothing.
    pub(super) operations: Vec<String>,
    pub(super) tables: HashMap<TableName, TableRights>,
}

/// What a role may do with a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TableRights {
    pub(super) read: bool,
    pub(super) insert: bool,
    pub(super) update: bool,
    pub(super) delete: bool,
    pub(super) describe: bool,
    /// Attributes that are not in it have the table's rights.
    pub(super) attributes: HashMap<String, AttributeRights>,
    /// `None`: all records are there.
    pub(super) row_filter: Option<RowFilter>,
}

/// What a role may do with an attribute, as far as it may do it with the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AttributeRights {
    pub(super) read: bool,
    pub(super) insert: bool,
    pub(super) update: bool,
}

impl Role {
    /// Makes the role that may do everything.
    pub(super) fn super_user(name: &str) -> Role {
        Role {
            name: name.to_owned(),
            is_super_user: true,
            ..Role::default()
        }
    }

    /// Makes a role that may do nothing.
    pub(super) fn without_rights(name: &str) -> Role {
        Role {
            name: name.to_owned(),
            ..Role::default()
        }
    }

    pub(crate) fn is_super_user(&self) -> bool {
        self.is_super_user
    }

    /// Returns the places in the role's record that name what is not there: they grant nothing, until it comes. Sorted, the first of them.
    pub(crate) fn unknown(&self, catalog: &Catalog) -> Vec<String> {
        let operations = self.operations.iter().enumerate();
        let mut unknown: Vec<String> = operations
            .filter(|(_, name)| !Operation::NAMES.contains(&name.as_str()))
            .map(|(index, _)| format!("operations[{index}]"))
            .collect();
        for (name, rights) in &self.tables {
            let place = format!("{}.tables.{}", name.database, name.table);
            match catalog.find(name) {
                None => unknown.push(place),
                Some(table) => unknown.extend(rights.unknown_in(table, &place)),
            }
        }
        unknown.sort();
        unknown.truncate(UNKNOWN_MAX);
        let shortened = unknown
            .into_iter()
            .map(|place| place.chars().take(UNKNOWN_CHARS).collect());
        shortened.collect()
    }

    /// Finds what the role may do with a table of the schema; `None`: nothing, or everything if it is a super_user's.
    pub(super) fn find_table(&self, table: &TableName) -> Option<&TableRights> {
        self.tables.get(table)
    }
}

impl TableRights {
    /// Returns the attributes that the rights name and the table cannot have.
    fn unknown_in(&self, table: &CatalogTable, place: &str) -> Vec<String> {
        let definition = &table.definition;
        let is_unknown = |name: &str| !definition.open && definition.find_attribute(name).is_none();
        let permitted = self
            .attributes
            .keys()
            .map(|name| (name.as_str(), "attribute_permissions"));
        let filtered = self.row_filter.iter().flat_map(RowFilter::attributes);
        let mut unknown: Vec<String> = permitted
            .chain(filtered.map(|name| (name, "row_filter")))
            .filter(|(name, _)| is_unknown(name))
            .map(|(name, member)| format!("{place}.{member}.{name}"))
            .collect();
        unknown.sort();
        unknown.dedup();
        unknown
    }

    pub(super) fn may_read(&self, attribute: &str) -> bool {
        self.attributes.get(attribute).is_none_or(|rights| rights.read)
    }

    pub(super) fn may_insert(&self, attribute: &str) -> bool {
        self.attributes.get(attribute).is_none_or(|rights| rights.insert)
    }

    pub(super) fn may_update(&self, attribute: &str) -> bool {
        self.attributes.get(attribute).is_none_or(|rights| rights.update)
    }

    /// Returns the attributes that may not be read although the table may.
    pub(super) fn hidden_attributes(&self) -> impl Iterator<Item = &str> {
        let hidden = self.attributes.iter().filter(|(_, rights)| !rights.read);
        hidden.map(|(name, _)| name.as_str())
    }

    /// Whether there are attributes that may not be read; without the right to read the table, all of them.
    pub(super) fn hides_attributes(&self) -> bool {
        !self.read || self.attributes.values().any(|rights| !rights.read)
    }
}
