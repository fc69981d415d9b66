//! One watch that reads many changes, beside a bare gRPC stream of the same bytes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use proto::feed::v1::WatchRequest;
use tokio::runtime::Runtime;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;

use super::bare::RawCodec;
use super::plan::Plan;
use super::service::{FeedService, commit, connect, put, runtime};
use crate::ratios::{Figure, Report};
use crate::subject::process::ServerProcess;

/// Where the service has the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In memory.
    Ring,
    /// In the database, because the ring is too small.
    Store,
}

/// How many changes are written in a commit.
const BATCH: usize = 100;

/// The path of the call, for the bare server too.
pub const WATCH: &str = "/feed.v1.Feed/Watch";

/// What one read of everything brought.
struct Reading {
    bytes: u64,
    wall: Duration,
}

impl Reading {
    fn mib_per_second(&self) -> f64 {
        self.bytes as f64 / self.wall.as_secs_f64() / (1024.0 * 1024.0)
    }
}

/// Takes the row's samples.
///
/// # Errors
/// Something does not work, or the streams differ.
pub fn measure(plan: &Plan, folder: &Path, source: Source, report: &mut Report) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let ring = match source {
        Source::Ring => "--ring-bytes=1 GiB",
        Source::Store => "--ring-bytes=1 KiB",
    };
    let service = FeedService::start(plan, folder, &[ring], "info")?;
    let head = runtime.block_on(write_changes(plan, &service))?;

    let recording = folder.join(format!("recording-{source:?}"));
    let mut recorded = Vec::new();
    runtime.block_on(read(&service.uri, head, |message| record(&mut recorded, message)))?;
    std::fs::write(&recording, &recorded)?;
    let bare = start_bare(folder, &recording)?;
    let bare_uri = format!("http://{}", bare.ready_value("listen")?);

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let sample = |runtime: &Runtime, uri: &str| runtime.block_on(read(uri, head, |_| {}));
    for uri in [&service.uri, &bare_uri] {
        sample(&runtime, uri)?;
    }
    for pair in 0..plan.pairs {
        let (watch, stream) = (sample(&runtime, &service.uri)?, sample(&runtime, &bare_uri)?);
        ensure!(
            watch.bytes.abs_diff(stream.bytes) * 100 < stream.bytes,
            "{} bytes from the watch, {} from the bare stream",
            watch.bytes,
            stream.bytes
        );
        eprintln!(
            "{source:?} {}/{}: {:.0} MiB/s; bare {:.0} MiB/s",
            pair + 1,
            plan.pairs,
            watch.mib_per_second(),
            stream.mib_per_second()
        );
        ours.push(watch.mib_per_second());
        theirs.push(stream.mib_per_second());
    }
    report.add(Figure {
        name: format!(
            "one watch of {} changes from the {source:?} / a bare stream",
            plan.changes
        )
        .to_lowercase(),
        unit: "MiB/s",
        ours,
        theirs,
        at_least: Some(if source == Source::Ring { 0.8 } else { 0.4 }),
        at_most: None,
    });
    Ok(())
}

async fn write_changes(plan: &Plan, service: &FeedService) -> anyhow::Result<u64> {
    let mut client = service.connect().await?;
    let mut head = 0;
    for first in (0..plan.changes).step_by(BATCH) {
        let operations = (first..first + BATCH)
            .map(|number| put(number as u64 % super::service::KEYS, 1))
            .collect();
        head = client.commit(commit(operations)).await?.into_inner().head;
    }
    Ok(head)
}

fn start_bare(folder: &Path, recording: &Path) -> anyhow::Result<ServerProcess> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let arguments = vec!["--bare".to_owned(), recording.display().to_string()];
    ServerProcess::start("bare", &own, &arguments, folder)
}

/// Reads the stream from the beginning until the progress is `head`.
async fn read(uri: &str, head: u64, mut take: impl FnMut(&Bytes)) -> anyhow::Result<Reading> {
    let mut grpc = Grpc::new(connect(uri).await?).max_decoding_message_size(64 * 1024 * 1024);
    grpc.ready().await?;
    let begin = Instant::now();
    let request = Bytes::from(WatchRequest::default().encode_to_vec());
    let path = PathAndQuery::from_static(WATCH);
    let mut stream = grpc
        .server_streaming(Request::new(request), path, RawCodec)
        .await?
        .into_inner();
    let mut bytes = 0;
    while let Some(message) = stream.message().await? {
        take(&message);
        bytes += message.len() as u64;
        if Progress::decode(message)?.progress >= head {
            let wall = begin.elapsed();
            return Ok(Reading { bytes, wall });
        }
    }
    anyhow::bail!("the stream ended before revision {head}")
}

/// What is read of an answer; decoding skips the rest without looking into it.
#[derive(Clone, PartialEq, prost::Message)]
struct Progress {
    #[prost(uint64, tag = "2")]
    progress: u64,
}

/// Appends a message with its length in front.
fn record(recorded: &mut Vec<u8>, message: &Bytes) {
    recorded.put_u64(message.len() as u64);
    recorded.extend_from_slice(message);
}

/// Returns the messages of a recording.
///
/// # Errors
/// It cannot be read.
pub fn recorded(recording: &Path) -> anyhow::Result<Vec<Bytes>> {
    let mut bytes = BytesMut::from(std::fs::read(recording)?.as_slice()).freeze();
    let mut messages = Vec::new();
    while bytes.len() >= 8 {
        let length = u64::from_be_bytes(bytes.split_to(8).as_ref().try_into()?);
        messages.push(bytes.split_to(usize::try_from(length)?));
    }
    Ok(messages)
}
