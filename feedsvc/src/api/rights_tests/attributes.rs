//! Attributes that a role may not read or write.

use proto::Reason;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::{Put, SearchRequest, SortStep};
use tonic::Code;

use super::stage::{CLERK, Stage, operation, patch, principal, put, root};
use crate::api::tests::check_refused;
use crate::testing::Bench;

#[tokio::test]
async fn a_put_keeps_what_its_writer_does_not_see() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[("clerk", CLERK)]).await;
    let clerk = || principal("c", "clerk");
    let stored = r#"{"id":"a","secret":"s","hidden":1.0,"state":"new","n":1}"#;
    stage.commit(root(), vec![put("a", stored)]).await.unwrap();
    let seen = stage.get(clerk(), "Product", "a").await.unwrap().1;
    assert_eq!(seen, r#"{"id":"a","state":"new","n":1}"#);

    stage
        .commit(clerk(), vec![put("a", r#"{"state":"new","n":2}"#)])
        .await
        .unwrap();
    let after = stage.get(root(), "Product", "a").await.unwrap().1;
    assert_eq!(
        after,
        r#"{"id":"a","state":"new","n":2,"secret":"s","hidden":1.0}"#
    );

    for (key, value, attribute) in [
        // Changed, removed, and set where it may not be.
        ("a", r#"{"state":"old"}"#, "state"),
        ("a", r#"{"n":2}"#, "state"),
        ("b", r#"{"state":"new"}"#, "state"),
        ("b", r#"{"hidden":1}"#, "hidden"),
        ("a", r#"{"state":"new","secret":"other"}"#, "secret"),
        // Told apart, the right guess and the wrong one would tell the value.
        ("a", r#"{"state":"new","secret":"s"}"#, "secret"),
        ("a", r#"{"state":"new","hidden":1.0}"#, "hidden"),
        ("a", r#"{"state":"new","hidden":2}"#, "hidden"),
    ] {
        let refused = stage.commit(clerk(), vec![put(key, value)]).await.unwrap_err();
        let denied = Some(("attribute", attribute));
        check_refused(&refused, Code::PermissionDenied, Reason::PermissionDenied, denied);
    }
    assert_eq!(
        stage.get(root(), "Product", "a").await.unwrap().1,
        after,
        "nothing was changed"
    );
    for (patched, attribute) in [
        (r#"{"state":"old"}"#, "state"),
        (r#"{"secret":"s"}"#, "secret"),
        (r#"{"hidden":null}"#, "hidden"),
    ] {
        let refused = stage
            .commit(clerk(), vec![patch("a", patched)])
            .await
            .unwrap_err();
        let denied = Some(("attribute", attribute));
        check_refused(&refused, Code::PermissionDenied, Reason::PermissionDenied, denied);
    }
    stage
        .commit(clerk(), vec![patch("a", r#"{"n":3}"#)])
        .await
        .unwrap();
    let by_secret = SearchRequest {
        principal: clerk(),
        database: "data".to_owned(),
        table: "Product".to_owned(),
        sort: vec![SortStep {
            attribute: "secret".to_owned(),
            descending: false,
        }],
        ..SearchRequest::default()
    };
    let refused = stage.feed.search(by_secret).await.unwrap_err();
    check_refused(&refused, Code::InvalidArgument, Reason::InvalidArgument, None);
    stage
        .commit(clerk(), vec![put("b", r#"{"secret":"mine","state":null}"#)])
        .await
        .unwrap();

    // A required attribute that the writer does not see is there already.
    let strict = |value: &str| {
        let value = value.to_owned().into();
        operation("Strict", "s", Action::Put(Put { value }))
    };
    stage
        .commit(clerk(), vec![strict(r#"{"name":"x"}"#)])
        .await
        .unwrap();
    stage.commit(clerk(), vec![strict("{}")]).await.unwrap();
    assert_eq!(
        stage.get(root(), "Strict", "s").await.unwrap().1,
        r#"{"id":"s","name":"x"}"#
    );
    stage.served.stop().await;
}
