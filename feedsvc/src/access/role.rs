//! What a role may do, compiled from its record.

use std::collections::{BTreeSet, HashMap};

use super::row_filter::RowFilter;
use crate::catalog::TableName;

/// A role. What it does not name is denied.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Role {
    pub(super) name: String,
    pub(super) is_super_user: bool,
    /// Means something to the operations profile of the gateway only; the feed service keeps it.
    pub(super) is_structure_user: bool,
    pub(super) operations: BTreeSet<String>,
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

    /// Finds what the role may do with a table of the schema; `None`: nothing, or everything if it is a super_user's.
    pub(super) fn find_table(&self, table: &TableName) -> Option<&TableRights> {
        self.tables.get(table)
    }
}

impl TableRights {
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
