//! What a principal may make of a record: decided against the record before, while a commit is planned.
//!
//! A record outside of the writer's row filter is absent for it, before a write and after: a delete of it does nothing, a patch
//! finds none, a put would create what is there already and so conflicts; and no write may leave a record that its writer would not see.
//! Attributes that the writer may not read survive its puts, and no refusal and no answer tells of them.

use super::principal::Principal;
use super::rights::{Action, Denied, Object, decide};
use super::role::{Role, TableRights};
use super::view::TableView;
use crate::catalog::json::{Json, JsonObject, object_to_text};
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

    /// Whether there are attributes that the writer may not write, or not read so that a put has to be completed with them.
    pub(crate) fn limits_attributes(&self) -> bool {
        self.hides_attributes()
            || self
                .find_rights()
                .is_some_and(|rights| !rights.attributes.is_empty())
    }

    /// Whether records have attributes that the writer may not read.
    pub(crate) fn hides_attributes(&self) -> bool {
        self.find_rights().is_some_and(TableRights::hides_attributes)
    }

    /// Whether the writer may see the values of an attribute.
    pub(crate) fn shows(&self, attribute: &str) -> bool {
        self.may(Action::Read, attribute)
    }

    /// Whether the writer may know that there is an attribute, by a right to do anything with it.
    pub(crate) fn knows(&self, attribute: &str) -> bool {
        [Action::Read, Action::Insert, Action::Update]
            .into_iter()
            .any(|action| self.may(action, attribute))
    }

    fn may(&self, action: Action, attribute: &str) -> bool {
        decide(self.role, action, Object::Attribute(self.table, attribute)).is_ok()
    }

    /// Returns how large a record is as the writer sees it, in bytes.
    pub(crate) fn shown_bytes(&self, record: &[u8]) -> usize {
        if !self.hides_attributes() {
            return record.len();
        }
        let mut shown = object(record);
        shown.retain(|name, _| self.shows(name));
        object_to_text(&shown).len()
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
            if !self.shows(name) && !put.contains_key(name) {
                put.insert(name.clone(), value.clone());
            }
        }
        put
    }

    /// Checks what an insert or an update makes of the attributes of a record: before anything is said of their types, which
    /// would tell what an attribute is that the writer may not see.
    ///
    /// `named` are the attributes that the request itself names; `after` need not fit the table.
    ///
    /// # Errors
    /// Denied: an attribute changes that the writer may not write, or is named although the writer may neither read nor write it (whether it
    /// changes would tell its value).
    pub(crate) fn check_attributes(
        &self,
        intent: Intent,
        table: &CatalogTable,
        named: &JsonObject,
        before: Option<&[u8]>,
        after: &JsonObject,
    ) -> Result<(), Denied> {
        let before = before.map_or_else(JsonObject::new, object);
        let is_filled_in = |name: &str| {
            let attribute = table.definition.find_attribute(name);
            attribute.is_some_and(|attribute| attribute.primary_key || attribute.is_stamped())
        };
        let write = |name: &str| decide(self.role, intent.action(), Object::Attribute(self.table, name));
        for name in named.keys().filter(|name| !is_filled_in(name)) {
            if !self.shows(name) {
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

    /// Checks that a record which the writer is about to leave would be there for it.
    ///
    /// # Errors
    /// Denied: it would be outside of the writer's row filter.
    pub(crate) fn check_row(&self, intent: Intent, after: &[u8]) -> Result<(), Denied> {
        if self.view.has(after) {
            return Ok(());
        }
        Err(Denied::OutsideOfFilter {
            role: self.role.name.clone(),
            action: match intent {
                Intent::Insert => "insert",
                Intent::Update | Intent::Delete => "update",
            },
            table: self.table.clone(),
        })
    }

    /// Returns what limits the writer; `None`: nothing does, or it has no right at all.
    fn find_rights(&self) -> Option<&TableRights> {
        if self.role.is_super_user() {
            return None;
        }
        self.role.find_table(self.table)
    }
}

/// Reads a stored record; what is none has no attributes.
fn object(record: &[u8]) -> JsonObject {
    match Json::parse(record) {
        Ok(Json::Object(object)) => object,
        Ok(_) | Err(_) => JsonObject::new(),
    }
}
