//! What is searched for, held to what the table has.

use std::fmt::Write;
use std::sync::Arc;

use super::condition::{AttributePath, Comparator, Comparison, Condition, ConditionFault};
use super::visibility::Visibility;
use crate::catalog::json::Json;
use crate::catalog::{AttributeType, CatalogTable, Scalar, Shape, TableDefinition, TableId, TableName};

/// The most steps of an order (feed.proto, `SearchRequest.sort`).
pub(crate) const SORT_STEPS_MAX: usize = 5;

/// A table whose records are read.
#[derive(Clone, Debug)]
pub(crate) struct SearchedTable {
    pub(crate) id: TableId,
    pub(crate) name: TableName,
    /// `None`: one of the service's own tables, whose records may have any attribute.
    pub(crate) schema: Option<Arc<CatalogTable>>,
}

impl SearchedTable {
    /// Returns the primary key, if the table has one that is known.
    pub(super) fn find_primary_key(&self) -> Option<(&str, Scalar)> {
        let (attribute, scalar) = self.definition()?.find_primary_key()?;
        Some((&attribute.name, scalar))
    }

    fn definition(&self) -> Option<&TableDefinition> {
        self.schema.as_ref().map(|table| &table.definition)
    }

    /// Whether an attribute can be declared `@indexed`: it stands in the schema and is no list.
    pub(super) fn can_index(&self, attribute: &str) -> bool {
        let found = self
            .definition()
            .and_then(|definition| definition.find_attribute(attribute));
        found.is_some_and(|attribute| matches!(attribute.attribute_type.shape, Shape::Scalar(_)))
    }
}

/// One step of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SortStep {
    pub(crate) attribute: AttributePath,
    pub(crate) descending: bool,
}

/// A search without its paging.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) table: SearchedTable,
    pub(crate) condition: Option<Condition>,
    pub(crate) sort: Vec<SortStep>,
    /// What each record is cut down to; empty: everything that may be seen.
    pub(crate) attributes: Vec<String>,
}

impl Query {
    /// Checks every attribute and value against the table and what may be seen of it.
    ///
    /// # Errors
    /// The first attribute that is unknown, or the first value that it cannot have.
    pub(crate) fn check(&self, visibility: &Visibility) -> Result<(), ConditionFault> {
        let check = Check {
            table: &self.table,
            visibility,
        };
        if let Some(condition) = &self.condition {
            check_condition(condition, "condition", &check)?;
        }
        for (index, step) in self.sort.iter().enumerate() {
            check.declared(&format!("sort[{index}].attribute"), &step.attribute)?;
        }
        for (index, name) in self.attributes.iter().enumerate() {
            let place = format!("attributes[{index}]");
            let attribute = AttributePath::parse(&place, name)?;
            if attribute.root() != name && !check.is_open() {
                let problem = format!("`{name}` is inside of an attribute; name `{}`", attribute.root());
                return Err(ConditionFault::new(place, problem));
            }
            check.declared(&place, &attribute)?;
        }
        Ok(())
    }
}

fn check_condition(condition: &Condition, place: &str, check: &Check<'_>) -> Result<(), ConditionFault> {
    match condition {
        Condition::Comparison(comparison) => check.comparison(place, comparison),
        Condition::All(conditions) | Condition::Any(conditions) => {
            for (index, condition) in conditions.iter().enumerate() {
                check_condition(condition, &format!("{place}.conditions[{index}]"), check)?;
            }
            Ok(())
        }
    }
}

/// What a path leads to.
enum Declared<'a> {
    Typed(&'a AttributeType),
    /// Anything may be there.
    Untyped,
}

struct Check<'a> {
    table: &'a SearchedTable,
    visibility: &'a Visibility,
}

impl Check<'_> {
    fn is_open(&self) -> bool {
        self.table.definition().is_none_or(|definition| definition.open)
    }

    fn declared(&self, place: &str, path: &AttributePath) -> Result<Declared<'_>, ConditionFault> {
        let root = path.root();
        let declared = self
            .table
            .definition()
            .and_then(|definition| definition.find_attribute(root))
            .filter(|_| self.visibility.shows(root));
        match declared.map(|attribute| &attribute.attribute_type) {
            Some(declared) if path.as_str() == root => Ok(Declared::Typed(declared)),
            Some(AttributeType {
                shape: Shape::Scalar(Scalar::Any),
                ..
            }) => Ok(Declared::Untyped),
            Some(declared) => {
                let problem =
                    format!("`{root}` has the type {declared}, which has nothing inside for `{path}`");
                Err(ConditionFault::new(place, problem))
            }
            None if self.is_open() && self.visibility.shows(root) => Ok(Declared::Untyped),
            None => Err(ConditionFault::new(place, self.unknown(root))),
        }
    }

    fn unknown(&self, root: &str) -> String {
        let found = Json::String(root.to_owned()).describe();
        let mut problem = format!("unknown attribute: {found}; table {} has ", self.table.name);
        let declared = self
            .table
            .definition()
            .into_iter()
            .flat_map(|definition| &definition.attributes);
        let mut separator = "";
        for attribute in declared.filter(|attribute| self.visibility.shows(&attribute.name)) {
            // Writing to a string cannot fail.
            let _ = write!(problem, "{separator}{}", attribute.name);
            separator = ", ";
        }
        problem
    }

    fn comparison(&self, place: &str, comparison: &Comparison) -> Result<(), ConditionFault> {
        let path = &comparison.attribute;
        let declared = match self.declared(&format!("{place}.attribute"), path)? {
            Declared::Typed(declared) => declared,
            Declared::Untyped => return Ok(()),
        };
        let (comparator, value) = (comparison.comparator, &comparison.value);
        let fault = |found: &Json, allowed: &str| {
            let problem = format!(
                "`{comparator}` cannot compare `{path}`, which is {declared}, with {}; allowed is {allowed}",
                found.describe()
            );
            Err(ConditionFault::new(format!("{place}.value"), problem))
        };
        let not_with = |allowed: &str| {
            let problem =
                format!("`{comparator}` cannot compare `{path}`, which is {declared}; use {allowed}");
            Err(ConditionFault::new(format!("{place}.comparator"), problem))
        };
        let each_of = |value: &Json| match value {
            Json::Array(values) => values.clone(),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => Vec::new(),
        };
        match (&declared.shape, comparator) {
            (Shape::Scalar(scalar), Comparator::Equals | Comparator::NotEquals) => {
                if !comparable(*scalar, value) {
                    return fault(value, comparable_with(*scalar));
                }
            }
            (Shape::Scalar(scalar), Comparator::In) => {
                if let Some(odd) = each_of(value).iter().find(|value| !comparable(*scalar, value)) {
                    return fault(odd, comparable_with(*scalar));
                }
            }
            (Shape::Scalar(scalar), Comparator::Between) => {
                if let Some(odd) = each_of(value).iter().find(|value| !comparable(*scalar, value)) {
                    return fault(odd, comparable_with(*scalar));
                }
            }
            (
                Shape::Scalar(scalar),
                Comparator::GreaterThan
                | Comparator::GreaterThanEqual
                | Comparator::LessThan
                | Comparator::LessThanEqual,
            ) => {
                if !comparable(*scalar, value) {
                    return fault(value, comparable_with(*scalar));
                }
            }
            (Shape::Scalar(scalar), Comparator::Contains | Comparator::StartsWith | Comparator::EndsWith) => {
                let text = Json::String(String::new());
                if !comparable(*scalar, &text) {
                    return not_with("equals, between or another comparator of order");
                }
                if *scalar != Scalar::Any && !matches!(value, Json::String(_)) {
                    return fault(value, "a string");
                }
            }
            (Shape::List(_), Comparator::Equals | Comparator::NotEquals) => {
                if !matches!(value, Json::Array(_) | Json::Null) {
                    return fault(value, "a list or null; to find an element use contains");
                }
            }
            (Shape::List(_), Comparator::In) => {
                let odd = each_of(value)
                    .into_iter()
                    .find(|value| !matches!(value, Json::Array(_) | Json::Null));
                if let Some(odd) = odd {
                    return fault(&odd, "lists or null; to find an element use contains");
                }
            }
            (Shape::List(item), Comparator::Contains) => {
                if let Shape::Scalar(scalar) = item.shape
                    && !comparable(scalar, value)
                {
                    return fault(value, comparable_with(scalar));
                }
            }
            (
                Shape::List(_),
                Comparator::StartsWith
                | Comparator::EndsWith
                | Comparator::GreaterThan
                | Comparator::GreaterThanEqual
                | Comparator::LessThan
                | Comparator::LessThanEqual
                | Comparator::Between,
            ) => return not_with("contains"),
        }
        Ok(())
    }
}

/// Whether a value of this type can be equal to, or ordered with, this value; null is equal to what is absent.
fn comparable(scalar: Scalar, value: &Json) -> bool {
    match (scalar, value) {
        (Scalar::Any, _) | (_, Json::Null) => true,
        (Scalar::String | Scalar::Bytes | Scalar::Id | Scalar::Date, Json::String(_)) => true,
        (
            Scalar::Int | Scalar::Long | Scalar::BigInt | Scalar::Float | Scalar::Id | Scalar::Date,
            Json::Number(_),
        ) => true,
        (Scalar::Boolean, Json::Bool(_)) => true,
        (
            Scalar::String
            | Scalar::Bytes
            | Scalar::Id
            | Scalar::Date
            | Scalar::Int
            | Scalar::Long
            | Scalar::BigInt
            | Scalar::Float
            | Scalar::Boolean,
            _,
        ) => false,
    }
}

fn comparable_with(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String | Scalar::Bytes => "a string",
        Scalar::Id | Scalar::Date => "a string or a number",
        Scalar::Int | Scalar::Long | Scalar::BigInt | Scalar::Float => "a number",
        Scalar::Boolean => "true or false",
        Scalar::Any => "any value",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Query, SearchedTable, SortStep};
    use crate::catalog::json::Json;
    use crate::catalog::testing::table;
    use crate::search::condition::{AttributePath, Condition};
    use crate::search::visibility::Visibility;

    const SDL: &str = "
        type Closed @table {
            id: ID @primaryKey
            name: String!
            price: Float
            yes: Boolean
            made: Date
            tags: [String!]
            data: Any
            secret: String
        }
        type Open @table(open: true) { id: ID @primaryKey  size: Int }
    ";

    fn check(table_name: &str, query: impl Fn(&mut Query), expected: &str) {
        let schema = table(SDL, table_name);
        let mut checked = Query {
            table: SearchedTable {
                id: schema.id,
                name: schema.name.clone(),
                schema: Some(Arc::clone(&schema)),
            },
            condition: None,
            sort: Vec::new(),
            attributes: Vec::new(),
        };
        query(&mut checked);
        let visibility = Visibility {
            hidden: std::iter::once("secret".to_owned()).collect(),
            ..Visibility::default()
        };
        let outcome = checked
            .check(&visibility)
            .map_or_else(|fault| fault.to_string(), |()| String::new());
        assert_eq!(outcome, expected);
    }

    fn check_condition(table_name: &str, text: &str, expected: &str) {
        let condition = Condition::from_json("condition", &Json::parse(text.as_bytes()).unwrap()).unwrap();
        check(
            table_name,
            |query| query.condition = Some(condition.clone()),
            expected,
        );
    }

    #[test]
    fn what_the_table_can_have_is_searched() {
        for text in [
            r#"{"attribute":"id","value":7}"#,
            r#"{"attribute":"price","comparator":"between","value":[1,2.5e400]}"#,
            r#"{"attribute":"price","value":null}"#,
            r#"{"attribute":"made","comparator":"starts_with","value":"2026-"}"#,
            r#"{"attribute":"tags","comparator":"contains","value":"x"}"#,
            r#"{"attribute":"tags","value":["x"]}"#,
            r#"{"attribute":"data.deep.er","comparator":"greater_than","value":true}"#,
            r#"{"attribute":"data","comparator":"contains","value":1}"#,
        ] {
            check_condition("Closed", text, "");
        }
        check_condition("Open", r#"{"attribute":"what.ever","value":[]}"#, "");
        check(
            "Open",
            |query| query.attributes = vec!["what.ever".to_owned()],
            "",
        );
    }

    #[test]
    fn what_it_cannot_have_is_named_with_what_to_do() {
        const KNOWN: &str = "table data.Closed has id, name, price, yes, made, tags, data";
        check_condition(
            "Closed",
            r#"{"conditions":[{"conditions":[{"attribute":"colour","value":1}]}]}"#,
            &format!(
                r#"invalid `condition.conditions[0].conditions[0].attribute`: unknown attribute: the string "colour"; {KNOWN}"#
            ),
        );
        check_condition(
            "Closed",
            r#"{"attribute":"secret","value":"x"}"#,
            &format!(r#"invalid `condition.attribute`: unknown attribute: the string "secret"; {KNOWN}"#),
        );
        for (text, expected) in [
            (
                r#"{"attribute":"name.first","value":1}"#,
                "invalid `condition.attribute`: `name` has the type String!, which has nothing inside for `name.first`",
            ),
            (
                r#"{"attribute":"price","value":"1"}"#,
                r#"invalid `condition.value`: `equals` cannot compare `price`, which is Float, with the string "1"; allowed is a number"#,
            ),
            (
                r#"{"attribute":"yes","comparator":"in","value":[true,0]}"#,
                "invalid `condition.value`: `in` cannot compare `yes`, which is Boolean, with the number 0; allowed is true or false",
            ),
            (
                r#"{"attribute":"price","comparator":"contains","value":1}"#,
                "invalid `condition.comparator`: `contains` cannot compare `price`, which is Float; use equals, between or \
                 another comparator of order",
            ),
            (
                r#"{"attribute":"tags","comparator":"less_than","value":"x"}"#,
                "invalid `condition.comparator`: `less_than` cannot compare `tags`, which is [String!]; use contains",
            ),
            (
                r#"{"attribute":"tags","value":"x"}"#,
                "invalid `condition.value`: `equals` cannot compare `tags`, which is [String!], with the string \"x\"; \
                 allowed is a list or null; to find an element use contains",
            ),
            (
                r#"{"attribute":"tags","comparator":"contains","value":1}"#,
                "invalid `condition.value`: `contains` cannot compare `tags`, which is [String!], with the number 1; allowed is a string",
            ),
        ] {
            check_condition("Closed", text, expected);
        }
        let step = SortStep {
            attribute: AttributePath::parse("", "secret").unwrap(),
            descending: true,
        };
        check(
            "Closed",
            |query| query.sort = vec![step.clone()],
            &format!(r#"invalid `sort[0].attribute`: unknown attribute: the string "secret"; {KNOWN}"#),
        );
        check(
            "Closed",
            |query| query.attributes = vec!["data.x".to_owned()],
            "invalid `attributes[0]`: `data.x` is inside of an attribute; name `data`",
        );
    }
}
