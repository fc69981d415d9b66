//! Reads roles and users from their records, and names what is no role (principal.proto).

use super::role::{AttributeRights, Role, TableRights};
use super::row_filter::parse_filter;
use crate::catalog::json::{Json, JsonObject};
use crate::catalog::{OWN_KEY_ATTRIBUTE, RecordFault, SYSTEM_DATABASE, TableName};

/// The role that is always there.
pub(super) const SUPER_USER: &str = "super_user";

/// The longest name of a role.
pub(crate) const ROLE_NAME_LIMIT_BYTES: usize = 1_024;

/// A place in a record, what was found there, and what is allowed.
pub(super) struct Fault {
    pub(super) place: String,
    pub(super) found: String,
    pub(super) allowed: String,
}

impl Fault {
    pub(super) fn new(place: &str, found: impl Into<String>, allowed: impl Into<String>) -> Fault {
        Fault {
            place: place.to_owned(),
            found: found.into(),
            allowed: allowed.into(),
        }
    }

    fn of(self, table: TableName) -> RecordFault {
        RecordFault {
            table,
            attribute: self.place,
            found: self.found,
            allowed: self.allowed,
        }
    }
}

/// Reads the record of a role.
///
/// # Errors
/// The first place of the record that is no part of a role.
pub(super) fn parse_role(name: &str, record: &[u8]) -> Result<Role, RecordFault> {
    read_role(name, record).map_err(|fault| fault.of(TableName::system_role()))
}

/// Reads the record of a user: the name of its role.
///
/// # Errors
/// The first place of the record that is no part of a user.
pub(super) fn parse_user(record: &[u8]) -> Result<String, RecordFault> {
    read_user(record).map_err(|fault| fault.of(TableName::system_user()))
}

fn read_user(record: &[u8]) -> Result<String, Fault> {
    let parsed =
        Json::parse(record).map_err(|problem| Fault::new("", problem.to_string(), "a JSON object"))?;
    let user = object("", &parsed)?;
    for name in user.keys() {
        if name != OWN_KEY_ATTRIBUTE && name != "role" {
            return Err(Fault::new(name, "not declared", "one of role"));
        }
    }
    match user.get("role") {
        Some(Json::String(role)) if !role.is_empty() && role.len() <= ROLE_NAME_LIMIT_BYTES => {
            Ok(role.clone())
        }
        Some(other) => Err(Fault::new(
            "role",
            other.describe(),
            "the name of a role, 1 to 1024 bytes",
        )),
        None => Err(Fault::new(
            "role",
            "missing",
            "the name of a role, 1 to 1024 bytes",
        )),
    }
}

fn read_role(name: &str, record: &[u8]) -> Result<Role, Fault> {
    let parsed =
        Json::parse(record).map_err(|problem| Fault::new("", problem.to_string(), "a JSON object"))?;
    let mut role = Role::without_rights(name);
    for (attribute, value) in object("", &parsed)? {
        match attribute.as_str() {
            OWN_KEY_ATTRIBUTE => {}
            "super_user" => role.is_super_user = boolean("super_user", value)?,
            "structure_user" => role.is_structure_user = boolean("structure_user", value)?,
            "operations" => role.operations = operations(value)?,
            SYSTEM_DATABASE => {
                let allowed = "nothing: the tables of the service itself are for super_users only";
                return Err(Fault::new(SYSTEM_DATABASE, value.describe(), allowed));
            }
            database => read_database(&mut role, database, value)?,
        }
    }
    if name == SUPER_USER && !role.is_super_user {
        let allowed = "true: the role super_user is always one";
        return Err(Fault::new("super_user", "not true", allowed));
    }
    Ok(role)
}

fn operations(value: &Json) -> Result<Vec<String>, Fault> {
    let mut operations = Vec::new();
    for (index, operation) in array("operations", value)?.iter().enumerate() {
        operations.push(text(&format!("operations[{index}]"), operation)?.to_owned());
    }
    Ok(operations)
}

fn read_database(role: &mut Role, database: &str, value: &Json) -> Result<(), Fault> {
    let members = object(database, value)?;
    for (member, value) in members {
        let place = format!("{database}.{member}");
        if member != "tables" {
            return Err(Fault::new(&place, "not declared", "one of tables"));
        }
        for (table, value) in object(&place, value)? {
            let rights = table_rights(&format!("{place}.{table}"), value)?;
            role.tables.insert(TableName::new(database, table), rights);
        }
    }
    Ok(())
}

fn table_rights(place: &str, value: &Json) -> Result<TableRights, Fault> {
    let mut rights = TableRights::default();
    for (member, value) in object(place, value)? {
        let place = format!("{place}.{member}");
        match member.as_str() {
            "read" => rights.read = boolean(&place, value)?,
            "insert" => rights.insert = boolean(&place, value)?,
            "update" => rights.update = boolean(&place, value)?,
            "delete" => rights.delete = boolean(&place, value)?,
            "describe" => rights.describe = boolean(&place, value)?,
            "attribute_permissions" => {
                for (index, value) in array(&place, value)?.iter().enumerate() {
                    let place = format!("{place}[{index}]");
                    let (name, attribute) = attribute_rights(&place, value)?;
                    if rights.attributes.insert(name.clone(), attribute).is_some() {
                        let place = format!("{place}.attribute_name");
                        let found = Json::String(name).describe();
                        return Err(Fault::new(
                            &place,
                            format!("{found} once more"),
                            "each attribute once",
                        ));
                    }
                }
            }
            "row_filter" => rights.row_filter = Some(parse_filter(&place, value)?),
            _ => {
                let allowed =
                    "one of read, insert, update, delete, describe, attribute_permissions, row_filter";
                return Err(Fault::new(&place, "not declared", allowed));
            }
        }
    }
    Ok(rights)
}

fn attribute_rights(place: &str, value: &Json) -> Result<(String, AttributeRights), Fault> {
    let (mut name, mut rights) = (None, AttributeRights::default());
    for (member, value) in object(place, value)? {
        let place = format!("{place}.{member}");
        match member.as_str() {
            "attribute_name" => name = Some(text(&place, value)?.to_owned()),
            "read" => rights.read = boolean(&place, value)?,
            "insert" => rights.insert = boolean(&place, value)?,
            "update" => rights.update = boolean(&place, value)?,
            _ => {
                let allowed = "one of attribute_name, read, insert, update";
                return Err(Fault::new(&place, "not declared", allowed));
            }
        }
    }
    match name {
        Some(name) => Ok((name, rights)),
        None => {
            let place = format!("{place}.attribute_name");
            Err(Fault::new(&place, "missing", "the name of an attribute"))
        }
    }
}

pub(super) fn object<'j>(place: &str, value: &'j Json) -> Result<&'j JsonObject, Fault> {
    match value {
        Json::Object(object) => Ok(object),
        other => Err(Fault::new(place, other.describe(), "a JSON object")),
    }
}

pub(super) fn array<'j>(place: &str, value: &'j Json) -> Result<&'j [Json], Fault> {
    match value {
        Json::Array(items) => Ok(items),
        other => Err(Fault::new(place, other.describe(), "an array")),
    }
}

pub(super) fn text<'j>(place: &str, value: &'j Json) -> Result<&'j str, Fault> {
    match value {
        Json::String(text) if !text.is_empty() => Ok(text),
        other => Err(Fault::new(place, other.describe(), "a string that is not empty")),
    }
}

fn boolean(place: &str, value: &Json) -> Result<bool, Fault> {
    match value {
        Json::Bool(value) => Ok(*value),
        other => Err(Fault::new(place, other.describe(), "true or false")),
    }
}
