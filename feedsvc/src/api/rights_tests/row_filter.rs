//! Records outside of a row filter: absent on every surface, in writes as in reads.

use proto::Reason;
use proto::feed::v1::entry::Body;
use proto::feed::v1::precondition::Condition;
use proto::feed::v1::{
    CountRequest, Entry, GetManyRequest, Operation, SearchRequest, TableFilter, WatchRequest,
};
use tonic::Code;

use super::stage::{MINE, Stage, delete, on_condition, patch, principal, put, root};
use crate::api::tests::check_refused;
use crate::testing::Bench;

#[tokio::test]
async fn b_14_9_a_record_outside_of_the_row_filter_is_absent_on_every_surface() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[("mine", MINE)]).await;
    let alice = || principal("alice", "mine");
    let (mine, other) = (r#"{"owner":"alice"}"#, r#"{"owner":"bob"}"#);
    let mut revisions = Vec::new();
    // Inside, outside, from outside to inside and back, and outside from the first to the last.
    for operation in [
        put("in", mine),
        put("out", other),
        put("moves", other),
        put("moves", mine),
        put("moves", other),
        put("moves", r#"{"owner":"bob","more":1}"#),
        delete("out"),
        put("out", other),
    ] {
        revisions.push(stage.commit(root(), vec![operation]).await.unwrap().head);
    }
    assert!(stage.get(alice(), "Product", "in").await.is_some());
    assert_eq!(stage.get(alice(), "Product", "out").await, None);
    assert_eq!(stage.get(alice(), "Product", "moves").await, None);
    assert!(stage.get(root(), "Product", "out").await.is_some());

    let (inserted, moved_in, moved_out) = (revisions[0], revisions[3], revisions[4]);
    let keys = [Some("in"), Some("out"), Some("moves"), None];
    assert_eq!(
        stage.latest(alice(), &keys).await,
        [inserted, 0, moved_out, moved_out]
    );
    assert_eq!(
        stage.latest(root(), &keys).await,
        [inserted, revisions[7], revisions[5], revisions[7]]
    );

    let (database, table) = ("data".to_owned(), "Product".to_owned());
    let keys = ["in", "out", "moves"].map(str::to_owned).to_vec();
    let many = GetManyRequest {
        principal: alice(),
        database: database.clone(),
        table: table.clone(),
        keys,
        ..GetManyRequest::default()
    };
    let many = stage.feed.get_many(many).await.unwrap().into_inner();
    let found: Vec<&str> = many.records.iter().map(|record| record.key.as_str()).collect();
    assert_eq!((found, many.answered), (vec!["in"], 3));
    let search = SearchRequest {
        principal: alice(),
        database: database.clone(),
        table: table.clone(),
        ..SearchRequest::default()
    };
    let found = stage.feed.search(search).await.unwrap().into_inner();
    let found: Vec<&str> = found.records.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(found, ["in"]);
    for (who, expected) in [(alice(), 1), (root(), 3)] {
        let count = CountRequest {
            principal: who,
            database: database.clone(),
            table: table.clone(),
            ..CountRequest::default()
        };
        assert_eq!(
            stage.feed.count(count).await.unwrap().into_inner().count,
            expected
        );
    }

    let full = |owner: &str, key: &str| format!(r#"{{"id":"{key}","owner":"{owner}"}}"#);
    let expected = [
        (inserted, Operation::Insert, String::new(), full("alice", "in")),
        (moved_in, Operation::Insert, String::new(), full("alice", "moves")),
        (
            moved_out,
            Operation::Delete,
            full("alice", "moves"),
            String::new(),
        ),
    ];
    let seen = |entries: Vec<Entry>| {
        let changes = entries.into_iter().map(|entry| {
            let Some(Body::Change(change)) = entry.body else {
                panic!("no change: {:?}", entry.body)
            };
            let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
            (
                entry.revision,
                change.operation(),
                text(&change.before),
                text(&change.after),
            )
        });
        changes.collect::<Vec<_>>()
    };
    assert_eq!(seen(stage.read_log(alice(), true).await), expected);
    let without_values = expected
        .clone()
        .map(|(revision, operation, ..)| (revision, operation, String::new(), String::new()));
    assert_eq!(seen(stage.read_log(alice(), false).await), without_values);
    assert_eq!(stage.read_log(root(), false).await.len(), 8);

    for include_values in [true, false] {
        let request = WatchRequest {
            principal: alice(),
            include_values,
            include_filter_values: true,
            tables: vec![TableFilter {
                database: "data".to_owned(),
                table: "Product".to_owned(),
            }],
            ..WatchRequest::default()
        };
        let mut watch = stage.feed.watch(request).await.unwrap().into_inner();
        let (mut entries, mut progress) = (Vec::new(), 0);
        while progress < revisions[7] {
            let answer = watch.message().await.unwrap().unwrap();
            progress = answer.progress;
            entries.extend(answer.entries);
        }
        let has_filter_values = entries.iter().any(|entry| {
            matches!(&entry.body, Some(Body::Change(change)) if !change.filter_before.is_empty() || !change.filter_after.is_empty())
        });
        assert!(!has_filter_values, "whom a filter concerns is told nothing of it");
        assert_eq!(
            seen(entries),
            if include_values {
                expected.to_vec()
            } else {
                without_values.to_vec()
            }
        );
    }
    stage.served.stop().await;
}

#[tokio::test]
async fn b_14_9_writes_on_a_record_outside_of_the_row_filter_are_as_on_an_absent_one() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[("mine", MINE)]).await;
    let alice = || principal("alice", "mine");
    let (mine, other) = (r#"{"owner":"alice"}"#, r#"{"owner":"bob"}"#);
    let revision = stage
        .commit(root(), vec![put("out", other), put("in", mine)])
        .await
        .unwrap()
        .head
        - 1;

    let conflict = Some(("revision", "0"));
    for operation in [
        // What would create it conflicts, and so does what expects it.
        put("out", mine),
        patch("out", mine),
        on_condition(put("out", mine), Condition::Exists(false)),
        on_condition(put("out", mine), Condition::Exists(true)),
        on_condition(put("out", mine), Condition::Revision(revision)),
        on_condition(delete("out"), Condition::Exists(true)),
        on_condition(delete("out"), Condition::Revision(revision)),
    ] {
        let refused = stage.commit(alice(), vec![operation]).await.unwrap_err();
        check_refused(
            &refused,
            Code::FailedPrecondition,
            Reason::PreconditionFailed,
            conflict,
        );
    }
    for operation in [
        delete("out"),
        on_condition(delete("out"), Condition::Exists(false)),
    ] {
        let answer = stage.commit(alice(), vec![operation]).await.unwrap();
        assert_eq!(
            (answer.results[0].revision, answer.results[0].existed),
            (0, false)
        );
    }
    // Nobody writes what it would not see.
    for operation in [
        put("new", other),
        put("in", other),
        put("new", "{}"),
        patch("in", other),
    ] {
        let refused = stage.commit(alice(), vec![operation]).await.unwrap_err();
        check_refused(
            &refused,
            Code::PermissionDenied,
            Reason::PermissionDenied,
            Some(("object", "data.Product")),
        );
    }
    assert_eq!(
        stage.get(root(), "Product", "out").await.unwrap().0,
        revision,
        "untouched"
    );
    let mut own = vec![
        put("in", r#"{"owner":"alice","n":1}"#),
        put("new", mine),
        delete("in"),
    ];
    own.push(on_condition(put("in", mine), Condition::Exists(false)));
    let answer = stage.commit(alice(), own).await.unwrap();
    assert!(
        answer.results.iter().all(|result| result.revision > 0),
        "{answer:?}"
    );
    stage.served.stop().await;
}

#[tokio::test]
async fn a_trusted_watch_gets_what_row_filters_look_at() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[]).await;
    let value = r#"{"owner":"alice","size":1.0,"inner":{"a":1}}"#;
    let filter_values = async |stage: &mut Stage, after: u64, include: bool| {
        let request = WatchRequest {
            principal: root(),
            after_revision: after,
            include_filter_values: include,
            ..WatchRequest::default()
        };
        let mut watch = stage.feed.watch(request).await.unwrap().into_inner();
        watch.message().await.unwrap().unwrap();
        let entry = watch.message().await.unwrap().unwrap().entries.pop().unwrap();
        let Some(Body::Change(change)) = entry.body else {
            panic!("no change")
        };
        assert!(change.before.is_empty() && change.after.is_empty());
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        (text(&change.filter_before), text(&change.filter_after))
    };
    let nothing = (String::new(), String::new());
    let head = stage.commit(root(), vec![put("a", value)]).await.unwrap().head;
    assert_eq!(
        filter_values(&mut stage, head - 1, true).await,
        nothing,
        "no role has a filter"
    );
    stage.set("role", "mine", MINE).await;
    let nested = r#"{"data":{"tables":{"Product":{"row_filter":{"attribute":"inner.a","value":1}}}}}"#;
    stage.set("role", "nested", nested).await;
    let head = stage
        .commit(root(), vec![put("a", r#"{"size":2}"#)])
        .await
        .unwrap()
        .head;
    let before = r#"{"owner":"alice","inner":{"a":1}}"#.to_owned();
    assert_eq!(
        filter_values(&mut stage, head - 1, true).await,
        (before, "{}".to_owned())
    );
    assert_eq!(filter_values(&mut stage, head - 1, false).await, nothing);
    let head = stage.commit(root(), vec![delete("a")]).await.unwrap().head;
    assert_eq!(
        filter_values(&mut stage, head - 1, true).await,
        ("{}".to_owned(), String::new())
    );
    stage.served.stop().await;
}
