//! Condition trees: comparisons of attributes with values, joined by all and any (feed.proto, `SearchCondition`).
//!
//! A tree is made by `Condition::group` and [`Comparison::new`] only, which hold its parts to the contract, and is
//! checked as a whole by [`Condition::check_size`].

use std::fmt;

use super::sort_key::{OrderedType, equality_key, sort_key};
use crate::catalog::json::{Json, JsonObject};

/// The most levels of a tree (feed.proto, `ConditionGroup`); a single comparison has one.
pub(crate) const LEVELS_MAX: usize = 8;
/// The most comparisons of a tree, and the most groups (feed.proto, `ConditionGroup`).
pub(crate) const COMPARISONS_MAX: usize = 100;
/// The most values of an `in` (feed.proto, `Comparison.value`).
pub(crate) const IN_VALUES_MAX: usize = 1_000;
/// The longest attribute, with its dots.
const ATTRIBUTE_LIMIT_BYTES: usize = 1_024;

/// What must hold for a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    Comparison(Comparison),
    /// Holds if all hold; an empty one holds.
    All(Vec<Condition>),
    /// Holds if one holds; an empty one does not.
    Any(Vec<Condition>),
}

/// Compares an attribute with a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    pub(super) attribute: AttributePath,
    pub(super) comparator: Comparator,
    /// As it was given.
    pub(super) value: Json,
    /// What the value is compared by. One key for most comparators, two for `between`, sorted ones for `in`; keys of
    /// order for comparators of order, else keys of equality.
    pub(super) keys: Vec<Vec<u8>>,
}

/// An attribute of a record, or one inside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttributePath(String);

macro_rules! comparators {
    ($($variant:ident = $name:literal,)*) => {
        /// How an attribute is compared (feed.proto, `Comparator`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Comparator {
            $($variant,)*
        }

        impl Comparator {
            /// All comparators.
            pub(crate) const ALL: &[Comparator] = &[$(Comparator::$variant,)*];
            /// The names of all comparators, for messages.
            pub(crate) const NAMES: &[&str] = &[$($name,)*];

            /// Returns the name, as MCP and row filters write it.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Comparator::$variant => $name,)*
                }
            }
        }
    };
}

comparators! {
    Equals = "equals",
    NotEquals = "not_equals",
    Contains = "contains",
    StartsWith = "starts_with",
    EndsWith = "ends_with",
    GreaterThan = "greater_than",
    GreaterThanEqual = "greater_than_equal",
    LessThan = "less_than",
    LessThanEqual = "less_than_equal",
    Between = "between",
    In = "in",
}

/// Why a condition is none that can be searched by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid `{place}`: {problem}")]
pub(crate) struct ConditionFault {
    /// Where it is, as `condition.conditions[2].value`.
    pub(crate) place: String,
    /// What is wrong there, with the value, and what is allowed.
    pub(crate) problem: String,
}

impl ConditionFault {
    pub(crate) fn new(place: impl Into<String>, problem: impl Into<String>) -> ConditionFault {
        ConditionFault {
            place: place.into(),
            problem: problem.into(),
        }
    }
}

/// What a placeholder of a row filter stands for; see [`Condition::bind`].
pub(crate) enum Binding {
    /// The text is none, and stands for itself.
    Literal,
    /// It stands for this value.
    Value(Json),
    /// It stands for a value that is not there.
    Missing,
}

impl Condition {
    /// Checks the bounds of the whole tree.
    pub(crate) fn check_size(&self, place: &str) -> Result<(), ConditionFault> {
        let size = Size::of(self);
        if size.levels > LEVELS_MAX {
            let problem = format!("it has {} levels; allowed are {LEVELS_MAX}", size.levels);
            return Err(ConditionFault::new(place, problem));
        }
        for (count, what) in [(size.comparisons, "comparisons"), (size.groups, "groups")] {
            if count > COMPARISONS_MAX {
                let problem = format!("it has {count} {what}; allowed are {COMPARISONS_MAX}");
                return Err(ConditionFault::new(place, problem));
            }
        }
        Ok(())
    }

    /// Returns the tree with every text of a value that `resolve` knows replaced, for row filters with `$principal.…`.
    ///
    /// A comparison with a value that is missing does not hold, whatever its comparator: a filter that cannot be
    /// evaluated shows nothing.
    pub(crate) fn bind(&self, resolve: &dyn Fn(&str) -> Binding) -> Condition {
        let bind_all = |conditions: &[Condition]| {
            conditions
                .iter()
                .map(|condition| condition.bind(resolve))
                .collect()
        };
        match self {
            Condition::All(conditions) => Condition::All(bind_all(conditions)),
            Condition::Any(conditions) => Condition::Any(bind_all(conditions)),
            Condition::Comparison(comparison) => {
                let bound = bind_value(&comparison.value, resolve).and_then(|value| {
                    Comparison::new("", comparison.attribute.clone(), comparison.comparator, value).ok()
                });
                bound.map_or(Condition::Any(Vec::new()), Condition::Comparison)
            }
        }
    }

    /// Returns every comparison of the tree.
    pub(crate) fn comparisons(&self) -> Vec<&Comparison> {
        match self {
            Condition::Comparison(comparison) => vec![comparison],
            Condition::All(conditions) | Condition::Any(conditions) => {
                conditions.iter().flat_map(Condition::comparisons).collect()
            }
        }
    }
}

/// Replaces the texts of a value, and those right inside a list.
fn bind_value(value: &Json, resolve: &dyn Fn(&str) -> Binding) -> Option<Json> {
    match value {
        Json::String(text) => match resolve(text) {
            Binding::Literal => Some(value.clone()),
            Binding::Value(value) => Some(value),
            Binding::Missing => None,
        },
        Json::Array(items) => {
            let bound: Option<Vec<Json>> = items.iter().map(|item| bind_value(item, resolve)).collect();
            bound.map(Json::Array)
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => Some(value.clone()),
    }
}

struct Size {
    levels: usize,
    comparisons: usize,
    groups: usize,
}

impl Size {
    fn of(condition: &Condition) -> Size {
        match condition {
            Condition::Comparison(_) => Size {
                levels: 1,
                comparisons: 1,
                groups: 0,
            },
            Condition::All(conditions) | Condition::Any(conditions) => {
                let mut size = Size {
                    levels: 0,
                    comparisons: 0,
                    groups: 1,
                };
                for inner in conditions.iter().map(Size::of) {
                    size.levels = size.levels.max(inner.levels);
                    size.comparisons += inner.comparisons;
                    size.groups += inner.groups;
                }
                size.levels += 1;
                size
            }
        }
    }
}

impl Comparison {
    /// Makes a comparison.
    ///
    /// # Errors
    /// The comparator cannot be used with this value; the place is `place.value`.
    pub(crate) fn new(
        place: &str,
        attribute: AttributePath,
        comparator: Comparator,
        value: Json,
    ) -> Result<Comparison, ConditionFault> {
        let fault = |allowed: &str| {
            let problem = format!(
                "`{comparator}` cannot compare `{attribute}` with {}; allowed is {allowed}",
                value.describe()
            );
            Err(ConditionFault::new(format!("{place}.value"), problem))
        };
        let keys = match comparator {
            Comparator::Equals | Comparator::NotEquals | Comparator::Contains => vec![equality_key(&value)],
            Comparator::StartsWith | Comparator::EndsWith => match &value {
                Json::String(_) => vec![equality_key(&value)],
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                    return fault("a string");
                }
            },
            Comparator::GreaterThan
            | Comparator::GreaterThanEqual
            | Comparator::LessThan
            | Comparator::LessThanEqual => match OrderedType::find(&value) {
                Some(_) => vec![sort_key(&value)],
                None => return fault("a string, a number, true or false"),
            },
            Comparator::Between => match &value {
                Json::Array(bounds) => match bounds.as_slice() {
                    [low, high] if OrderedType::find(low).is_some() => {
                        if OrderedType::find(low) != OrderedType::find(high) {
                            let problem = format!(
                                "`{comparator}` cannot compare `{attribute}` with {} and {}; allowed are two strings, two numbers or two booleans",
                                low.describe(),
                                high.describe()
                            );
                            return Err(ConditionFault::new(format!("{place}.value"), problem));
                        }
                        vec![sort_key(low), sort_key(high)]
                    }
                    _ => return fault("a list of two strings, two numbers or two booleans"),
                },
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
                    return fault("a list of two strings, two numbers or two booleans");
                }
            },
            Comparator::In => match &value {
                Json::Array(values) if values.len() <= IN_VALUES_MAX => {
                    let mut keys: Vec<Vec<u8>> = values.iter().map(equality_key).collect();
                    keys.sort();
                    keys
                }
                Json::Null
                | Json::Bool(_)
                | Json::Number(_)
                | Json::String(_)
                | Json::Array(_)
                | Json::Object(_) => {
                    return fault("a list of at most 1000 values");
                }
            },
        };
        Ok(Comparison {
            attribute,
            comparator,
            value,
            keys,
        })
    }

    /// Returns the attribute that is compared.
    pub(crate) fn attribute(&self) -> &AttributePath {
        &self.attribute
    }
}

impl Comparator {
    /// Finds the comparator with this name.
    pub(crate) fn find(name: &str) -> Option<Comparator> {
        Comparator::ALL
            .iter()
            .copied()
            .find(|comparator| comparator.name() == name)
    }
}

impl fmt::Display for Comparator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl AttributePath {
    /// Makes a path of a text in which a dot reaches into a nested object; `place` is where it stands in the request.
    pub(crate) fn parse(place: &str, text: &str) -> Result<AttributePath, ConditionFault> {
        if text.is_empty() {
            return Err(ConditionFault::new(place, "it is empty; name an attribute"));
        }
        if text.len() > ATTRIBUTE_LIMIT_BYTES {
            let problem = format!("it has {} bytes; allowed are {ATTRIBUTE_LIMIT_BYTES}", text.len());
            return Err(ConditionFault::new(place, problem));
        }
        if text.split('.').any(str::is_empty) {
            let found = Json::String(text.to_owned()).describe();
            let problem = format!("it is {found}, in which a name beside a dot is empty");
            return Err(ConditionFault::new(place, problem));
        }
        Ok(AttributePath(text.to_owned()))
    }

    /// Returns the text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the attribute of the record itself that the path begins with.
    pub(crate) fn root(&self) -> &str {
        self.0.split('.').next().unwrap_or_default()
    }

    /// Finds the value in a record; absent is null.
    pub(crate) fn find<'a>(&self, record: &'a JsonObject) -> &'a Json {
        const ABSENT: &Json = &Json::Null;
        let mut object = record;
        let mut found = ABSENT;
        let mut names = self.0.split('.').peekable();
        while let Some(name) = names.next() {
            found = object.get(name).unwrap_or(ABSENT);
            if names.peek().is_some() {
                match found {
                    Json::Object(inner) => object = inner,
                    Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
                        return ABSENT;
                    }
                }
            }
        }
        found
    }
}

impl fmt::Display for AttributePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
