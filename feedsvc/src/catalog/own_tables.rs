//! The tables of the service itself that super_users write as records: roles and users.
//!
//! They are open tables, whose records `access` checks: a role names databases as attributes. They are not in the answer of
//! `GetCatalog`, since they are no part of the schema, and not exported.

use super::model::{Attribute, AttributeType, Shape, TableDefinition, TableName};
use super::scalar::Scalar;

/// The attribute in which a role or a user has its key. A database of this name cannot be given rights on.
pub(crate) const OWN_KEY_ATTRIBUTE: &str = "id";

/// The names and definitions of these tables.
pub(crate) const OWN_TABLES: [fn() -> TableDefinition; 2] = [
    || definition(TableName::system_role()),
    || definition(TableName::system_user()),
];

fn definition(name: TableName) -> TableDefinition {
    let key = Attribute {
        name: OWN_KEY_ATTRIBUTE.to_owned(),
        attribute_type: AttributeType {
            shape: Shape::Scalar(Scalar::Id),
            is_nullable: true,
        },
        description: String::new(),
        primary_key: true,
        created_time: false,
        updated_time: false,
        indexed: false,
    };
    TableDefinition {
        database: name.database,
        table: name.table,
        path: None,
        description: String::new(),
        open: true,
        attributes: vec![key],
    }
}
