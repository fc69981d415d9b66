//! Brings the catalogue to what a schema says. Tables are records of `system.table`, so every difference is an entry.

use std::sync::Arc;

use proto::feed::v1::Operation;

use super::draft::{Draft, NotApplied};
use crate::catalog::{Catalog, TableDefinition, TableId, TableName};
use crate::entry::{CommitHeader, encode_change};
use crate::revision::Revision;
use crate::store::{StoreError, StoredRecord, Subject};

/// A table that comes, changes or goes.
struct Difference<'a> {
    name: TableName,
    /// `None`: the table leaves the catalogue; its records stay in the store.
    definition: Option<&'a TableDefinition>,
}

/// Commits every difference between the catalogue and the definitions; returns how many there were.
pub(super) fn run(
    draft: &mut Draft<'_>,
    definitions: &[TableDefinition],
    now_ms: i64,
) -> Result<usize, NotApplied> {
    let differences = find_differences(&draft.catalog, definitions);
    if differences.is_empty() {
        return Ok(0);
    }
    let mut catalog = Catalog::clone(&draft.catalog);
    let system_id = match catalog.find_id(&TableName::system_table()) {
        Some(id) => id,
        None => {
            let id = draft.transaction.create_table(&TableName::system_table())?;
            catalog.note_id(TableName::system_table(), id);
            id
        }
    };
    let header = CommitHeader {
        commit_time_ms: draft.commit_time_ms(now_ms),
        commit_end: Revision(draft.head().0 + differences.len() as u64),
        principal: "",
        traceparent: "",
    };
    for difference in &differences {
        write(draft, &mut catalog, system_id, &header, difference)?;
    }
    catalog.revision = draft.head();
    draft.catalog = Arc::new(catalog);
    Ok(differences.len())
}

fn find_differences<'a>(catalog: &Catalog, definitions: &'a [TableDefinition]) -> Vec<Difference<'a>> {
    let gone = catalog
        .tables()
        .filter(|table| {
            !definitions
                .iter()
                .any(|definition| definition.name() == table.name)
        })
        .map(|table| Difference {
            name: table.name.clone(),
            definition: None,
        });
    let new_or_changed = definitions
        .iter()
        .filter(|definition| {
            catalog
                .find(&definition.name())
                .is_none_or(|table| table.definition != **definition)
        })
        .map(|definition| Difference {
            name: definition.name(),
            definition: Some(definition),
        });
    gone.chain(new_or_changed).collect()
}

/// Makes and retires indexes, so that exactly the attributes have one that the definition says.
fn set_indexes(
    draft: &mut Draft<'_>,
    table: TableId,
    definition: &TableDefinition,
) -> Result<(), StoreError> {
    let present = draft.transaction.read_indexes(table)?;
    let is_wanted = |name: &str| {
        let attribute = definition.find_attribute(name);
        attribute.is_some_and(|attribute| attribute.indexed)
    };
    for index in present.iter().filter(|index| !is_wanted(&index.attribute)) {
        draft.transaction.retire_index(index.id)?;
    }
    let wanted = definition.attributes.iter().filter(|attribute| attribute.indexed);
    for attribute in wanted {
        if !present.iter().any(|index| index.attribute == attribute.name) {
            draft.transaction.create_index(table, &attribute.name)?;
        }
    }
    Ok(())
}

fn write(
    draft: &mut Draft<'_>,
    catalog: &mut Catalog,
    system_id: TableId,
    header: &CommitHeader<'_>,
    difference: &Difference<'_>,
) -> Result<(), StoreError> {
    let revision = draft.head().next();
    let key = difference.name.to_string();
    let before = draft.transaction.find_record(system_id, &key)?;
    let after = match difference.definition {
        Some(definition) => {
            let value = serde_json::to_string(definition).map_err(|_| StoreError::Damaged {
                problem: "a table that cannot be written as JSON",
                revision,
            })?;
            let record = StoredRecord {
                revision,
                value: value.into(),
            };
            draft
                .transaction
                .write_record(system_id, &key, &record, before.is_some())?;
            let id = match catalog.find_id(&difference.name) {
                Some(id) => id,
                None => draft.transaction.create_table(&difference.name)?,
            };
            set_indexes(draft, id, definition)?;
            catalog.insert(id, definition.clone());
            Some(record)
        }
        None => {
            draft.transaction.remove_record(system_id, &key)?;
            if let Some(id) = catalog.find_id(&difference.name) {
                for index in draft.transaction.read_indexes(id)? {
                    draft.transaction.retire_index(index.id)?;
                }
            }
            catalog.remove(&difference.name);
            None
        }
    };
    let operation = match (&before, &after) {
        (None, _) => Operation::Insert,
        (Some(_), Some(_)) => Operation::Update,
        (Some(_), None) => Operation::Delete,
    };
    let encoded = encode_change(header, revision, operation, &TableName::system_table(), &key);
    draft.append(
        "",
        Subject::Record {
            table: system_id,
            key: &key,
        },
        encoded,
        before.as_ref().map(|record| record.value.as_ref()),
        after.as_ref().map(|record| record.value.as_ref()),
    )
}
