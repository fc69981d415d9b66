//! Conditions in JSON, as the tools of MCP and row filters write them (rule B-9.4):
//! `{"conditions": [{"attribute", "comparator", "value"} | group …], "operator": "and" | "or"}`.

use super::condition::{AttributePath, Comparator, Comparison, Condition, ConditionFault, LEVELS_MAX};
use crate::catalog::json::{Json, JsonObject};

impl Condition {
    /// Reads a condition: a group, or a single comparison. Without `operator` a group means `and`, without `comparator` a
    /// comparison means `equals`.
    ///
    /// # Errors
    /// It has another form, or breaks a bound; `place` is where the value stands, for the message.
    pub(crate) fn from_json(place: &str, value: &Json) -> Result<Condition, ConditionFault> {
        let condition = read(place, value, LEVELS_MAX)?;
        condition.check_size(place)?;
        Ok(condition)
    }
}

fn read(place: &str, value: &Json, levels_left: usize) -> Result<Condition, ConditionFault> {
    let Some(levels_left) = levels_left.checked_sub(1) else {
        let problem = format!("it has more than {LEVELS_MAX} levels, which is as many as are allowed");
        return Err(ConditionFault::new(place, problem));
    };
    let Json::Object(object) = value else {
        let problem = format!(
            "it is {}; allowed is an object with `attribute`, or with `conditions`",
            value.describe()
        );
        return Err(ConditionFault::new(place, problem));
    };
    if object.contains_key("conditions") {
        read_group(place, object, levels_left)
    } else {
        read_comparison(place, object)
    }
}

fn read_group(place: &str, object: &JsonObject, levels_left: usize) -> Result<Condition, ConditionFault> {
    check_names(place, object, &["conditions", "operator"])?;
    let conditions = match object.get("conditions") {
        Some(Json::Array(conditions)) => conditions,
        Some(other) => {
            let problem = format!("it is {}; allowed is a list", other.describe());
            return Err(ConditionFault::new(format!("{place}.conditions"), problem));
        }
        None => return Err(ConditionFault::new(place, "`conditions` is missing")),
    };
    let conditions: Vec<Condition> = conditions
        .iter()
        .enumerate()
        .map(|(index, condition)| read(&format!("{place}.conditions[{index}]"), condition, levels_left))
        .collect::<Result<_, _>>()?;
    match object.get("operator") {
        None => Ok(Condition::All(conditions)),
        Some(Json::String(operator)) if operator == "and" => Ok(Condition::All(conditions)),
        Some(Json::String(operator)) if operator == "or" => Ok(Condition::Any(conditions)),
        Some(other) => {
            let problem = format!("it is {}; allowed is \"and\" or \"or\"", other.describe());
            Err(ConditionFault::new(format!("{place}.operator"), problem))
        }
    }
}

fn read_comparison(place: &str, object: &JsonObject) -> Result<Condition, ConditionFault> {
    check_names(place, object, &["attribute", "comparator", "value"])?;
    let attribute = match object.get("attribute") {
        Some(Json::String(attribute)) => AttributePath::parse(&format!("{place}.attribute"), attribute)?,
        Some(other) => {
            let problem = format!("it is {}; allowed is the name of an attribute", other.describe());
            return Err(ConditionFault::new(format!("{place}.attribute"), problem));
        }
        None => return Err(ConditionFault::new(place, "`attribute` is missing")),
    };
    let comparator = match object.get("comparator") {
        None => Some(Comparator::Equals),
        Some(Json::String(name)) => Comparator::find(name),
        Some(_) => None,
    };
    let Some(comparator) = comparator else {
        let found = object.get("comparator").map(Json::describe).unwrap_or_default();
        let problem = format!(
            "it is {found}; allowed is one of {}",
            Comparator::NAMES.join(", ")
        );
        return Err(ConditionFault::new(format!("{place}.comparator"), problem));
    };
    let Some(value) = object.get("value") else {
        return Err(ConditionFault::new(place, "`value` is missing"));
    };
    let comparison = Comparison::new(place, attribute, comparator, value.clone())?;
    Ok(Condition::Comparison(comparison))
}

fn check_names(place: &str, object: &JsonObject, known: &[&str]) -> Result<(), ConditionFault> {
    match object.keys().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => {
            let found = Json::String(unknown.clone()).describe();
            let problem = format!("unknown member: {found}; known are {}", known.join(", "));
            Err(ConditionFault::new(place, problem))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::Condition;
    use crate::catalog::json::Json;

    fn read(text: &str) -> Result<Condition, String> {
        let value = Json::parse(text.as_bytes()).unwrap();
        Condition::from_json("row_filter", &value).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_group_is_read_with_its_defaults() {
        let short = r#"{"conditions":[{"attribute":"a","value":1}]}"#;
        let long = r#"{"operator":"and","conditions":[{"attribute":"a","comparator":"equals","value":1}]}"#;
        assert_eq!(read(short), read(long));
        assert!(matches!(read(short), Ok(Condition::All(_))));
        assert!(matches!(
            read(r#"{"conditions":[],"operator":"or"}"#),
            Ok(Condition::Any(_))
        ));
        assert!(matches!(
            read(r#"{"attribute":"a","comparator":"in","value":[]}"#),
            Ok(Condition::Comparison(_))
        ));
    }

    #[test]
    fn what_is_no_condition_is_named_with_its_place() {
        for (text, expected) in [
            (
                "[]",
                "invalid `row_filter`: it is an array; allowed is an object with `attribute`, or with `conditions`",
            ),
            ("{}", "invalid `row_filter`: `attribute` is missing"),
            (r#"{"attribute":"a"}"#, "invalid `row_filter`: `value` is missing"),
            (
                r#"{"conditions":[],"op":"or"}"#,
                r#"invalid `row_filter`: unknown member: the string "op"; known are conditions, operator"#,
            ),
            (
                r#"{"conditions":[{"conditions":[],"operator":"xor"}]}"#,
                r#"invalid `row_filter.conditions[0].operator`: it is the string "xor"; allowed is "and" or "or""#,
            ),
            (
                r#"{"attribute":"a","comparator":"=","value":1}"#,
                "invalid `row_filter.comparator`: it is the string \"=\"; allowed is one of equals, not_equals, contains, \
                 starts_with, ends_with, greater_than, greater_than_equal, less_than, less_than_equal, between, in",
            ),
            (
                r#"{"attribute":"","value":1}"#,
                "invalid `row_filter.attribute`: it is empty; name an attribute",
            ),
            (
                r#"{"attribute":"a","comparator":"starts_with","value":1}"#,
                "invalid `row_filter.value`: `starts_with` cannot compare `a` with the number 1; allowed is a string",
            ),
            (
                r#"{"attribute":"a","comparator":"less_than","value":null}"#,
                "invalid `row_filter.value`: `less_than` cannot compare `a` with null; allowed is a string, a number, true or false",
            ),
            (
                r#"{"attribute":"a","comparator":"between","value":[1,"2"]}"#,
                "invalid `row_filter.value`: `between` cannot compare `a` with the number 1 and the string \"2\"; allowed are two strings, two numbers or two booleans",
            ),
            (
                r#"{"attribute":"a","comparator":"in","value":1}"#,
                "invalid `row_filter.value`: `in` cannot compare `a` with the number 1; allowed is a list of at most 1000 values",
            ),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_tree_is_bounded() {
        let nested = |levels: usize| {
            let open = r#"{"conditions":["#.repeat(levels - 1);
            format!(
                "{open}{}{}",
                r#"{"attribute":"a","value":1}"#,
                "]}".repeat(levels - 1)
            )
        };
        assert!(read(&nested(8)).is_ok());
        assert!(read(&nested(9)).unwrap_err().contains("more than 8 levels"));
        let wide = |comparisons: usize| {
            let one = r#"{"attribute":"a","value":1}"#;
            format!(r#"{{"conditions":[{}]}}"#, vec![one; comparisons].join(","))
        };
        assert!(read(&wide(100)).is_ok());
        assert!(
            read(&wide(101))
                .unwrap_err()
                .contains("it has 101 comparisons; allowed are 100")
        );
        let empty = format!(
            r#"{{"conditions":[{}]}}"#,
            vec![r#"{"conditions":[]}"#; 100].join(",")
        );
        assert!(read(&empty).unwrap_err().contains("it has 101 groups"));
        let many = |values: usize| {
            format!(
                r#"{{"attribute":"a","comparator":"in","value":[{}]}}"#,
                vec!["1"; values].join(",")
            )
        };
        assert!(read(&many(1_000)).is_ok());
        assert!(read(&many(1_001)).is_err());
    }
}
