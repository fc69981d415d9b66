//! Which table is meant, and what its records look like.

use std::sync::Arc;

use proto::feed::v1::{Attribute as AttributeMessage, Table as TableMessage};

use crate::catalog::{Attribute, AttributeType, CatalogTable, TableDefinition, TableId};

/// Why no table could be taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum TableFault {
    #[error("there is no table `{name}`; there are {}", tables.join(", "))]
    Unknown { name: String, tables: Vec<String> },
    #[error("`{name}` may be any of {}; name one of these", tables.join(", "))]
    Ambiguous { name: String, tables: Vec<String> },
    #[error(
        "table {table} has an attribute `{attribute}` of type `{kind}`, which this program does not know; use the version of the service"
    )]
    Newer {
        table: String,
        attribute: String,
        kind: String,
    },
}

/// Finds a table by its full name, or else by its name or exported path alone.
pub(super) fn find_table(tables: &[TableMessage], name: &str) -> Result<Arc<CatalogTable>, TableFault> {
    let full_name = |table: &TableMessage| format!("{}.{}", table.database, table.name);
    let exact = tables.iter().find(|table| full_name(table) == name);
    let found: Vec<&TableMessage> = match exact {
        Some(table) => vec![table],
        None => tables
            .iter()
            .filter(|table| table.name == name || (!table.path.is_empty() && table.path == name))
            .collect(),
    };
    match found.as_slice() {
        [table] => Ok(Arc::new(read_table(table)?)),
        [] => Err(TableFault::Unknown {
            name: name.to_owned(),
            tables: tables.iter().map(full_name).collect(),
        }),
        several => Err(TableFault::Ambiguous {
            name: name.to_owned(),
            tables: several.iter().map(|table| full_name(table)).collect(),
        }),
    }
}

/// Reads what a table is from the catalogue that the service sends.
fn read_table(table: &TableMessage) -> Result<CatalogTable, TableFault> {
    let attributes = table.attributes.iter().map(|attribute| {
        let kind = AttributeType::try_from(attribute.r#type.clone());
        kind.map(|attribute_type| read_attribute(attribute, attribute_type))
            .map_err(|_unknown| TableFault::Newer {
                table: format!("{}.{}", table.database, table.name),
                attribute: attribute.name.clone(),
                kind: attribute.r#type.clone(),
            })
    });
    let definition = TableDefinition {
        database: table.database.clone(),
        table: table.name.clone(),
        path: (!table.path.is_empty()).then(|| table.path.clone()),
        description: table.description.clone(),
        open: table.open,
        attributes: attributes.collect::<Result<_, _>>()?,
    };
    Ok(CatalogTable {
        // Means something to the service's own store only.
        id: TableId(0),
        name: definition.name(),
        definition,
    })
}

fn read_attribute(attribute: &AttributeMessage, attribute_type: AttributeType) -> Attribute {
    Attribute {
        name: attribute.name.clone(),
        attribute_type,
        description: attribute.description.clone(),
        primary_key: attribute.primary_key,
        created_time: attribute.created_time,
        updated_time: attribute.updated_time,
        indexed: attribute.indexed,
    }
}

#[cfg(test)]
mod tests {
    use proto::feed::v1::Table;

    use super::find_table;

    fn check(name: &str, expected: &str) {
        let table = |database: &str, name: &str, path: &str| Table {
            database: database.to_owned(),
            name: name.to_owned(),
            path: path.to_owned(),
            ..Table::default()
        };
        let tables = [
            table("data", "Item", ""),
            table("data", "Product", "goods"),
            table("shop", "Product", "Item"),
            table("shop", "goods", "data.Item"),
        ];
        let found = match find_table(&tables, name) {
            Ok(table) => table.name.to_string(),
            Err(fault) => fault.to_string(),
        };
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn a_table_is_meant_by_its_full_name_or_by_what_only_it_has() {
        check("data.Product", "data.Product");
        check("data.Item", "data.Item");
        check(
            "goods",
            "`goods` may be any of data.Product, shop.goods; name one of these",
        );
        check(
            "Item",
            "`Item` may be any of data.Item, shop.Product; name one of these",
        );
        check(
            "Nothing",
            "there is no table `Nothing`; there are data.Item, data.Product, shop.Product, shop.goods",
        );
        check(
            "",
            "there is no table ``; there are data.Item, data.Product, shop.Product, shop.goods",
        );
    }
}
