//! Checks records against their table.

use bytes::Bytes;

use super::json::{Json, JsonObject, object_to_text};
use super::model::{AttributeType, CatalogTable, Shape, TableName};

/// Why a record breaks its table's schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid record of table {table}: {}{found}; allowed is {allowed}", Place(.attribute))]
pub(crate) struct RecordFault {
    pub(crate) table: TableName,
    /// The attribute, with the position in a list in brackets; empty: the record as a whole.
    pub(crate) attribute: String,
    pub(crate) found: String,
    pub(crate) allowed: String,
}

struct Place<'a>(&'a str);

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(formatter, "attribute `{}` is ", self.0)
        }
    }
}

/// A record that fits its table, without the attributes that the service fills in.
///
/// It is written as text by whoever checks it, since the thread that commits is the one that all wait for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValidRecord {
    /// A JSON object with one attribute at least, the primary key.
    text: Bytes,
}

impl ValidRecord {
    /// Returns the record as it is stored, with the service's own attributes filled in at its end.
    ///
    /// `before` is the record that is replaced; it keeps its creation time. `now` is asked only where a time is filled in.
    pub(crate) fn stamped(
        &self,
        table: &CatalogTable,
        before: Option<&[u8]>,
        now: &dyn Fn() -> String,
    ) -> Bytes {
        let stamped = table
            .definition
            .attributes
            .iter()
            .filter(|attribute| attribute.is_stamped());
        let mut stamped = stamped.peekable();
        let Some((_closing, inside)) = self.text.split_last().filter(|_| stamped.peek().is_some()) else {
            return self.text.clone();
        };
        let before = match before.map(Json::parse) {
            Some(Ok(Json::Object(before))) => before,
            _ => JsonObject::new(),
        };
        let mut text = inside.to_vec();
        for attribute in stamped {
            let kept = before.get(&attribute.name).filter(|_| attribute.created_time);
            let value = match kept {
                Some(value) => value.to_text(),
                None => Json::String(now()).to_text(),
            };
            text.push(b',');
            text.extend_from_slice(Json::String(attribute.name.clone()).to_text().as_bytes());
            text.push(b':');
            text.extend_from_slice(value.as_bytes());
        }
        text.push(b'}');
        text.into()
    }
}

/// Checks a record that is to be written under a key, and completes it with its primary key.
///
/// Attributes that the service fills in are left out, whatever the writer put there.
///
/// # Errors
/// The value is no JSON object, or the key or an attribute does not fit the table.
pub(crate) fn check_record(
    table: &CatalogTable,
    key: &str,
    value: &[u8],
) -> Result<ValidRecord, RecordFault> {
    let fault = |attribute: &str, found: String, allowed: String| RecordFault {
        table: table.name.clone(),
        attribute: attribute.to_owned(),
        found,
        allowed,
    };
    let object = match Json::parse(value) {
        Ok(Json::Object(object)) => object,
        Ok(other) => return Err(fault("", other.describe(), "a JSON object".to_owned())),
        Err(problem) => {
            return Err(fault(
                "",
                format!("not valid JSON: {problem}"),
                "a JSON object".to_owned(),
            ));
        }
    };
    let Some((primary_key, key_scalar)) = table.definition.find_primary_key() else {
        return Err(fault(
            "",
            "a table without primary key".to_owned(),
            "nothing".to_owned(),
        ));
    };
    let Some(key_value) = key_scalar.value_of_key(key) else {
        let found = Json::String(key.to_owned()).describe();
        return Err(fault(
            &primary_key.name,
            found,
            format!("{}, in its shortest form", key_scalar.allowed()),
        ));
    };

    let mut record = JsonObject::with_capacity(object.len() + 1);
    if !object.contains_key(&primary_key.name) {
        record.insert(primary_key.name.clone(), key_value);
    }
    for (name, value) in object {
        match table.definition.find_attribute(&name) {
            Some(attribute) if attribute.is_stamped() => continue,
            Some(attribute) if attribute.primary_key => {
                let is_key = match &value {
                    Json::String(text) | Json::Number(text) => text == key && key_scalar.takes(&value),
                    Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => false,
                };
                if !is_key {
                    let allowed = Json::String(key.to_owned()).to_text();
                    return Err(fault(
                        &name,
                        value.describe(),
                        format!("the record's key {allowed}"),
                    ));
                }
            }
            Some(attribute) => check_value(&attribute.attribute_type, &name, &value)
                .map_err(|(place, found, allowed)| fault(&place, found, allowed))?,
            None if table.definition.open => {}
            None => {
                let names: Vec<&str> = table
                    .definition
                    .attributes
                    .iter()
                    .map(|attribute| attribute.name.as_str())
                    .collect();
                return Err(fault(
                    &name,
                    "not declared".to_owned(),
                    format!("one of {}", names.join(", ")),
                ));
            }
        }
        record.insert(name, value);
    }
    for attribute in &table.definition.attributes {
        let is_missing = !attribute.attribute_type.is_nullable
            && !attribute.primary_key
            && !attribute.is_stamped()
            && !record.contains_key(&attribute.name);
        if is_missing {
            return Err(fault(
                &attribute.name,
                "missing".to_owned(),
                attribute.attribute_type.to_string(),
            ));
        }
    }
    Ok(ValidRecord {
        text: object_to_text(&record).into(),
    })
}

/// The place, what was found there, and what is allowed.
type ValueFault = (String, String, String);

fn check_value(attribute_type: &AttributeType, place: &str, value: &Json) -> Result<(), ValueFault> {
    let fault = |allowed: &str| {
        Err((
            place.to_owned(),
            value.describe(),
            format!("{allowed} ({attribute_type})"),
        ))
    };
    match (&attribute_type.shape, value) {
        (_, Json::Null) if attribute_type.is_nullable => Ok(()),
        (Shape::Scalar(scalar), Json::Null) => fault(scalar.allowed()),
        (Shape::Scalar(scalar), value) if scalar.takes(value) => Ok(()),
        (Shape::Scalar(scalar), _) => fault(scalar.allowed()),
        (Shape::List(item), Json::Array(values)) => {
            for (index, value) in values.iter().enumerate() {
                check_value(item, &format!("{place}[{index}]"), value)?;
            }
            Ok(())
        }
        (Shape::List(_), _) => fault("an array"),
    }
}

#[cfg(test)]
mod tests {
    use super::check_record;
    use crate::catalog::model::{Catalog, CatalogTable, TableId, TableName};
    use crate::catalog::sdl::parse_documents;
    use std::sync::Arc;

    const SDL: &str = r#"
        type Product @table {
            id: ID @primaryKey
            name: String!
            price: Float
            stock: Int
            tags: [String!]
            made: Date @createdTime
            changed: Date @updatedTime
        }
        type Loose @table(open: true) { number: Long @primaryKey  size: Int }
    "#;

    fn table(name: &str) -> Arc<CatalogTable> {
        let mut catalog = Catalog::default();
        for definition in parse_documents(&[("test.graphql".to_owned(), SDL.to_owned())]).unwrap() {
            catalog.insert(TableId(2), definition);
        }
        catalog.find(&TableName::new("data", name)).unwrap().clone()
    }

    fn text(record: &[u8]) -> String {
        String::from_utf8(record.to_vec()).unwrap()
    }

    fn check(table_name: &str, key: &str, value: &str, expected: &str) {
        let table = table(table_name);
        let outcome = match check_record(&table, key, value.as_bytes()) {
            Ok(record) => text(&record.stamped(&table, None, &|| "NOW".to_owned())),
            Err(fault) => fault.to_string().replace("invalid record of table ", ""),
        };
        assert_eq!(outcome, expected, "{value}");
    }

    #[test]
    fn a_record_is_completed_with_key_and_times() {
        check(
            "Product",
            "a/b",
            r#"{"name":"x","price":1.0,"made":"2000-01-01","tags":[]}"#,
            r#"{"id":"a/b","name":"x","price":1.0,"tags":[],"made":"NOW","changed":"NOW"}"#,
        );
        check(
            "Loose",
            "7",
            r#"{"more":{"a":1e2},"size":null}"#,
            r#"{"number":7,"more":{"a":1e2},"size":null}"#,
        );
        check(
            "Loose",
            "7",
            r#"{"size":1,"size":2,"number":7}"#,
            r#"{"size":2,"number":7}"#,
        );
    }

    #[test]
    fn the_creation_time_survives_updates() {
        let table = table("Product");
        let record = check_record(&table, "1", br#"{"name":"x"}"#).unwrap();
        let before = br#"{"id":"1","name":"y","made":"THEN","changed":"THEN"}"#;
        assert_eq!(
            text(&record.stamped(&table, Some(before), &|| "NOW".to_owned())),
            r#"{"id":"1","name":"x","made":"THEN","changed":"NOW"}"#
        );
    }

    #[test]
    fn what_breaks_the_schema_is_named() {
        for (table_name, key, value, expected) in [
            (
                "Product",
                "1",
                "[]",
                "data.Product: an array; allowed is a JSON object",
            ),
            (
                "Product",
                "1",
                "{",
                "data.Product: not valid JSON: expected an attribute name at byte 1; allowed is a JSON object",
            ),
            (
                "Product",
                "1",
                r#"{"id":"2","name":"x"}"#,
                r#"data.Product: attribute `id` is the string "2"; allowed is the record's key "1""#,
            ),
            (
                "Product",
                "1",
                "{}",
                "data.Product: attribute `name` is missing; allowed is String!",
            ),
            (
                "Product",
                "1",
                r#"{"name":null}"#,
                "data.Product: attribute `name` is null; allowed is a string (String!)",
            ),
            (
                "Product",
                "1",
                r#"{"name":"x","price":1e400}"#,
                "data.Product: attribute `price` is the number 1e400; allowed is a finite number (Float)",
            ),
            (
                "Product",
                "1",
                r#"{"name":"x","tags":["a",null]}"#,
                "data.Product: attribute `tags[1]` is null; allowed is a string (String!)",
            ),
            (
                "Product",
                "1",
                r#"{"name":"x","colour":1}"#,
                "data.Product: attribute `colour` is not declared; allowed is one of id, name, price, stock, tags, made, changed",
            ),
            (
                "Loose",
                "07",
                "{}",
                r#"data.Loose: attribute `number` is the string "07"; allowed is an integer from -9223372036854775808 to 9223372036854775807, in its shortest form"#,
            ),
            (
                "Loose",
                "7",
                r#"{"number":"7"}"#,
                r#"data.Loose: attribute `number` is the string "7"; allowed is the record's key "7""#,
            ),
            (
                "Loose",
                "7",
                r#"{"size":2147483648}"#,
                "data.Loose: attribute `size` is the number 2147483648; allowed is an integer from -2147483648 to 2147483647 (Int)",
            ),
        ] {
            check(table_name, key, value, expected);
        }
    }
}
