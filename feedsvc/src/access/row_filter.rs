//! Row filters: the condition that decides which records of a table there are for a principal.

use super::principal::Principal;
use super::role_json::Fault;
use crate::catalog::json::{Json, JsonObject};
use crate::search::{Binding, Condition, evaluate};

/// What a text of a filter begins with that stands for a value of the principal.
const PLACEHOLDER: &str = "$principal";

/// A filter as a role has it, with placeholders.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowFilter {
    condition: Condition,
}

/// A filter with the values of a principal in the place of placeholders.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundFilter {
    condition: Condition,
}

impl RowFilter {
    /// Returns the top-level attributes that the filter looks at, some perhaps more than once.
    pub(super) fn attributes(&self) -> impl Iterator<Item = &str> {
        let comparisons = self.condition.comparisons().into_iter();
        comparisons.map(|comparison| comparison.attribute().root())
    }

    /// Puts in the values of a principal. A value that it does not have, the empty name included, makes its comparison hold for nothing.
    pub(super) fn bind(&self, principal: &Principal) -> BoundFilter {
        let resolve = |text: &str| {
            let value = match placeholder(text) {
                None => return Binding::Literal,
                Some(Placeholder::Name) => Some(&principal.name).filter(|name| !name.is_empty()),
                Some(Placeholder::Attribute(name)) => principal.attributes.get(name),
                Some(Placeholder::Unknown) => None,
            };
            match value {
                Some(value) => Binding::Value(Json::String(value.clone())),
                None => Binding::Missing,
            }
        };
        BoundFilter {
            condition: self.condition.bind(&resolve),
        }
    }
}

impl BoundFilter {
    /// Whether a record is there.
    pub(crate) fn holds(&self, record: &JsonObject) -> bool {
        evaluate(&self.condition, record)
    }

    /// Returns the condition, for a search to add to its own.
    pub(crate) fn condition(&self) -> &Condition {
        &self.condition
    }
}

/// Reads a filter.
pub(super) fn parse_filter(place: &str, value: &Json) -> Result<RowFilter, Fault> {
    let condition = Condition::from_json(place, value).map_err(|fault| {
        Fault::new(
            &fault.place,
            format!("not right: {}", fault.problem),
            "a row filter",
        )
    })?;
    check_placeholders(place, value)?;
    Ok(RowFilter { condition })
}

/// A placeholder that stands for nothing would silently hide every record.
fn check_placeholders(place: &str, value: &Json) -> Result<(), Fault> {
    match value {
        Json::String(text) if matches!(placeholder(text), Some(Placeholder::Unknown)) => {
            let allowed = "$principal.name or $principal.attributes.X";
            Err(Fault::new(place, value.describe(), allowed))
        }
        Json::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| check_placeholders(&format!("{place}[{index}]"), item)),
        Json::Object(members) => members
            .iter()
            .try_for_each(|(name, member)| check_placeholders(&format!("{place}.{name}"), member)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Ok(()),
    }
}

enum Placeholder<'a> {
    Name,
    Attribute(&'a str),
    Unknown,
}

fn placeholder(text: &str) -> Option<Placeholder<'_>> {
    let rest = text.strip_prefix(PLACEHOLDER)?;
    Some(match (rest, rest.strip_prefix(".attributes.")) {
        (".name", _) => Placeholder::Name,
        (_, Some(name)) if !name.is_empty() => Placeholder::Attribute(name),
        (_, _) => Placeholder::Unknown,
    })
}
