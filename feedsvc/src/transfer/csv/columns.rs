//! What the columns of a file mean.

use super::reader::RawRow;
use crate::catalog::TableDefinition;

/// The column with those attributes of a record, as a JSON object, that no cell can say. No declared name can begin with `$`.
pub(in crate::transfer) const MORE: &str = "$more";
/// The column with the names of the attributes that a record has, in their order.
pub(in crate::transfer) const ATTRIBUTES: &str = "$attributes";

/// The columns of a file, in their order.
#[derive(Clone, Debug)]
pub(in crate::transfer) struct Columns {
    pub(super) columns: Vec<Column>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) meaning: Meaning,
}

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Values of a declared attribute: its position in the table's definition.
    Declared(usize),
    /// Values of an attribute that an open table does not declare.
    Undeclared,
    /// See [`MORE`].
    More,
    /// See [`ATTRIBUTES`].
    Attributes,
}

impl Columns {
    /// Returns the columns of an export: what a writer of records gives, in the order of the schema, then the times that the
    /// service fills in, as it does when it stores a record; unless `is_plain`, then the two columns of this program.
    pub(super) fn of_table(definition: &TableDefinition, is_plain: bool) -> Columns {
        let declared = |is_stamped: bool| {
            definition
                .attributes
                .iter()
                .enumerate()
                .filter(move |(_, attribute)| attribute.is_stamped() == is_stamped)
                .map(|(index, attribute)| Column {
                    name: attribute.name.clone(),
                    meaning: Meaning::Declared(index),
                })
        };
        let mut columns: Vec<Column> = declared(false).chain(declared(true)).collect();
        if !is_plain {
            for (name, meaning) in [(MORE, Meaning::More), (ATTRIBUTES, Meaning::Attributes)] {
                columns.push(Column {
                    name: name.to_owned(),
                    meaning,
                });
            }
        }
        Columns { columns }
    }

    /// Reads a header row.
    ///
    /// # Errors
    /// Everything that is wrong with it, one text for each.
    pub(super) fn of_header(definition: &TableDefinition, row: &RawRow) -> Result<Columns, Vec<String>> {
        let (mut columns, mut problems) = (Vec::<Column>::new(), Vec::new());
        for index in 0..row.cell_count {
            let number = index + 1;
            let Some(cell) = row.cell(index) else {
                problems.push(format!("it has {} columns, too many", row.cell_count));
                break;
            };
            let Ok(name) = std::str::from_utf8(cell.text) else {
                problems.push(format!("column {number} is no UTF-8"));
                continue;
            };
            if let Some(first) = columns.iter().position(|column| column.name == name) {
                problems.push(format!(
                    "column {number} `{name}` stands in column {} already",
                    first + 1
                ));
            }
            let meaning = meaning_of(definition, name);
            if name.is_empty() {
                problems.push(format!("column {number} has no name"));
            } else if meaning.is_none() {
                problems.push(format!("column {number} `{}` is unknown", shortened(name)));
            }
            // Unknown ones are kept so that positions are those of the file.
            columns.push(Column {
                name: name.to_owned(),
                meaning: meaning.unwrap_or(Meaning::Undeclared),
            });
        }
        let columns = Columns { columns };
        problems.extend(columns.missing(definition));
        if problems.is_empty() {
            return Ok(columns);
        }
        if let [only] = columns.columns.as_slice()
            && let Some(separator) = [';', '\t', '|']
                .into_iter()
                .find(|other| only.name.contains(*other))
        {
            problems.push(format!("columns are separated by commas, not by {separator:?}"));
        }
        let allowed: Vec<&str> = definition
            .attributes
            .iter()
            .map(|attribute| attribute.name.as_str())
            .chain([MORE, ATTRIBUTES])
            .collect();
        problems.push(format!("allowed are {}", allowed.join(", ")));
        Err(problems)
    }

    /// Tells of attributes without which no record can be made.
    fn missing(&self, definition: &TableDefinition) -> Vec<String> {
        if self.find(MORE).is_some() {
            return Vec::new();
        }
        definition
            .attributes
            .iter()
            .filter(|attribute| {
                attribute.primary_key || !(attribute.attribute_type.is_nullable || attribute.is_stamped())
            })
            .filter(|attribute| self.find(&attribute.name).is_none())
            .map(|attribute| {
                let role = if attribute.primary_key { "the key " } else { "" };
                format!(
                    "{role}`{}` ({}) has no column",
                    attribute.name, attribute.attribute_type
                )
            })
            .collect()
    }

    /// Finds the position of a column by its name.
    pub(in crate::transfer) fn find(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

fn meaning_of(definition: &TableDefinition, name: &str) -> Option<Meaning> {
    let declared = definition
        .attributes
        .iter()
        .position(|attribute| attribute.name == name);
    match (declared, name) {
        (Some(index), _) => Some(Meaning::Declared(index)),
        (None, MORE) => Some(Meaning::More),
        (None, ATTRIBUTES) => Some(Meaning::Attributes),
        (None, _) => (definition.open && !name.is_empty()).then_some(Meaning::Undeclared),
    }
}

/// A name that may be a whole row of a file that is no CSV.
fn shortened(name: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    match name.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
