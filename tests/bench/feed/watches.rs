//! What watches on other tables cost a commit: the service's CPU with many of them, beside none.

use std::path::Path;

use anyhow::Context as _;
use proto::feed::v1::{TableFilter, WatchRequest, WatchResponse};
use tokio::runtime::Runtime;
use tonic::Streaming;

use super::plan::Plan;
use super::service::{FeedService, runtime, write};
use crate::ratios::{Figure, Report};

/// Takes the row's samples: one writer, whose every commit could wake everybody, and many.
///
/// # Errors
/// Something does not work.
pub fn measure(plan: &Plan, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let (watched, unwatched) = (
        FeedService::start(plan, folder, &[], "info")?,
        FeedService::start(plan, folder, &[], "info")?,
    );
    for service in [&watched, &unwatched] {
        runtime.block_on(service.fill())?;
    }
    let watches = open(plan, &runtime, &watched)?;
    for writers in [1, plan.writers] {
        for service in [&watched, &unwatched] {
            write(plan, &runtime, service, writers)?;
        }
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for pair in 0..plan.pairs {
            with.push(write(plan, &runtime, &watched, writers)?.cpu_us());
            without.push(write(plan, &runtime, &unwatched, writers)?.cpu_us());
            eprintln!(
                "{} watches, {writers} writers {}/{}: {:.1} µs CPU per commit; without {:.1}",
                watches.len(),
                pair + 1,
                plan.pairs,
                with[pair],
                without[pair]
            );
        }
        report.add(Figure {
            name: format!(
                "CPU per commit, {writers} writers, {} watches on another table / none",
                watches.len()
            ),
            unit: "µs",
            ours: with,
            theirs: without,
            at_least: None,
            at_most: Some(1.2),
        });
    }
    Ok(())
}

/// Opens the watches on ten connections; they are live once their first answer is there.
fn open(
    plan: &Plan,
    runtime: &Runtime,
    service: &FeedService,
) -> anyhow::Result<Vec<Streaming<WatchResponse>>> {
    runtime.block_on(async {
        let mut watches = Vec::new();
        let mut clients = Vec::new();
        for _ in 0..10 {
            clients.push(service.connect().await?);
        }
        for number in 0..plan.watches {
            let request = WatchRequest {
                from_head: true,
                tables: vec![TableFilter {
                    database: "data".to_owned(),
                    table: "Other".to_owned(),
                }],
                ..WatchRequest::default()
            };
            let client = &mut clients[number % 10];
            let mut watch = client.watch(request).await?.into_inner();
            watch.message().await?.context("no first answer")?;
            watches.push(watch);
        }
        Ok(watches)
    })
}
