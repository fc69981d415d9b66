//! Exports and imports between stores: any record of any schema comes back byte for byte, over gRPC as well.

use std::path::Path;

use clap::Parser;
use proptest::prelude::*;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::{CommitRequest, Principal, Put, Record, RecordOperation, SearchRequest};

use super::arbitrary::{Sample, sample};
use crate::api::client::FeedClient;
use crate::catalog::SchemaSource;
use crate::catalog::json::Json;
use crate::config::{Cli, Command};
use crate::service::{Options, Service};
use crate::transfer::interrupt::Interrupt;

/// Runs a command line as the program does, without its process.
async fn run(line: &[&str]) {
    let cli = Cli::try_parse_from(std::iter::once(&"feedsvc").chain(line)).unwrap();
    let outcome = match cli.command {
        Command::Import(arguments) => {
            crate::transfer::import::import_to_end(arguments, Interrupt::default()).await
        }
        Command::Export(arguments) => {
            crate::transfer::export::export_to_end(arguments, Interrupt::default()).await
        }
        _ => panic!("{line:?}"),
    };
    outcome.unwrap_or_else(|(error, _)| panic!("{line:?}: {error}"));
}

/// Returns all records of a store, as a client of its service reads them.
async fn records(data: &Path, sdl: &str, puts: &[String]) -> Vec<Record> {
    let source = SchemaSource::Text {
        name: "test.graphql".to_owned(),
        sdl: sdl.to_owned(),
    };
    let service = Service::open(Options::new(data, source)).await.unwrap();
    let client = FeedClient::of_feed(service.feed(), Principal::default());
    if !puts.is_empty() {
        let operations = puts.iter().map(|record| RecordOperation {
            database: "data".to_owned(),
            table: "T".to_owned(),
            key: key_of(record),
            precondition: None,
            action: Some(Action::Put(Put {
                value: record.clone().into(),
            })),
        });
        let commit = CommitRequest {
            operations: operations.collect(),
            ..CommitRequest::default()
        };
        client.commit(commit).await.unwrap();
    }
    let (mut records, mut cursor) = (Vec::new(), String::new());
    loop {
        let request = SearchRequest {
            database: "data".to_owned(),
            table: "T".to_owned(),
            limit: 5,
            cursor,
            ..SearchRequest::default()
        };
        let page = client.search(request).await.unwrap();
        records.extend(page.records);
        cursor = page.next_cursor;
        if cursor.is_empty() {
            break;
        }
    }
    drop(client);
    service.end().await.unwrap();
    records
}

fn key_of(record: &str) -> String {
    match Json::parse(record.as_bytes()) {
        Ok(Json::Object(object)) => match object.get("key") {
            Some(Json::String(key) | Json::Number(key)) => key.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

async fn check(sample: &Sample, format: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    let stored = records(&from, &sample.sdl, &sample.records).await;
    assert_eq!(stored.len(), sample.records.len());

    let (first, second) = (
        path(&format!("first.{format}")),
        path(&format!("second.{format}")),
    );
    let schema = path("schema.graphql");
    std::fs::write(&schema, &sample.sdl).unwrap();
    run(&["export", "T", "--data", &path("from"), "--output", &first]).await;
    run(&[
        "import",
        "data.T",
        &first,
        "--data",
        &path("to"),
        "--schema",
        &schema,
    ])
    .await;
    run(&["export", "T", "--data", &path("to"), "--output", &second]).await;
    let text = |file: &str| String::from_utf8(std::fs::read(file).unwrap()).unwrap();
    assert_eq!(text(&first), text(&second), "{format}");

    let values = |records: Vec<Record>| -> Vec<(String, String)> {
        records
            .into_iter()
            .map(|record| (record.key, String::from_utf8(record.value.to_vec()).unwrap()))
            .collect()
    };
    assert_eq!(
        values(stored),
        values(records(&to, &sample.sdl, &[]).await),
        "{format}"
    );
}

proptest! {
    // Each case opens six stores with real files.
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_table_comes_back_from_an_export_and_an_import_byte_for_byte(sample in sample()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            check(&sample, "csv").await;
            check(&sample, "jsonl").await;
        });
    }
}
