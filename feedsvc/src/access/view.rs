//! What a principal sees of the records of one table.

use bytes::Bytes;

use super::principal::Principal;
use super::role::{Role, TableRights};
use super::row_filter::BoundFilter;
use crate::catalog::TableName;
use crate::catalog::json::{Json, JsonObject, object_to_text};
use crate::search::Visibility;

/// A principal's eyes on one table; it must have the right to read the table.
#[derive(Clone, Debug)]
pub(crate) struct TableView {
    /// `None`: everything is seen.
    limits: Option<Limits>,
}

#[derive(Clone, Debug)]
struct Limits {
    rights: TableRights,
    filter: Option<BoundFilter>,
    hides_attributes: bool,
}

impl TableView {
    /// Makes the view of a principal with a role.
    pub(crate) fn new(role: &Role, principal: &Principal, table: &TableName) -> TableView {
        let rights = if role.is_super_user() {
            None
        } else {
            role.find_table(table)
        };
        let limits = rights.and_then(|rights| {
            let filter = rights.row_filter.as_ref().map(|filter| filter.bind(principal));
            let hides_attributes = rights.hides_attributes();
            (filter.is_some() || hides_attributes).then(|| Limits {
                rights: rights.clone(),
                filter,
                hides_attributes,
            })
        });
        TableView { limits }
    }

    /// Whether every record is there, with all of its attributes.
    pub(crate) fn is_whole(&self) -> bool {
        self.limits.is_none()
    }

    /// Returns what searches need to know of the view.
    pub(crate) fn visibility(&self) -> Visibility {
        let Some(limits) = &self.limits else {
            return Visibility::default();
        };
        Visibility {
            filter: limits.filter.as_ref().map(|filter| filter.condition().clone()),
            hidden: limits.rights.hidden_attributes().map(str::to_owned).collect(),
        }
    }

    /// Returns the record as the principal sees it; `None` if it is outside of the row filter, and so absent.
    ///
    /// A stored record that is no JSON object is outside of every filter.
    pub(crate) fn show(&self, record: &Bytes) -> Option<Bytes> {
        let Some(limits) = &self.limits else {
            return Some(record.clone());
        };
        let Ok(Json::Object(object)) = Json::parse(record) else {
            return None;
        };
        if !limits.has(&object) {
            return None;
        }
        if !limits.hides_attributes {
            return Some(record.clone());
        }
        let shown: JsonObject = object
            .into_iter()
            .filter(|(name, _)| limits.rights.may_read(name))
            .collect();
        Some(object_to_text(&shown).into())
    }

    /// Whether the record is there for the principal.
    pub(crate) fn has(&self, record: &[u8]) -> bool {
        let Some(limits) = &self.limits else {
            return true;
        };
        if limits.filter.is_none() {
            return true;
        }
        matches!(Json::parse(record), Ok(Json::Object(object)) if limits.has(&object))
    }
}

impl Limits {
    fn has(&self, record: &JsonObject) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.holds(record))
    }
}
