//! What a writer learns of attributes that its role may not see: nothing, whatever it is refused.

use proto::Reason;
use proto::feed::v1::{CommitRequest, RecordOperation};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::stage::{Stage, on_table, patch, principal, put, root};
use crate::api::tests::check_refused;
use crate::testing::Bench;

const SDL: &str = "
    type Staff @table { id: ID @primaryKey  name: String!  salary: Int!  note: String  made: Date @createdTime }
    type Product @table(open: true) { id: ID @primaryKey }
";
/// The same with another type of what is hidden.
const SDL_BEFORE: &str = "
    type Staff @table { id: ID @primaryKey  name: String!  salary: String!  note: String  made: Date @createdTime }
    type Product @table(open: true) { id: ID @primaryKey }
";
/// Sees no `salary` and never writes it; sees `note` and never writes it.
const CLERK: &str = r#"{"data":{"tables":{
    "Staff":{"read":true,"insert":true,"update":true,"attribute_permissions":[
        {"attribute_name":"salary"},{"attribute_name":"note","read":true}]},
    "Product":{"read":true,"insert":true,"update":true,"delete":true,"attribute_permissions":[
        {"attribute_name":"secret"},{"attribute_name":"blind","update":true}]}}}}"#;

fn clerk() -> Option<proto::feed::v1::Principal> {
    principal("c", "clerk")
}

fn staff(operation: RecordOperation) -> RecordOperation {
    on_table("Staff", operation)
}

async fn refused(stage: &mut Stage, operation: RecordOperation) -> Status {
    stage.commit(clerk(), vec![operation]).await.unwrap_err()
}

/// Everything that a refusal says, which must not name or show what is hidden.
fn check_untold(status: &Status, hidden: &[&str]) {
    let info = status.get_details_error_info().unwrap();
    let told = format!("{} {:?}", status.message(), info.metadata);
    for text in hidden {
        assert!(!told.contains(text), "`{text}` is told: {told}");
    }
}

#[tokio::test]
async fn a_refused_record_names_no_attribute_that_its_writer_may_not_see() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_schema(&mut bench, SDL, &[("clerk", CLERK)]).await;
    let stored = put("a", r#"{"name":"x","salary":4711,"note":"n"}"#);
    stage.commit(root(), vec![staff(stored)]).await.unwrap();
    for operation in [
        // The list of what is allowed.
        put("a", r#"{"name":"x","note":"n","colour":1}"#),
        patch("a", r#"{"colour":1}"#),
        // What is missing.
        put("new", r#"{"name":"x"}"#),
        // What is wrong in what it sees.
        put("a", r#"{"name":1,"note":"n"}"#),
        patch("a", r#"{"name":null}"#),
    ] {
        let status = refused(&mut stage, staff(operation)).await;
        check_refused(&status, Code::InvalidArgument, Reason::InvalidRecord, None);
        check_untold(&status, &["salary", "4711", "Int!"]);
    }
    stage.served.stop().await;
}

#[tokio::test]
async fn a_hidden_value_that_fits_its_table_no_more_is_not_shown() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_schema(&mut bench, SDL_BEFORE, &[("clerk", CLERK)]).await;
    let stored = put("a", r#"{"name":"x","salary":"ten thousand"}"#);
    stage.commit(root(), vec![staff(stored)]).await.unwrap();
    stage.served.stop().await;
    let mut stage = Stage::with_schema(&mut bench, SDL, &[]).await;
    for operation in [put("a", r#"{"name":"y"}"#), patch("a", r#"{"name":"y"}"#)] {
        let status = refused(&mut stage, staff(operation)).await;
        check_refused(
            &status,
            Code::InvalidArgument,
            Reason::InvalidRecord,
            Some(("attribute", "")),
        );
        check_untold(&status, &["salary", "ten thousand", "Int"]);
    }
    stage.served.stop().await;
}

#[tokio::test]
async fn the_right_is_checked_before_the_type() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_schema(&mut bench, SDL, &[("clerk", CLERK)]).await;
    let stored = put("a", r#"{"name":"x","salary":4711,"note":"n"}"#);
    stage.commit(root(), vec![staff(stored)]).await.unwrap();
    for (value, attribute) in [
        // Of the right type, of a wrong one, with the right guess, and removed.
        (r#"{"name":"x","note":"n","salary":1}"#, "salary"),
        (r#"{"name":"x","note":"n","salary":"1"}"#, "salary"),
        (r#"{"name":"x","note":"n","salary":4711}"#, "salary"),
        (r#"{"name":"x","note":"n","salary":null}"#, "salary"),
        (r#"{"name":"x","note":"other"}"#, "note"),
        (r#"{"name":"x","note":[]}"#, "note"),
        // Several faults: the right is told first.
        (r#"{"name":1,"colour":1,"note":"n","salary":[]}"#, "salary"),
    ] {
        for operation in [put("a", value), patch("a", value)] {
            let status = refused(&mut stage, staff(operation)).await;
            let denied = Some(("attribute", attribute));
            check_refused(&status, Code::PermissionDenied, Reason::PermissionDenied, denied);
            check_untold(&status, &["4711", "Int", "String"]);
        }
    }
    stage.served.stop().await;
}

/// Puts with `skip_equal`; returns the result's revision.
async fn put_if_other(stage: &mut Stage, key: &str, value: &str) -> u64 {
    let request = CommitRequest {
        principal: clerk(),
        operations: vec![put(key, value)],
        skip_equal: true,
        ..CommitRequest::default()
    };
    stage.feed.commit(request).await.unwrap().into_inner().results[0].revision
}

#[tokio::test]
async fn an_equal_put_is_told_by_what_its_writer_sees_alone() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_schema(&mut bench, SDL, &[("clerk", CLERK)]).await;
    for stored in [
        r#"{"id":"a","n":1,"m":2}"#,
        r#"{"id":"a","n":1,"secret":"s","m":2}"#,
        r#"{"id":"a","n":1,"m":2,"secret":"s"}"#,
        r#"{"secret":"s","id":"a","n":1,"m":2,"blind":7}"#,
    ] {
        stage.commit(root(), vec![put("a", stored)]).await.unwrap();
        let equal = put_if_other(&mut stage, "a", r#"{"id":"a","n":1,"m":2}"#).await;
        assert_eq!(equal, 0, "{stored}");
        assert_eq!(stage.get(root(), "Product", "a").await.unwrap().1, stored);
        for other in [
            r#"{"id":"a","m":2,"n":1}"#,
            // A guess at what it may write and not read is a write, right or wrong.
            r#"{"id":"a","n":1,"m":2,"blind":7}"#,
            r#"{"id":"a","n":1,"m":2,"blind":8}"#,
        ] {
            stage.commit(root(), vec![put("a", stored)]).await.unwrap();
            assert!(
                put_if_other(&mut stage, "a", other).await > 0,
                "{stored} and {other}"
            );
        }
    }
    stage.served.stop().await;
}

#[tokio::test]
async fn hidden_bytes_do_not_count_against_a_writer() {
    let mut bench = Bench::new();
    bench.limits.record_bytes = 64 * 1024;
    bench.limits.commit_bytes = 4 * 1024 * 1024;
    let mut stage = Stage::with_schema(&mut bench, SDL, &[("clerk", CLERK)]).await;
    let limit = bench.limits.record_bytes;
    let secret = format!(r#"{{"secret":"{}"}}"#, "s".repeat(limit - 20));
    let frame = r#"{"n":""}"#.len();
    let own = |length: usize| format!(r#"{{"n":"{}"}}"#, "n".repeat(length - frame));
    for key in ["hides", "open"] {
        let stored = if key == "hides" { secret.as_str() } else { "{}" };
        stage.commit(root(), vec![put(key, stored)]).await.unwrap();
        // Its own bytes are what counts, whether something is hidden or not.
        for operation in [patch(key, &own(limit)), put(key, &own(limit))] {
            stage.commit(clerk(), vec![operation]).await.unwrap();
        }
        for operation in [
            patch(key, &own(limit + 1)),
            put(key, &own(limit + 1)),
            patch(key, r#"{"m":1}"#),
        ] {
            let status = refused(&mut stage, operation).await;
            let told = Some(("limit_bytes", "65536"));
            check_refused(&status, Code::InvalidArgument, Reason::TooLarge, told);
        }
    }
    // Nor in the sum of a commit's patched records: 300 of them are above 16 MiB with what is hidden.
    let small = vec![put("hides", "{}")];
    stage.commit(clerk(), small).await.unwrap();
    let patches = (0..300).map(|index| patch("hides", &format!(r#"{{"n":{index}}}"#)));
    stage.commit(clerk(), patches.collect()).await.unwrap();
    stage.served.stop().await;
}
