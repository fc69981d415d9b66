//! Whether a condition holds for a record.

use super::condition::{Comparator, Comparison, Condition};
use super::sort_key::{OrderedType, equality_key, sort_key};
use crate::catalog::json::{Json, JsonObject};

/// Returns whether a condition holds for a record (feed.proto, `SearchCondition` and `Comparison`).
pub(crate) fn evaluate(condition: &Condition, record: &JsonObject) -> bool {
    match condition {
        Condition::Comparison(comparison) => compare(comparison, comparison.attribute.find(record)),
        Condition::All(conditions) => conditions.iter().all(|condition| evaluate(condition, record)),
        Condition::Any(conditions) => conditions.iter().any(|condition| evaluate(condition, record)),
    }
}

fn compare(comparison: &Comparison, found: &Json) -> bool {
    let keys = &comparison.keys;
    let equals_first = |value: &Json| keys.first().is_some_and(|key| equality_key(value) == *key);
    match comparison.comparator {
        Comparator::Equals => equals_first(found),
        Comparator::NotEquals => !equals_first(found),
        Comparator::In => keys.binary_search(&equality_key(found)).is_ok(),
        Comparator::Contains => match (found, &comparison.value) {
            (Json::String(text), Json::String(part)) => text.contains(part.as_str()),
            (Json::Array(items), _) => items.iter().any(equals_first),
            (Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_), _) => false,
        },
        Comparator::StartsWith => match (found, &comparison.value) {
            (Json::String(text), Json::String(start)) => text.starts_with(start.as_str()),
            (_, _) => false,
        },
        Comparator::EndsWith => match (found, &comparison.value) {
            (Json::String(text), Json::String(end)) => text.ends_with(end.as_str()),
            (_, _) => false,
        },
        Comparator::GreaterThan => is_ordered(found, keys, |found, key| found > key),
        Comparator::GreaterThanEqual => is_ordered(found, keys, |found, key| found >= key),
        Comparator::LessThan => is_ordered(found, keys, |found, key| found < key),
        Comparator::LessThanEqual => is_ordered(found, keys, |found, key| found <= key),
        Comparator::Between => {
            let (low, high) = keys.split_at(keys.len().min(1));
            is_ordered(found, low, |found, key| found >= key)
                && is_ordered(found, high, |found, key| found <= key)
        }
    }
}

/// Compares with the first key, if that is of the same ordered type.
fn is_ordered(found: &Json, keys: &[Vec<u8>], compare: impl Fn(&[u8], &[u8]) -> bool) -> bool {
    let (Some(key), Some(ordered)) = (keys.first(), OrderedType::find(found)) else {
        return false;
    };
    let (low, high) = ordered.first_bytes();
    let is_same_type = key.first().is_some_and(|first| (low..=high).contains(first));
    is_same_type && compare(&sort_key(found), key)
}

#[cfg(test)]
mod tests {
    use super::evaluate;
    use crate::catalog::json::Json;
    use crate::search::condition::{Binding, Condition};

    const RECORD: &str = r#"{
        "id": "a1", "one": 1, "text": "täglich", "yes": true, "nothing": null,
        "tags": ["x", 2, [1]], "inner": {"deep": {"n": 18446744073709551616}, "a": 1}
    }"#;

    fn condition(attribute: &str, comparator: &str, value: &str) -> Condition {
        let text = format!(
            r#"{{"attribute":{},"comparator":"{comparator}","value":{value}}}"#,
            Json::String(attribute.to_owned()).to_text()
        );
        Condition::from_json("condition", &Json::parse(text.as_bytes()).unwrap()).unwrap()
    }

    fn holds(condition: &Condition) -> bool {
        let Ok(Json::Object(record)) = Json::parse(RECORD.as_bytes()) else {
            panic!("no object")
        };
        evaluate(condition, &record)
    }

    fn check(expected: bool, cases: &[(&str, &str, &str)]) {
        for (attribute, comparator, value) in cases {
            let condition = condition(attribute, comparator, value);
            assert_eq!(holds(&condition), expected, "{attribute} {comparator} {value}");
        }
    }

    #[test]
    fn each_comparator_holds_for_what_it_says() {
        check(
            true,
            &[
                ("one", "equals", "1.0"),
                ("one", "equals", "1e0"),
                ("one", "not_equals", r#""1""#),
                ("absent", "equals", "null"),
                ("nothing", "equals", "null"),
                ("absent", "not_equals", "1"),
                ("tags", "equals", r#"["x",2.0,[1e0]]"#),
                (
                    "inner",
                    "equals",
                    r#"{"a":1,"deep":{"n":18446744073709551616.0}}"#,
                ),
                ("inner.deep.n", "greater_than", "18446744073709551615"),
                ("text", "contains", r#""äg""#),
                ("text", "contains", r#""""#),
                ("tags", "contains", "2.0"),
                ("tags", "contains", "[1]"),
                ("text", "starts_with", r#""tä""#),
                ("text", "ends_with", r#""lich""#),
                ("one", "greater_than", "0.999"),
                ("one", "greater_than_equal", "1.00"),
                ("one", "less_than", "1e400"),
                ("one", "less_than_equal", "1"),
                ("yes", "greater_than", "false"),
                ("text", "greater_than", r#""tz""#),
                ("one", "between", "[1,1]"),
                ("text", "between", r#"["a","zzz"]"#),
                ("one", "in", r#"["1",null,1.0]"#),
                ("absent", "in", "[null]"),
            ],
        );
    }

    #[test]
    fn nothing_else_holds() {
        check(
            false,
            &[
                ("one", "equals", r#""1""#),
                ("one", "equals", "true"),
                ("nothing", "not_equals", "null"),
                ("absent", "less_than", "1"),
                ("nothing", "less_than", r#""""#),
                ("tags", "greater_than", "0"),
                ("one", "greater_than", "false"),
                ("one", "greater_than", "1"),
                ("one", "less_than", "1"),
                ("one", "less_than", r#""z""#),
                ("one", "between", "[2,1]"),
                ("one", "contains", "1"),
                ("text", "contains", r#""TÄ""#),
                ("tags", "contains", r#""2""#),
                ("tags", "starts_with", r#""x""#),
                ("one", "in", "[]"),
                ("inner.deep", "equals", "null"),
                ("text.length", "equals", "7"),
                ("tags.0", "equals", r#""x""#),
            ],
        );
    }

    #[test]
    fn groups_hold_as_their_operator_says() {
        let (yes, no) = (condition("one", "equals", "1"), condition("one", "equals", "2"));
        let all = |conditions: &[&Condition]| Condition::All(conditions.iter().copied().cloned().collect());
        let any = |conditions: &[&Condition]| Condition::Any(conditions.iter().copied().cloned().collect());
        assert!(holds(&all(&[])) && !holds(&any(&[])));
        assert!(holds(&all(&[&yes, &yes])) && !holds(&all(&[&yes, &no])));
        assert!(holds(&any(&[&no, &yes])) && !holds(&any(&[&no, &no])));
        assert!(holds(&all(&[&any(&[&no, &all(&[])]), &yes])));
    }

    #[test]
    fn a_placeholder_without_a_value_shows_nothing() {
        let resolve = |text: &str| match text {
            "$one" => Binding::Value(Json::Number("1".to_owned())),
            "$none" => Binding::Missing,
            _ => Binding::Literal,
        };
        assert!(holds(&condition("one", "equals", r#""$one""#).bind(&resolve)));
        assert!(holds(&condition("one", "in", r#"["$one"]"#).bind(&resolve)));
        assert!(holds(&condition("id", "equals", r#""a1""#).bind(&resolve)));
        for comparator in ["equals", "not_equals", "contains"] {
            assert!(
                !holds(&condition("absent", comparator, r#""$none""#).bind(&resolve)),
                "{comparator}"
            );
        }
        assert!(!holds(
            &condition("one", "starts_with", r#""$one""#).bind(&resolve)
        ));
    }
}
