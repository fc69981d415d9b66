//! Checks records against their table.

use bytes::Bytes;

use super::json::{Json, JsonObject, object_to_text};
use super::model::{Attribute, AttributeType, CatalogTable, Shape, TableName};

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

/// What becomes of times in a record that are the service's to fill in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GivenTimes {
    /// They are left out, whatever the writer put there.
    #[default]
    Replaced,
    /// They are checked and kept; what is null or absent is filled in all the same.
    Kept,
}

/// A record that fits its table; of the attributes that the service fills in it has those which are to be kept.
///
/// It is written as text by whoever checks it, since the thread that commits is the one that all wait for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValidRecord {
    /// A JSON object with one attribute at least, the primary key.
    text: Bytes,
    /// The attributes in it that the service would fill in otherwise.
    kept_times: Vec<String>,
}

impl ValidRecord {
    /// Returns how much of the record came from its writer, in bytes: without primary key, the service's own attributes, and those
    /// that it is not shown.
    pub(crate) fn written_bytes(&self, table: &CatalogTable, shows: &dyn Fn(&str) -> bool) -> usize {
        let is_filled_in = |name: &String| {
            let attribute = table.definition.find_attribute(name);
            attribute.is_some_and(|attribute| attribute.primary_key || attribute.is_stamped())
        };
        let Ok(Json::Object(mut written)) = Json::parse(&self.text) else {
            return self.text.len();
        };
        written.retain(|name, _| !is_filled_in(name) && shows(name));
        object_to_text(&written).len()
    }

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
            if self.kept_times.contains(&attribute.name) {
                continue;
            }
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

    /// Whether the record stands in the store already, as `before`, as far as its writer is shown; times that the service would fill in do
    /// not count.
    pub(crate) fn is_stored_as(
        &self,
        table: &CatalogTable,
        before: &[u8],
        shows: &dyn Fn(&str) -> bool,
    ) -> bool {
        let Ok(Json::Object(mut stored)) = Json::parse(before) else {
            return false;
        };
        let Ok(Json::Object(mut record)) = Json::parse(&self.text) else {
            return false;
        };
        stored.retain(|name, _| shows(name));
        record.retain(|name, _| shows(name));
        let stamped = table.definition.attributes.iter();
        for attribute in stamped.filter(|attribute| attribute.is_stamped() && shows(&attribute.name)) {
            if !record.contains_key(&attribute.name) {
                let Some(time) = stored.get(&attribute.name) else {
                    return false;
                };
                record.insert(attribute.name.clone(), time.clone());
            }
        }
        object_to_text(&record) == object_to_text(&stored)
    }
}

/// Checks a record that is to be written under a key, and completes it with its primary key.
///
/// `times` says what becomes of attributes that the service fills in.
///
/// # Errors
/// The value is no JSON object, or the key or an attribute does not fit the table.
pub(crate) fn check_record(
    table: &CatalogTable,
    key: &str,
    value: &[u8],
    times: GivenTimes,
) -> Result<ValidRecord, RecordFault> {
    check_object(table, key, parse_object(table, value)?, times, &|_| true)
}

/// Parses what is to be a record, or a patch of one.
pub(crate) fn parse_object(table: &CatalogTable, value: &[u8]) -> Result<JsonObject, RecordFault> {
    let fault = |found: String| RecordFault {
        table: table.name.clone(),
        attribute: String::new(),
        found,
        allowed: "a JSON object".to_owned(),
    };
    match Json::parse(value) {
        Ok(Json::Object(object)) => Ok(object),
        Ok(other) => Err(fault(other.describe())),
        Err(problem) => Err(fault(format!("not valid JSON: {problem}"))),
    }
}

/// Applies a JSON Merge Patch (RFC 7396): what it does not name stays as it was written, in its place.
pub(crate) fn merge_patch(record: &mut JsonObject, patch: &JsonObject) {
    for (name, value) in patch {
        match value {
            Json::Null => {
                record.shift_remove(name);
            }
            Json::Object(inner_patch) => {
                let inner = record.entry(name.clone()).or_insert(Json::Null);
                let mut merged = match std::mem::replace(inner, Json::Null) {
                    Json::Object(object) => object,
                    Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
                        JsonObject::new()
                    }
                };
                merge_patch(&mut merged, inner_patch);
                *inner = Json::Object(merged);
            }
            Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
                record.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Checks a parsed record, as [`check_record`] does. A fault names only attributes that the writer `knows`, and shows nothing of others.
pub(crate) fn check_object(
    table: &CatalogTable,
    key: &str,
    object: JsonObject,
    times: GivenTimes,
    knows: &dyn Fn(&str) -> bool,
) -> Result<ValidRecord, RecordFault> {
    // `place` is the attribute, or something in it.
    let fault_in = |attribute: &str, place: String, found: String, allowed: String| {
        let (place, found, allowed) = if attribute.is_empty() || knows(attribute) {
            (place, found, allowed)
        } else {
            let found = "wrong in an attribute that its writer may not see".to_owned();
            (String::new(), found, "what the table declares".to_owned())
        };
        RecordFault {
            table: table.name.clone(),
            attribute: place,
            found,
            allowed,
        }
    };
    let fault = |attribute: &str, found: String, allowed: String| {
        fault_in(attribute, attribute.to_owned(), found, allowed)
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
    let mut kept_times = Vec::new();
    if !object.contains_key(&primary_key.name) {
        record.insert(primary_key.name.clone(), key_value);
    }
    for (name, value) in object {
        match table.definition.find_attribute(&name) {
            Some(attribute)
                if attribute.is_stamped() && (times == GivenTimes::Replaced || value == Json::Null) =>
            {
                continue;
            }
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
                .map_err(|(place, found, allowed)| fault_in(&name, place, found, allowed))?,
            None if table.definition.open => {}
            None => {
                let names: Vec<&str> = table
                    .definition
                    .attributes
                    .iter()
                    .map(|attribute| attribute.name.as_str())
                    .filter(|name| knows(name))
                    .collect();
                // The writer named it, or an earlier schema had it.
                return Err(fault(
                    &name,
                    "not declared".to_owned(),
                    format!("one of {}", names.join(", ")),
                ));
            }
        }
        if table
            .definition
            .find_attribute(&name)
            .is_some_and(Attribute::is_stamped)
        {
            kept_times.push(name.clone());
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
        kept_times,
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
    use super::{GivenTimes, check_record, merge_patch};
    use crate::catalog::json::{Json, object_to_text};
    use crate::catalog::model::CatalogTable;
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
        crate::catalog::testing::table(SDL, name)
    }

    fn text(record: &[u8]) -> String {
        String::from_utf8(record.to_vec()).unwrap()
    }

    fn check(table_name: &str, key: &str, value: &str, expected: &str) {
        let table = table(table_name);
        let outcome = match check_record(&table, key, value.as_bytes(), GivenTimes::Replaced) {
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
        let record = check_record(&table, "1", br#"{"name":"x"}"#, GivenTimes::Replaced).unwrap();
        let before = br#"{"id":"1","name":"y","made":"THEN","changed":"THEN"}"#;
        assert_eq!(
            text(&record.stamped(&table, Some(before), &|| "NOW".to_owned())),
            r#"{"id":"1","name":"x","made":"THEN","changed":"NOW"}"#
        );
    }

    #[test]
    fn given_times_are_kept_only_where_they_are_to_be() {
        let table = table("Product");
        let kept = |value: &str| {
            let record = check_record(&table, "1", value.as_bytes(), GivenTimes::Kept);
            match record {
                Ok(record) => {
                    text(&record.stamped(&table, Some(br#"{"made":"THEN"}"#), &|| "NOW".to_owned()))
                }
                Err(fault) => fault.to_string(),
            }
        };
        assert_eq!(
            kept(r#"{"made":"2000-01-01","id":"1","name":"x","changed":2}"#),
            r#"{"made":"2000-01-01","id":"1","name":"x","changed":2}"#
        );
        assert_eq!(
            kept(r#"{"id":"1","name":"x","changed":null}"#),
            r#"{"id":"1","name":"x","made":"THEN","changed":"NOW"}"#
        );
        assert!(kept(r#"{"name":"x","made":"yesterday"}"#).contains("attribute `made`"));
    }

    #[test]
    fn a_record_is_stored_already_whatever_the_times_that_the_service_fills_in() {
        let table = table("Product");
        for (value, times, expected) in [
            (r#"{"id":"1","name":"x"}"#, GivenTimes::Replaced, true),
            (r#"{"id":"1","name":"y"}"#, GivenTimes::Replaced, false),
            (r#"{"name":"x","id":"1"}"#, GivenTimes::Replaced, false),
            (
                r#"{"id":"1","name":"x","made":"2001-01-01"}"#,
                GivenTimes::Replaced,
                true,
            ),
            (
                r#"{"id":"1","name":"x","made":"2001-01-01"}"#,
                GivenTimes::Kept,
                false,
            ),
            (
                r#"{"id":"1","name":"x","made":"THEN"}"#,
                GivenTimes::Replaced,
                true,
            ),
        ] {
            let record = check_record(&table, "1", value.as_bytes(), times).unwrap();
            let before = br#"{"id":"1","name":"x","made":"2000-01-01","changed":"THEN"}"#;
            assert_eq!(
                record.is_stored_as(&table, before, &|_| true),
                expected,
                "{value}"
            );
        }
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

    fn check_merge(record: &str, patch: &str, expected: &str) {
        let parse = |text: &str| match Json::parse(text.as_bytes()).unwrap() {
            Json::Object(object) => object,
            other => panic!("{other:?}"),
        };
        let mut merged = parse(record);
        merge_patch(&mut merged, &parse(patch));
        assert_eq!(object_to_text(&merged), expected, "{record} {patch}");
    }

    /// The examples of RFC 7396, appendix A, in which both are objects, and what is this service's own.
    #[test]
    fn a_patch_merges_as_its_standard_says() {
        for (record, patch, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (
                r#"{"a":{"b":"c"}}"#,
                r#"{"a":{"b":"d","c":null}}"#,
                r#"{"a":{"b":"d"}}"#,
            ),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (
                r#"{"a":1.0,"b":{"c":1e2,"d":[0.10]},"e":18446744073709551616}"#,
                r#"{"b":{"x":1.50}}"#,
                r#"{"a":1.0,"b":{"c":1e2,"d":[0.10],"x":1.50},"e":18446744073709551616}"#,
            ),
            (
                r#"{"a":1,"b":2,"c":3}"#,
                r#"{"a":null,"b":4}"#,
                r#"{"b":4,"c":3}"#,
            ),
        ] {
            check_merge(record, patch, expected);
        }
    }
}
