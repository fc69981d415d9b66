//! The rights of everybody at one moment, and the one function that decides by them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::principal::Principal;
use super::role::{Role, TableRights};
use super::role_json::{SUPER_USER, parse_role, parse_user};
use crate::catalog::{RecordFault, SYSTEM_DATABASE, TableName};

/// The role of who has neither a role nor a user record.
const ANONYMOUS: &str = "anonymous";

/// Whether roles are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessMode {
    /// Every principal, the anonymous one included, is super_user: right only where every listener is on loopback.
    #[default]
    Open,
    /// A principal may do what its role says.
    Roles,
}

/// What a principal wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// To see records of a table, or an attribute of them.
    Read,
    Insert,
    Update,
    Delete,
    /// To see what a table looks like.
    Describe,
    /// To make a call that is about no single table.
    Call,
}

impl Action {
    /// Returns the name of the right, as a role spells it.
    fn name(self) -> &'static str {
        match self {
            Action::Read => "read",
            Action::Insert => "insert",
            Action::Update => "update",
            Action::Delete => "delete",
            Action::Describe => "describe",
            Action::Call => "call",
        }
    }
}

/// What it wants to do it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object<'a> {
    Table(&'a TableName),
    Attribute(&'a TableName, &'a str),
    Operation(Operation),
    /// What belongs to nobody or to the caller: a commit, whose operations are decided one by one; the catalogue, of which each
    /// sees its part; its own sessions. Whose a session is, is checked where it is read.
    Own,
}

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What only super_users and roles that name it may call; principal.proto has the meaning of each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Operation {
            $($(#[$doc])* $variant,)*
        }

        impl Operation {
            /// The names of all operations.
            pub(super) const NAMES: &[&str] = &[$($name,)*];

            /// Returns the name by which roles grant it.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Operation::$variant => $name,)*
                }
            }
        }
    };
}

operations! {
    Watch = "watch",
    ReadAuditLog = "read_audit_log",
    RecordAccess = "record_access",
    ReadAccessLog = "read_access_log",
    TouchSessions = "touch_sessions",
    /// To have the keys by which gateways seal.
    Seal = "seal",
    /// To give the times that the service fills in otherwise.
    KeepTimes = "keep_times",
    GetStatus = "get_status",
    Compact = "compact",
    Backup = "backup",
    Verify = "verify",
}

/// A principal may not do what it asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// The table of tables is written by the service, not as records.
    #[error("table {0} is written by the service only")]
    SystemTable(TableName),
    #[error("role `{role}` may not {action} records of table {table}")]
    Table {
        role: String,
        action: &'static str,
        table: TableName,
    },
    #[error("role `{role}` may not {action} attribute `{attribute}` of table {table}")]
    Attribute {
        role: String,
        action: &'static str,
        table: TableName,
        attribute: String,
    },
    /// What a write would leave is not there for its writer.
    #[error("the record would lie outside of the row filter that role `{role}` has on table {table}")]
    OutsideOfFilter {
        role: String,
        action: &'static str,
        table: TableName,
    },
    #[error("role `{role}` has not the operation `{operation}`")]
    Operation { role: String, operation: &'static str },
}

impl Denied {
    /// Returns action, object and attribute as they stand in the metadata of a refusal (feed.proto).
    pub(crate) fn metadata(&self) -> (&'static str, String, Option<String>) {
        match self {
            Denied::SystemTable(table) => ("write", table.to_string(), None),
            Denied::Table { action, table, .. } | Denied::OutsideOfFilter { action, table, .. } => {
                (action, table.to_string(), None)
            }
            Denied::Attribute {
                action,
                table,
                attribute,
                ..
            } => (action, table.to_string(), Some(attribute.clone())),
            Denied::Operation { operation, .. } => ("call", (*operation).to_owned(), None),
        }
    }
}

/// A change of `system.role` or `system.user`, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RightsChange {
    /// `None`: the role is gone.
    Role(String, Option<Arc<Role>>),
    /// The user's role; `None`: the user is gone.
    User(String, Option<String>),
}

impl RightsChange {
    /// Reads what a change of a record means for the rights: nothing, unless its table is one of roles or users.
    ///
    /// # Errors
    /// The record is no role, or no user.
    pub(crate) fn read(
        table: &TableName,
        key: &str,
        record: Option<&[u8]>,
    ) -> Result<Option<RightsChange>, RecordFault> {
        if table.database != SYSTEM_DATABASE {
            return Ok(None);
        }
        if *table == TableName::system_role() {
            let role = record
                .map(|record| parse_role(key, record).map(Arc::new))
                .transpose()?;
            return Ok(Some(RightsChange::Role(key.to_owned(), role)));
        }
        if *table == TableName::system_user() {
            let role = record.map(parse_user).transpose()?;
            return Ok(Some(RightsChange::User(key.to_owned(), role)));
        }
        Ok(None)
    }
}

/// The roles and users at one moment; a new value for every change, so a snapshot stays what it is.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    mode: AccessMode,
    /// Always there, whatever is stored.
    super_user: Arc<Role>,
    roles: BTreeMap<String, Arc<Role>>,
    /// The role of each user, by its name.
    users: BTreeMap<String, String>,
    /// The top-level attributes that a row filter of a table names, over all roles.
    filter_attributes: BTreeMap<TableName, BTreeSet<String>>,
}

impl Rights {
    /// Makes the rights of a service without a role or a user.
    pub(crate) fn new(mode: AccessMode) -> Rights {
        Rights {
            mode,
            super_user: Arc::new(Role::super_user(SUPER_USER)),
            roles: BTreeMap::new(),
            users: BTreeMap::new(),
            filter_attributes: BTreeMap::new(),
        }
    }

    /// Returns the rights after changes, in their order.
    pub(crate) fn changed(&self, changes: impl IntoIterator<Item = RightsChange>) -> Rights {
        let mut rights = self.clone();
        for change in changes {
            match change {
                RightsChange::Role(name, Some(role)) => {
                    rights.roles.insert(name, role);
                }
                RightsChange::Role(name, None) => {
                    rights.roles.remove(&name);
                }
                RightsChange::User(name, Some(role)) => {
                    rights.users.insert(name, role);
                }
                RightsChange::User(name, None) => {
                    rights.users.remove(&name);
                }
            }
        }
        rights.filter_attributes.clear();
        for role in rights.roles.values() {
            for (table, table_rights) in &role.tables {
                if let Some(filter) = &table_rights.row_filter {
                    let attributes = rights.filter_attributes.entry(table.clone()).or_default();
                    attributes.extend(filter.attributes().map(str::to_owned));
                }
            }
        }
        rights
    }

    /// Returns the role of a principal: the one that the caller found, else that of its user record, else `anonymous`.
    /// One that is not there has no rights; `super_user` is always there.
    pub(crate) fn role_of(&self, principal: &Principal) -> Arc<Role> {
        if self.mode == AccessMode::Open {
            return Arc::clone(&self.super_user);
        }
        let name = if principal.role.is_empty() {
            self.users.get(&principal.name).map_or(ANONYMOUS, String::as_str)
        } else {
            &principal.role
        };
        if name == SUPER_USER {
            return Arc::clone(&self.super_user);
        }
        match self.roles.get(name) {
            Some(role) => Arc::clone(role),
            None => Arc::new(Role::without_rights(name)),
        }
    }

    /// Returns the top-level attributes that a row filter of some role names for a table; empty if there is none.
    pub(crate) fn filter_attributes(&self, table: &TableName) -> Option<&BTreeSet<String>> {
        self.filter_attributes.get(table)
    }

    /// Whether any role has a row filter.
    pub(crate) fn has_filters(&self) -> bool {
        !self.filter_attributes.is_empty()
    }
}

/// Decides whether a role may do something: the only place that does.
///
/// The tables of the service itself are read and described by super_users only, and written by them, but for the table of tables,
/// which nobody writes.
///
/// # Errors
/// What is denied, for the caller to be told.
pub(crate) fn decide(role: &Role, action: Action, object: Object<'_>) -> Result<(), Denied> {
    match object {
        Object::Own => Ok(()),
        Object::Operation(operation) => {
            if role.is_super_user || role.operations.iter().any(|name| name == operation.name()) {
                return Ok(());
            }
            Err(Denied::Operation {
                role: role.name.clone(),
                operation: operation.name(),
            })
        }
        Object::Table(table) => {
            check_own_table(action, table)?;
            if role.is_super_user || role.find_table(table).is_some_and(|rights| may(rights, action)) {
                return Ok(());
            }
            Err(Denied::Table {
                role: role.name.clone(),
                action: action.name(),
                table: table.clone(),
            })
        }
        Object::Attribute(table, attribute) => {
            check_own_table(action, table)?;
            if role.is_super_user
                || role
                    .find_table(table)
                    .is_some_and(|rights| may_attribute(rights, action, attribute))
            {
                return Ok(());
            }
            Err(Denied::Attribute {
                role: role.name.clone(),
                action: action.name(),
                table: table.clone(),
                attribute: attribute.to_owned(),
            })
        }
    }
}

/// Nobody writes a table of the service itself but roles and users.
fn check_own_table(action: Action, table: &TableName) -> Result<(), Denied> {
    let is_write = match action {
        Action::Insert | Action::Update | Action::Delete => true,
        Action::Read | Action::Describe | Action::Call => false,
    };
    let is_closed = table.database == SYSTEM_DATABASE
        && *table != TableName::system_role()
        && *table != TableName::system_user();
    if is_write && is_closed {
        return Err(Denied::SystemTable(table.clone()));
    }
    Ok(())
}

fn may(rights: &TableRights, action: Action) -> bool {
    match action {
        Action::Read => rights.read,
        Action::Insert => rights.insert,
        Action::Update => rights.update,
        Action::Delete => rights.delete,
        Action::Describe => rights.describe || rights.read,
        Action::Call => false,
    }
}

fn may_attribute(rights: &TableRights, action: Action, attribute: &str) -> bool {
    may(rights, action)
        && match action {
            Action::Read | Action::Describe => rights.may_read(attribute),
            Action::Insert => rights.may_insert(attribute),
            Action::Update => rights.may_update(attribute),
            // A record goes as a whole.
            Action::Delete => true,
            Action::Call => false,
        }
}
