//! Tables with attributes of every type, and records as a store may have them.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use proptest::prelude::*;

use super::table_of;
use crate::catalog::json::{Json, JsonObject, object_to_text};
use crate::catalog::{Attribute, AttributeType, CatalogTable, GivenTimes, Scalar, Shape, check_record};

/// A table and some of its records, as they are stored, each with a key of its own.
#[derive(Clone)]
pub(in crate::transfer) struct Sample {
    pub(in crate::transfer) sdl: String,
    pub(in crate::transfer) table: Arc<CatalogTable>,
    pub(in crate::transfer) records: Vec<String>,
}

impl fmt::Debug for Sample {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.sdl)?;
        self.records
            .iter()
            .try_for_each(|record| writeln!(formatter, "{record}"))
    }
}

/// Makes any table with some records.
pub(in crate::transfer) fn sample() -> impl Strategy<Value = Sample> {
    schema().prop_flat_map(|sdl| {
        let table = table_of(&sdl);
        let records = proptest::collection::vec(record(&table), 0..12);
        records.prop_map(move |drafts| {
            let mut keys = Vec::new();
            let mut records = Vec::new();
            for (key, draft) in drafts {
                if !keys.contains(&key) {
                    records.push(stored(&table, &key, draft));
                    keys.push(key);
                }
            }
            Sample {
                sdl: sdl.clone(),
                table: Arc::clone(&table),
                records,
            }
        })
    })
}

/// Makes any schema of one table.
fn schema() -> impl Strategy<Value = String> {
    let scalar = proptest::sample::select(vec![
        "ID", "String", "Int", "Long", "BigInt", "Float", "Boolean", "Date", "Bytes", "Any",
    ]);
    let kind = (scalar, 0..3u8, any::<[bool; 3]>()).prop_map(|(scalar, depth, required)| {
        let mark = |is_required: bool| if is_required { "!" } else { "" };
        let mut kind = format!("{scalar}{}", mark(required[0]));
        for level in 0..depth {
            kind = format!("[{kind}]{}", mark(required[usize::from(level) + 1]));
        }
        kind
    });
    let key = proptest::sample::select(vec!["ID", "String", "Int", "Long", "BigInt"]);
    let kinds = proptest::collection::vec(kind, 0..6);
    (key, kinds, any::<[bool; 3]>(), 0..8usize).prop_map(|(key, kinds, [open, made, changed], at)| {
        let mut attributes: Vec<String> = kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| format!("a{index}: {kind}"))
            .collect();
        let mut place = |attribute: String, at: usize| {
            let at = at.min(attributes.len());
            attributes.insert(at, attribute);
        };
        place(format!("key: {key} @primaryKey"), at);
        if made {
            place("made: Date @createdTime".to_owned(), at / 2);
        }
        if changed {
            place("changed: String @updatedTime".to_owned(), at / 3);
        }
        format!("type T @table(open: {open}) {{ {} }}", attributes.join(" "))
    })
}

/// A record before the service stores it: key and attributes.
fn record(table: &Arc<CatalogTable>) -> BoxedStrategy<(String, JsonObject)> {
    let definition = &table.definition;
    let (_, key_scalar) = definition.find_primary_key().unwrap();
    let attributes: Vec<BoxedStrategy<Option<(String, Json)>>> = definition
        .attributes
        .iter()
        .filter(|attribute| !attribute.primary_key && !attribute.is_stamped())
        .map(attribute)
        .collect();
    let undeclared = if definition.open {
        proptest::collection::vec((text(), json()), 0..3).boxed()
    } else {
        Just(Vec::new()).boxed()
    };
    let declared: Vec<String> = definition.attributes.iter().map(|one| one.name.clone()).collect();
    (key(key_scalar), attributes, undeclared, any::<bool>())
        .prop_flat_map(move |(key, attributes, undeclared, is_key_a_number)| {
            let mut all: Vec<(String, Json)> = attributes.into_iter().flatten().collect();
            all.extend(
                undeclared
                    .into_iter()
                    .filter(|(name, _)| !declared.contains(name)),
            );
            let number = Json::Number(key.clone());
            let may_be_number = key_scalar == Scalar::Id
                && is_key_a_number
                && Json::parse(key.as_bytes()).as_ref() == Ok(&number)
                && key_scalar.takes(&number);
            let value = if may_be_number {
                number
            } else {
                key_scalar.value_of_key(&key).unwrap()
            };
            all.push(("key".to_owned(), value));
            (Just(key), Just(all).prop_shuffle())
        })
        .prop_map(|(key, attributes)| (key, attributes.into_iter().collect()))
        .boxed()
}

/// Returns the record as the service stores it.
fn stored(table: &Arc<CatalogTable>, key: &str, draft: JsonObject) -> String {
    let text = object_to_text(&draft);
    let record = check_record(table, key, text.as_bytes(), GivenTimes::Replaced)
        .unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let value = record.stamped(table, None, &|| "2024-02-29T12:34:56.007Z".to_owned());
    String::from_utf8(value.to_vec()).unwrap()
}

fn key(scalar: Scalar) -> BoxedStrategy<String> {
    match scalar {
        Scalar::Int => any::<i32>().prop_map(|key| key.to_string()).boxed(),
        Scalar::Long => any::<i64>().prop_map(|key| key.to_string()).boxed(),
        Scalar::BigInt => "(0|-?[1-9][0-9]{0,40})".boxed(),
        _ => prop_oneof![
            text().prop_filter("a key is not empty", |key| !key.is_empty()),
            any::<u16>().prop_map(|key| key.to_string()),
        ]
        .boxed(),
    }
}

fn attribute(attribute: &Attribute) -> BoxedStrategy<Option<(String, Json)>> {
    let name = attribute.name.clone();
    let value = value(&attribute.attribute_type).prop_map(move |value| (name.clone(), value));
    if attribute.attribute_type.is_nullable {
        proptest::option::weighted(0.8, value).boxed()
    } else {
        value.prop_map(Some).boxed()
    }
}

fn value(kind: &AttributeType) -> BoxedStrategy<Json> {
    let value = match &kind.shape {
        Shape::List(item) => proptest::collection::vec(value(item), 0..4)
            .prop_map(Json::Array)
            .boxed(),
        Shape::Scalar(scalar) => scalar_value(*scalar),
    };
    if kind.is_nullable {
        prop_oneof![1 => Just(Json::Null), 4 => value].boxed()
    } else {
        value
            .prop_map(|value| match value {
                Json::Null => Json::Bool(false),
                other => other,
            })
            .boxed()
    }
}

fn scalar_value(scalar: Scalar) -> BoxedStrategy<Json> {
    let number = |pattern: &'static str| pattern.prop_map(Json::Number).boxed();
    let string = text().prop_map(Json::String);
    match scalar {
        Scalar::Id => prop_oneof![string, number("(0|-?[1-9][0-9]{0,20})")].boxed(),
        Scalar::String => string.boxed(),
        Scalar::Int => number("(-0|-?[1-9][0-9]{0,8})"),
        Scalar::Long => number("(0|-?[1-9][0-9]{0,17})"),
        Scalar::BigInt => number("(0|-?[1-9][0-9]{0,60})"),
        Scalar::Float => number("-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?"),
        Scalar::Boolean => any::<bool>().prop_map(Json::Bool).boxed(),
        Scalar::Date => prop_oneof![
            Just(Json::String("2024-02-29".to_owned())),
            Just(Json::String("2024-02-29t12:00:00.123+01:00".to_owned())),
            Just(Json::String("2024-02-29 12:00:00Z".to_owned())),
            number("-?[1-9][0-9]{0,12}(\\.[0-9]{1,3})?"),
        ]
        .boxed(),
        Scalar::Bytes => proptest::collection::vec(any::<u8>(), 0..9)
            .prop_map(|bytes| Json::String(base64::engine::general_purpose::STANDARD.encode(bytes)))
            .boxed(),
        Scalar::Any => json().boxed(),
    }
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?".prop_map(Json::Number),
        text().prop_map(Json::String),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            proptest::collection::vec((text(), inner), 0..4)
                .prop_map(|attributes| Json::Object(attributes.into_iter().collect())),
        ]
    })
}

/// Any text, often one that a format takes for something of its own.
fn text() -> impl Strategy<Value = String> {
    let special = proptest::sample::select(vec![
        "", " ", ",", "\"", "\"\"", "\r\n", "\n", "\r", "\0", "\u{feff}", "null", "true", "7", "[]", "{}",
        "a,b", "\u{2028}", "\\N", "é", "😀", "=1+1", "\t", " a ", "$more",
    ]);
    prop_oneof![
        3 => special.prop_map(str::to_owned),
        2 => "[a-zA-Z0-9 ]{0,8}",
        2 => ".{0,6}",
        2 => proptest::collection::vec(any::<char>(), 0..6).prop_map(|text| text.into_iter().collect::<String>()),
    ]
}
