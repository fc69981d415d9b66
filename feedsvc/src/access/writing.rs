//! What a principal may make of a record: decided against the record before, while a commit is planned.
//!
//! A record outside of the writer's row filter is absent for it, before a write and after: a delete of it does nothing, a patch
//! finds none, a put would create what is there already and so conflicts; and no write may leave a record that its writer would not see.
//! Attributes that the writer may not read survive its puts.

use super::principal::Principal;
use super::rights::{Action, Denied, Object, decide};
use super::role::{Role, TableRights};
use super::view::TableView;
use crate::catalog::json::{Json, JsonObject};
use crate::catalog::{CatalogTable, TableName};

/// What a write is about to do, told from the request and from whether the record is there for the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Insert,
    Update,
    Delete,
}

impl Intent {
    fn action(self) -> Action {
        match self {
            Intent::Insert => Action::Insert,
            Intent::Update => Action::Update,
            Intent::Delete => Action::Delete,
        }
    }
}

/// A principal as the writer of one table's records.
pub(crate) struct TableWriter<'a> {
    role: &'a Role,
    table: &'a TableName,
    view: TableView,
}

impl<'a> TableWriter<'a> {
    pub(crate) fn new(role: &'a Role, principal: &Principal, table: &'a TableName) -> TableWriter<'a> {
        TableWriter {
            role,
            table,
            view: TableView::new(role, principal, table),
        }
    }

    /// Whether the record is there for the writer.
    pub(crate) fn has(&self, record: &[u8]) -> bool {
        self.view.has(record)
    }

    /// Whether [`TableWriter::check_change`] has something to check.
    pub(crate) fn is_limited(&self) -> bool {
        !self.view.is_whole()
            || self
                .find_rights()
                .is_some_and(|rights| !rights.attributes.is_empty())
    }

    /// Whether records have attributes that the writer may not read, so that a put has to be completed with them.
    pub(crate) fn hides_attributes(&self) -> bool {
        self.find_rights().is_some_and(TableRights::hides_attributes)
    }

    /// Checks the right to do this to records of the table at all.
    ///
    /// # Errors
    /// Denied: the role has it not.
    pub(crate) fn check(&self, intent: Intent) -> Result<(), Denied> {
        decide(self.role, intent.action(), Object::Table(self.table))
    }

    /// Returns a put's record with the attributes that the writer cannot see taken over from the record before; those that the writer
    /// names itself stay as it wrote them.
    pub(crate) fn completed(&self, mut put: JsonObject, before: &JsonObject) -> JsonObject {
        for (name, value) in before {
            let is_hidden = decide(self.role, Action::Read, Object::Attribute(self.table, name)).is_err();
            if is_hidden && !put.contains_key(name) {
                put.insert(name.clone(), value.clone());
            }
        }
        put
    }

    /// Checks what an insert or an update makes of a record.
    ///
    /// `named` are the attributes that the request itself names, `before` and `after` the stored records.
    ///
    /// # Errors
    /// Denied: an attribute changes that the writer may not write, or is named although the writer may neither read nor write it (whether it
    /// changes would tell its value), or the record would be outside of the writer's row filter.
    pub(crate) fn check_change(
        &self,
        intent: Intent,
        table: &CatalogTable,
        named: &JsonObject,
        before: Option<&[u8]>,
        after: &[u8],
    ) -> Result<(), Denied> {
        if self
            .find_rights()
            .is_some_and(|rights| !rights.attributes.is_empty())
        {
            self.check_attributes(intent.action(), table, named, before, after)?;
        }
        if !self.view.has(after) {
            return Err(Denied::OutsideOfFilter {
                role: self.role.name.clone(),
                action: match intent {
                    Intent::Insert => "insert",
                    Intent::Update | Intent::Delete => "update",
                },
                table: self.table.clone(),
            });
        }
        Ok(())
    }

    /// Returns what limits the writer; `None`: nothing does, or it has no right at all.
    fn find_rights(&self) -> Option<&TableRights> {
        if self.role.is_super_user() {
            return None;
        }
        self.role.find_table(self.table)
    }

    fn check_attributes(
        &self,
        action: Action,
        table: &CatalogTable,
        named: &JsonObject,
        before: Option<&[u8]>,
        after: &[u8],
    ) -> Result<(), Denied> {
        let (before, after) = (before.map_or_else(JsonObject::new, object), object(after));
        let is_filled_in = |name: &str| {
            let attribute = table.definition.find_attribute(name);
            attribute.is_some_and(|attribute| attribute.primary_key || attribute.is_stamped())
        };
        let write = |name: &str| decide(self.role, action, Object::Attribute(self.table, name));
        let read = |name: &str| decide(self.role, Action::Read, Object::Attribute(self.table, name));
        for name in named.keys().filter(|name| !is_filled_in(name)) {
            if read(name).is_err() {
                write(name)?;
            }
        }
        for name in before
            .keys()
            .chain(after.keys())
            .filter(|name| !is_filled_in(name))
        {
            // An absent attribute is null.
            let (was, is) = (before.get(name), after.get(name));
            if was.unwrap_or(&Json::Null) != is.unwrap_or(&Json::Null) {
                write(name)?;
            }
        }
        Ok(())
    }
}

/// Reads a stored record; what is none has no attributes.
fn object(record: &[u8]) -> JsonObject {
    match Json::parse(record) {
        Ok(Json::Object(object)) => object,
        Ok(_) | Err(_) => JsonObject::new(),
    }
}
