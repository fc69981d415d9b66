//! Tests of patches on the commit path.

use proptest::prelude::*;
use serde_json::Value;

use super::{Condition, RecordAction, RecordOperation};
use crate::catalog::TableName;
use crate::catalog::json::{Json, JsonObject};
use crate::catalog::{merge_patch, parse_object};
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::testing::{Bench, START_MS, commit, delete, put, revisions};

const SDL: &str = "
    type Product @table(open: true) @export { id: ID @primaryKey }
    type Strict @table { id: ID @primaryKey  name: String!  stock: Int  made: Date @createdTime  changed: Date @updatedTime }
";

fn patch(feed: &Feed, table: &str, key: &str, value: &str) -> RecordOperation {
    let name = TableName::new("data", table);
    let schema = feed.get_table(&name).unwrap();
    RecordOperation {
        table: name,
        key: key.to_owned(),
        condition: Condition::None,
        action: RecordAction::Patch {
            patch: parse_object(&schema, value.as_bytes()).unwrap(),
            size_bytes: value.len(),
            record_limit_bytes: feed.limits.record_bytes,
        },
    }
}

async fn get(feed: &Feed, table: &str, key: &str) -> Option<String> {
    let (id, key) = (
        feed.get_table(&TableName::new("data", table)).unwrap().id,
        key.to_owned(),
    );
    let found = feed
        .reads
        .run(move |reader| reader.find_record(id, &key))
        .await
        .unwrap();
    found
        .value
        .map(|record| String::from_utf8(record.value.to_vec()).unwrap())
}

#[tokio::test]
async fn a_patch_meets_what_the_batch_before_it_left() {
    let bench = Bench::new();
    let service = bench.try_open(SDL).await.unwrap();
    let feed = service.feed();
    let answer = commit(
        &feed,
        vec![
            put(
                &feed,
                "Product",
                "a",
                r#"{"v":1.0,"in":{"x":1e2,"y":18446744073709551616}}"#,
            ),
            patch(&feed, "Product", "a", r#"{"in":{"y":null,"z":0.10}}"#),
            patch(&feed, "Product", "a", r#"{"w":[1.50]}"#),
            delete("Product", "a"),
            put(&feed, "Product", "a", r#"{"n":7}"#),
            patch(&feed, "Product", "a", "{}"),
        ],
    )
    .await
    .unwrap();
    assert_eq!(
        revisions(&answer),
        [3, 4, 5, 6, 7, 8],
        "a patch that changes nothing is an update"
    );
    assert_eq!(get(&feed, "Product", "a").await.unwrap(), r#"{"id":"a","n":7}"#);
    commit(
        &feed,
        vec![patch(
            &feed,
            "Product",
            "a",
            r#"{"n":null,"id":"a","é":{"😀":-0}}"#,
        )],
    )
    .await
    .unwrap();
    assert_eq!(
        get(&feed, "Product", "a").await.unwrap(),
        r#"{"id":"a","é":{"😀":-0}}"#
    );

    let absent = commit(&feed, vec![patch(&feed, "Product", "b", "{}")]).await;
    assert!(matches!(
        absent,
        Err(Refusal::PreconditionFailed {
            present: Revision::ZERO,
            ..
        })
    ));
    let removed = vec![delete("Product", "a"), patch(&feed, "Product", "a", "{}")];
    assert!(matches!(
        commit(&feed, removed).await,
        Err(Refusal::PreconditionFailed { .. })
    ));
    let mut stale = patch(&feed, "Product", "a", r#"{"n":1}"#);
    stale.condition = Condition::Revision(Revision(8));
    assert!(matches!(
        commit(&feed, vec![stale.clone()]).await,
        Err(Refusal::PreconditionFailed {
            present: Revision(9),
            ..
        })
    ));
    stale.condition = Condition::Revision(Revision(9));
    assert_eq!(revisions(&commit(&feed, vec![stale]).await.unwrap()), [10]);
    service.close().await;
}

#[tokio::test]
async fn a_patched_record_is_checked_as_a_put_of_it() {
    let bench = Bench::new();
    let service = bench.try_open(SDL).await.unwrap();
    let feed = service.feed();
    commit(
        &feed,
        vec![put(&feed, "Strict", "a", r#"{"name":"x","stock":1}"#)],
    )
    .await
    .unwrap();
    for (value, attribute) in [
        (r#"{"name":null}"#, "name"),
        (r#"{"stock":1.5}"#, "stock"),
        (r#"{"other":1}"#, "other"),
        (r#"{"id":"b"}"#, "id"),
    ] {
        match commit(&feed, vec![patch(&feed, "Strict", "a", value)]).await {
            Err(Refusal::InvalidRecord(fault)) => assert_eq!(fault.attribute, attribute),
            other => panic!("{value}: {other:?}"),
        }
    }
    let first = "2023-11-14T22:13:20.000Z";
    bench.clock.advance(std::time::Duration::from_millis(1));
    let times = r#"{"stock":2,"made":"2000-01-01","changed":null}"#;
    commit(&feed, vec![patch(&feed, "Strict", "a", times)])
        .await
        .unwrap();
    assert_eq!(START_MS, 1_700_000_000_000);
    assert_eq!(
        get(&feed, "Strict", "a").await.unwrap(),
        format!(r#"{{"id":"a","name":"x","stock":2,"made":"{first}","changed":"2023-11-14T22:13:20.001Z"}}"#)
    );
    service.close().await;
}

#[tokio::test]
async fn a_patch_cannot_make_a_record_or_a_commit_too_large() {
    let mut bench = Bench::new();
    bench.limits.record_bytes = 1024 * 1024;
    let service = bench.try_open(SDL).await.unwrap();
    let feed = service.feed();
    // Exactly as large as a record may be.
    let frame = r#"{"v":""}"#.len();
    let full = format!(r#"{{"v":"{}"}}"#, "x".repeat(bench.limits.record_bytes - frame));
    commit(&feed, vec![put(&feed, "Product", "a", &full)])
        .await
        .unwrap();
    commit(&feed, vec![patch(&feed, "Product", "a", "{}")])
        .await
        .unwrap();
    let larger = commit(&feed, vec![patch(&feed, "Product", "a", r#"{"w":1}"#)]).await;
    assert!(matches!(
        larger,
        Err(Refusal::TooLarge {
            what: "the patched record",
            ..
        })
    ));
    let smaller = r#"{"v":null,"w":1}"#;
    let many = std::iter::repeat_n("{}", 16).map(|value| patch(&feed, "Product", "a", value));
    let refused = commit(&feed, many.collect()).await;
    assert!(matches!(refused, Err(Refusal::TooLarge { .. })));
    commit(&feed, vec![patch(&feed, "Product", "a", smaller)])
        .await
        .unwrap();
    assert_eq!(get(&feed, "Product", "a").await.unwrap(), r#"{"id":"a","w":1}"#);
    service.close().await;
}

#[tokio::test]
async fn a_batch_of_100_000_operations_with_patches_is_applied() {
    const OPERATIONS: usize = 100_000;
    let bench = Bench::new();
    let service = bench.try_open(SDL).await.unwrap();
    let feed = service.feed();
    let operations = (0..OPERATIONS).map(|index| {
        let key = format!("k{}", index / 4);
        match index % 4 {
            0 => put(&feed, "Product", &key, r#"{"v":1.0}"#),
            1 => patch(&feed, "Product", &key, r#"{"w":{"x":1}}"#),
            2 => patch(&feed, "Product", &key, r#"{"v":null,"w":{"y":2.50}}"#),
            _ => patch(&feed, "Product", &key, &format!(r#"{{"index":{index}}}"#)),
        }
    });
    let answer = commit(&feed, operations.collect()).await.unwrap();
    assert_eq!(answer.head, 2 + OPERATIONS as u64);
    assert_eq!(
        get(&feed, "Product", "k24999").await.unwrap(),
        r#"{"id":"k24999","w":{"x":1,"y":2.50},"index":99999}"#
    );
    service.close().await;
}

#[tokio::test]
async fn a_deep_patch_is_merged_or_refused() {
    let bench = Bench::new();
    let service = bench.try_open(SDL).await.unwrap();
    let feed = service.feed();
    let nested =
        |depth: usize, inner: &str| format!("{}{inner}{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    commit(&feed, vec![put(&feed, "Product", "a", &nested(128, "1"))])
        .await
        .unwrap();
    commit(&feed, vec![patch(&feed, "Product", "a", &nested(128, "null"))])
        .await
        .unwrap();
    let left = nested(127, "{}").replacen('{', r#"{"id":"a","#, 1);
    assert_eq!(get(&feed, "Product", "a").await.unwrap(), left);
    let schema = feed.get_table(&TableName::new("data", "Product")).unwrap();
    assert!(parse_object(&schema, nested(129, "1").as_bytes()).is_err());
    service.close().await;
}

/// A JSON value of few attributes, so that patches meet what is there.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        proptest::sample::select(&["1.0", "1e2", "-0", "18446744073709551616"][..])
            .prop_map(|text| serde_json::from_str(text).unwrap()),
        "[a-c]{0,2}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            object(inner).prop_map(Value::Object),
        ]
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = serde_json::Map<String, Value>> {
    proptest::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| map.into_iter().collect())
}

/// RFC 7396, section 2, word for word.
fn naive_merge(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut target = match target {
        Value::Object(target) => target,
        _ => serde_json::Map::new(),
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            let merged = naive_merge(target.get(name).cloned().unwrap_or(Value::Null), value);
            target.insert(name.clone(), merged);
        }
    }
    Value::Object(target)
}

proptest! {
    #[test]
    fn a_patch_equals_a_naive_merge(record in object(json()), patch in object(json())) {
        let parse = |object: &serde_json::Map<String, Value>| -> JsonObject {
            match Json::parse(serde_json::to_string(object).unwrap().as_bytes()).unwrap() {
                Json::Object(object) => object,
                other => panic!("{other:?}"),
            }
        };
        let mut merged = parse(&record);
        merge_patch(&mut merged, &parse(&patch));
        let merged: Value = serde_json::from_str(&Json::Object(merged).to_text()).unwrap();
        let expected = naive_merge(Value::Object(record), &Value::Object(patch));
        prop_assert_eq!(merged, expected);
    }
}
