//! Who may do what: one function that every call of the service asks.

use crate::catalog::{SYSTEM_DATABASE, TableName};

/// What a principal wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Write,
    /// To give the times that the service fills in otherwise; for super_users.
    KeepTimes,
}

/// What it wants to do it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object<'a> {
    Table(&'a TableName),
    /// The whole feed: its log, its catalogue.
    Feed,
    /// What an operator does: the store's state, backups, compaction.
    Maintenance,
    /// The durable sessions; whose a session is, is checked where it is read.
    Sessions,
}

/// A principal may not do what it asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// The service's own tables are written by operations, never as records.
    #[error("table {0} is written by the service only")]
    SystemTable(TableName),
}

/// Decides whether a principal, by its name, may do something.
///
/// The service has no authentication yet, so every listener is on loopback and it is in open mode (rule B-14.8):
/// every principal, the anonymous one included, is super_user, whom only the service's own tables are closed to.
pub(crate) fn decide(_principal: &str, action: Action, object: Object<'_>) -> Result<(), Denied> {
    match (action, object) {
        (Action::Write, Object::Table(table)) if table.database == SYSTEM_DATABASE => {
            Err(Denied::SystemTable(table.clone()))
        }
        (
            Action::Read | Action::Write | Action::KeepTimes,
            Object::Table(_) | Object::Feed | Object::Maintenance | Object::Sessions,
        ) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Object, decide};
    use crate::catalog::TableName;

    #[test]
    fn in_open_mode_only_the_services_own_tables_cannot_be_written() {
        let own = TableName::system_table();
        let other = TableName::new("data", "Product");
        assert!(decide("", Action::Write, Object::Table(&other)).is_ok());
        assert!(decide("", Action::Read, Object::Table(&own)).is_ok());
        assert!(decide("", Action::Write, Object::Table(&own)).is_err());
    }
}
