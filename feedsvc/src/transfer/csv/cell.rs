//! A cell as a value of its attribute's type, and back.
//!
//! An empty cell without quotes is null. An empty quoted one is the empty text where the type has one, else null too, since
//! some programs quote every cell.

use crate::catalog::json::Json;
use crate::catalog::{AttributeType, Scalar, Shape};

/// A cell to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WrittenCell {
    /// Nothing at all between two commas.
    Null,
    /// A text, with quotes around it where they are needed; always if it is empty.
    Text(String),
}

/// Why a cell holds no value of its type: what was found, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CellFault {
    pub(super) found: String,
    pub(super) allowed: String,
}

/// Reads a cell.
pub(super) fn read_cell(
    attribute_type: &AttributeType,
    text: &str,
    is_quoted: bool,
) -> Result<Json, CellFault> {
    if text.is_empty() {
        return Ok(match &attribute_type.shape {
            Shape::Scalar(Scalar::Id | Scalar::String | Scalar::Bytes) if is_quoted => {
                Json::String(String::new())
            }
            Shape::Scalar(_) | Shape::List(_) => Json::Null,
        });
    }
    match &attribute_type.shape {
        Shape::List(_) => read_json(text, "a list as a JSON array, in a quoted cell"),
        Shape::Scalar(Scalar::Any) => read_json(text, "a value as JSON, a string so in quotes of its own"),
        Shape::Scalar(scalar) => {
            let value = read_scalar(*scalar, text);
            match value {
                Some(value) if scalar.takes(&value) => Ok(value),
                Some(_) | None => Err(CellFault {
                    found: Json::String(text.to_owned()).describe(),
                    allowed: format!("{} ({attribute_type})", scalar.allowed()),
                }),
            }
        }
    }
}

/// Reads a cell of a column that the table does not declare.
pub(super) fn read_undeclared_cell(text: &str) -> Result<Json, CellFault> {
    if text.is_empty() {
        return Ok(Json::Null);
    }
    read_json(text, "a value as JSON, a string so in quotes of its own")
}

fn read_json(text: &str, allowed: &str) -> Result<Json, CellFault> {
    Json::parse(text.as_bytes()).map_err(|fault| CellFault {
        found: format!("not valid JSON: {fault}"),
        allowed: allowed.to_owned(),
    })
}

/// Returns the value that a text would be; whether the type takes it is not looked at.
fn read_scalar(scalar: Scalar, text: &str) -> Option<Json> {
    let number = || match Json::parse(text.as_bytes()) {
        Ok(Json::Number(number)) => Some(Json::Number(number)),
        Ok(_) | Err(_) => None,
    };
    let string = || Some(Json::String(text.to_owned()));
    match scalar {
        Scalar::Id | Scalar::String | Scalar::Bytes => string(),
        Scalar::Int | Scalar::Long | Scalar::BigInt | Scalar::Float => number(),
        // A date is no number and a number no date, so a cell can say both.
        Scalar::Date => number().or_else(string),
        Scalar::Boolean => {
            let value = text.eq_ignore_ascii_case("true");
            (value || text.eq_ignore_ascii_case("false")).then_some(Json::Bool(value))
        }
        Scalar::Any => Json::parse(text.as_bytes()).ok(),
    }
}

/// Returns the cell that is read as exactly this value; `None` if there is none, as for the number 7 in an ID.
pub(super) fn write_cell(attribute_type: &AttributeType, value: &Json) -> Option<WrittenCell> {
    let cell = write_plain_cell(value);
    let is_read_back = match &cell {
        WrittenCell::Null => true,
        // No program handles a NUL in a file well; an import refuses it.
        WrittenCell::Text(text) => {
            !text.contains('\0') && read_cell(attribute_type, text, true).as_ref() == Ok(value)
        }
    };
    if is_read_back {
        return Some(cell);
    }
    // A string in a type that is written as JSON.
    let text = value.to_text();
    (read_cell(attribute_type, &text, true).as_ref() == Ok(value)).then_some(WrittenCell::Text(text))
}

/// Returns the cell that shows a value, whether or not it is read as the same.
pub(super) fn write_plain_cell(value: &Json) -> WrittenCell {
    match value {
        Json::Null => WrittenCell::Null,
        Json::String(text) | Json::Number(text) => WrittenCell::Text(text.clone()),
        Json::Bool(_) | Json::Array(_) | Json::Object(_) => WrittenCell::Text(value.to_text()),
    }
}
