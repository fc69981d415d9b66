//! A row of cells as a record, and back.
//!
//! The cells of a row give a record with every attribute that has a column, in the order of the columns, null where the cell
//! is empty. A stored record may differ: attributes absent, in another order, undeclared, or of a kind that a cell cannot say.
//! Two columns of this program's own say that, so that a record comes back byte for byte:
//!
//! - `$more`: those attributes, as a JSON object, that no cell can say; their own cells, if there are any, stay empty;
//! - `$attributes`: the names of the attributes that the record has, in their order, with spaces between them; a name that
//!   is no identifier stands as a JSON string with its spaces escaped. Empty where the cells alone give the record. What is not named
//!   and has an empty cell is absent; what is not named and has a cell with something in it comes last, so that a cell can simply be
//!   filled in.

use super::cell::{WrittenCell, read_cell, read_undeclared_cell, write_cell, write_plain_cell};
use super::columns::{Columns, Meaning};
use super::reader::{Cell, RawRow};
use crate::catalog::TableDefinition;
use crate::catalog::json::{Json, JsonObject, object_to_text};
use crate::transfer::row::{FaultPlace, RowFault};

/// Reads a row.
pub(super) fn read_record(
    definition: &TableDefinition,
    columns: &Columns,
    row: &RawRow,
) -> Result<JsonObject, RowFault> {
    let column_count = columns.columns.len();
    if row.cell_count != column_count {
        return Err(RowFault {
            line: row.place.line,
            place: FaultPlace::Row,
            reason: format!(
                "the row has {} cells and the header {column_count}; allowed is a cell for each column, and quotes around one with a comma or a line end in it",
                row.cell_count
            ),
        });
    }
    // By column: the value, and whether the cell says something.
    let mut cells: JsonObject = JsonObject::with_capacity(column_count);
    let mut filled: Vec<&str> = Vec::with_capacity(column_count);
    let (mut more, mut order) = (JsonObject::new(), None);
    let (mut more_column, mut order_column) = (0, 0);
    for (index, column) in columns.columns.iter().enumerate() {
        let Some(cell) = row.cell(index) else {
            continue;
        };
        let text = text_of(&cell, index)?;
        let at_fault = |reason: String| RowFault {
            line: cell.place.line,
            place: FaultPlace::Column(index + 1),
            reason,
        };
        let value = match column.meaning {
            Meaning::More => {
                more = read_more(text).map_err(at_fault)?;
                more_column = index;
                continue;
            }
            Meaning::Attributes => {
                order = read_order(text).map_err(at_fault)?;
                order_column = index;
                continue;
            }
            Meaning::Undeclared => read_undeclared_cell(text),
            Meaning::Declared(attribute) => match definition.attributes.get(attribute) {
                Some(attribute) => read_cell(&attribute.attribute_type, text, cell.is_quoted),
                None => Ok(Json::Null),
            },
        };
        let value = value.map_err(|fault| {
            at_fault(format!(
                "attribute `{}` is {}; allowed is {}",
                column.name, fault.found, fault.allowed
            ))
        })?;
        if value != Json::Null {
            filled.push(&column.name);
        }
        cells.insert(column.name.clone(), value);
    }

    let fault_of = |column: usize, reason: String| RowFault {
        line: row.cell(column).map_or(row.place.line, |cell| cell.place.line),
        place: FaultPlace::Column(column + 1),
        reason,
    };
    if let Some(twice) = more.keys().find(|name| filled.contains(&name.as_str())) {
        let reason =
            format!("attribute `{twice}` stands in $more and in a cell of its own; empty one of them");
        return Err(fault_of(more_column, reason));
    }
    let names = match order {
        None => cells.keys().chain(more.keys()).cloned().collect(),
        Some(order) => {
            let is_known = |name: &String| cells.contains_key(name) || more.contains_key(name);
            if let Some(unknown) = order.iter().find(|name| !is_known(name)) {
                let reason = format!("attribute `{unknown}` has no column and does not stand in $more");
                return Err(fault_of(order_column, reason));
            }
            let unnamed_cells = filled.iter().map(|name| (*name).to_owned());
            order
                .into_iter()
                .chain(unnamed_cells)
                .chain(more.keys().cloned())
                .collect::<Vec<String>>()
        }
    };
    let mut record = JsonObject::with_capacity(names.len());
    for name in names {
        let value = more.get(&name).or_else(|| cells.get(&name));
        if let Some(value) = value.filter(|_| !record.contains_key(&name)) {
            let value = value.clone();
            record.insert(name, value);
        }
    }
    Ok(record)
}

/// Returns the text of a cell.
fn text_of<'a>(cell: &Cell<'a>, index: usize) -> Result<&'a str, RowFault> {
    let fault = |before: &[u8], reason: &dyn Fn(u64) -> String| {
        // In the file each quote inside a quoted cell takes two bytes.
        let doubled = if cell.is_quoted {
            before.iter().filter(|byte| **byte == b'"').count()
        } else {
            0
        };
        let bytes_before = u64::try_from(before.len() + doubled).unwrap_or_default();
        RowFault {
            line: cell.place.line + count_line_ends(before),
            place: FaultPlace::Column(index + 1),
            reason: reason(cell.place.offset + bytes_before + 1),
        }
    };
    let text = std::str::from_utf8(cell.text).map_err(|error| {
        let (before, behind) = cell.text.split_at(error.valid_up_to());
        let byte = behind.first().copied().unwrap_or_default();
        fault(before, &|place| no_utf8(byte, place))
    })?;
    match text.find('\0') {
        None => Ok(text),
        Some(at) => Err(fault(&cell.text[..at], &|place| {
            format!("a NUL at byte {place} of the file; allowed is text in UTF-8 without it")
        })),
    }
}

/// Says that a byte is not UTF-8; `place` is its place in the file, 1-based.
pub(in crate::transfer) fn no_utf8(byte: u8, place: u64) -> String {
    format!(
        "no UTF-8: byte 0x{byte:02x} at byte {place} of the file; convert the file to UTF-8, for example with iconv -f latin1 -t utf-8"
    )
}

fn count_line_ends(text: &[u8]) -> u64 {
    let mut count = 0;
    let mut bytes = text.iter().peekable();
    while let Some(byte) = bytes.next() {
        let is_first_of_two = *byte == b'\r' && bytes.peek() == Some(&&b'\n');
        count += u64::from(matches!(byte, b'\r' | b'\n') && !is_first_of_two);
    }
    count
}

fn read_more(text: &str) -> Result<JsonObject, String> {
    if text.is_empty() {
        return Ok(JsonObject::new());
    }
    match Json::parse(text.as_bytes()) {
        Ok(Json::Object(object)) => Ok(object),
        Ok(other) => Err(format!(
            "$more is {}; allowed is a JSON object, or nothing",
            other.describe()
        )),
        Err(fault) => Err(format!(
            "$more is not valid JSON: {fault}; allowed is a JSON object, or nothing"
        )),
    }
}

fn read_order(text: &str) -> Result<Option<Vec<String>>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut names: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let name = if word.starts_with('"') {
            match Json::parse(word.as_bytes()) {
                Ok(Json::String(name)) => name,
                Ok(_) | Err(_) => {
                    return Err(format!(
                        "$attributes has `{word}`; allowed are names with spaces between them"
                    ));
                }
            }
        } else {
            word.to_owned()
        };
        if names.contains(&name) {
            return Err(format!("$attributes names `{name}` twice"));
        }
        names.push(name);
    }
    Ok(Some(names))
}

fn write_order<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let mut text = String::new();
    for name in names {
        if !text.is_empty() {
            text.push(' ');
        }
        let is_identifier = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_identifier {
            text.push_str(name);
        } else {
            text.push_str(&Json::String(name.clone()).to_text().replace(' ', "\\u0020"));
        }
    }
    text
}

/// Returns the cells of a record, one for each column.
pub(super) fn write_record(
    definition: &TableDefinition,
    columns: &Columns,
    record: &JsonObject,
) -> Vec<WrittenCell> {
    let is_exact = columns
        .columns
        .iter()
        .any(|column| column.meaning == Meaning::Attributes);
    let mut cells = vec![WrittenCell::Null; columns.columns.len()];
    let mut more = JsonObject::new();
    for (name, value) in record {
        let place = columns
            .columns
            .iter()
            .zip(&mut cells)
            .find(|(column, _)| column.name == *name);
        let written = place.and_then(|(column, cell)| {
            let written = match column.meaning {
                Meaning::Declared(index) if is_exact => {
                    write_cell(&definition.attributes.get(index)?.attribute_type, value)
                }
                Meaning::Declared(_) => Some(write_plain_cell(value)),
                Meaning::Undeclared | Meaning::More | Meaning::Attributes => None,
            }?;
            *cell = written;
            Some(())
        });
        if written.is_none() {
            more.insert(name.clone(), value.clone());
        }
    }
    // What the cells and `$more` alone are read as.
    let plain_order = columns
        .columns
        .iter()
        .filter(|column| matches!(column.meaning, Meaning::Declared(_)))
        .map(|column| &column.name)
        .chain(more.keys().filter(|name| columns.find(name).is_none()));
    let is_plain = plain_order.eq(record.keys());
    for (column, cell) in columns.columns.iter().zip(&mut cells) {
        match column.meaning {
            Meaning::More if !more.is_empty() => *cell = WrittenCell::Text(object_to_text(&more)),
            Meaning::Attributes if !is_plain => *cell = WrittenCell::Text(write_order(record.keys())),
            Meaning::More | Meaning::Attributes | Meaning::Declared(_) | Meaning::Undeclared => {}
        }
    }
    cells
}
