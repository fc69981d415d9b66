//! A feed service under test, and writers that commit to it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::{CommitRequest, Put, RecordOperation};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

use super::plan::Plan;
use super::writer::Writer;
use crate::measure::cpu::CpuReading;
use crate::subject::process::ServerProcess;

/// The tables: one that is written, and one that others watch.
const SCHEMA: &str = r#"
type Item @table(database: "data") { id: ID @primaryKey  name: String  price: Float  stock: Int  note: String }
type Other @table(database: "data") { id: ID @primaryKey  name: String }
"#;

/// How many records are written again and again.
pub const KEYS: u64 = 10_000;

/// How many records a batch of the preparation has.
const BATCH: u64 = 1_000;

/// A running service.
pub struct FeedService {
    /// The process.
    pub process: ServerProcess,
    /// Where it listens, as a URI.
    pub uri: String,
}

impl FeedService {
    /// Starts one on an empty directory below `folder`, with more arguments, and with the value of `RUST_LOG`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(plan: &Plan, folder: &Path, more: &[&str], log: &str) -> anyhow::Result<FeedService> {
        let name = format!("data-{}", fs::read_dir(folder)?.count());
        let data = folder.join(name);
        fs::create_dir(&data)?;
        let schema = folder.join("schema.graphql");
        fs::write(&schema, SCHEMA)?;
        let mut arguments = vec![
            format!("RUST_LOG={log}"),
            plan.program()?.display().to_string(),
            "serve".to_owned(),
            "--listen=127.0.0.1:0".to_owned(),
            format!("--data={}", data.display()),
            format!("--schema={}", schema.display()),
        ];
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        let process = ServerProcess::start("feedsvc", Path::new("/usr/bin/env"), &arguments, folder)?;
        let uri = format!("http://{}", process.ready_value("listen")?);
        Ok(FeedService { process, uri })
    }

    /// Returns a client with a connection of its own; its windows let a watch run.
    ///
    /// # Errors
    /// The service cannot be reached.
    pub async fn connect(&self) -> anyhow::Result<FeedClient<Channel>> {
        Ok(FeedClient::new(connect(&self.uri).await?).max_decoding_message_size(64 * 1024 * 1024))
    }

    /// Writes every record once.
    ///
    /// # Errors
    /// A commit is refused.
    pub async fn fill(&self) -> anyhow::Result<()> {
        let mut client = self.connect().await?;
        for first in (0..KEYS).step_by(usize::try_from(BATCH)?) {
            let operations = (first..first + BATCH).map(|key| put(key, 0)).collect();
            client.commit(commit(operations)).await?;
        }
        Ok(())
    }
}

/// Connects with windows as the gateway's.
///
/// # Errors
/// The service cannot be reached.
pub async fn connect(uri: &str) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(uri.to_owned())?
        .tcp_nodelay(true)
        .initial_stream_window_size(2 * 1024 * 1024)
        .initial_connection_window_size(32 * 1024 * 1024);
    endpoint
        .connect()
        .await
        .with_context(|| format!("cannot connect to {uri}"))
}

/// Returns a commit of operations.
pub fn commit(operations: Vec<RecordOperation>) -> CommitRequest {
    CommitRequest {
        operations,
        ..CommitRequest::default()
    }
}

/// Returns the record of a key, of about 200 bytes, in its form of a round.
pub fn record(key: u64, round: u64) -> String {
    format!(
        r#"{{"id":"{key}","name":"Tide clock","price":{}.90,"stock":{},"note":"{}"}}"#,
        round % 100,
        round % 1_000,
        "swings with the moon ".repeat(6)
    )
}

/// Returns an operation that writes a record.
pub fn put(key: u64, round: u64) -> RecordOperation {
    RecordOperation {
        database: "data".to_owned(),
        table: "Item".to_owned(),
        key: key.to_string(),
        precondition: None,
        action: Some(Action::Put(Put {
            value: record(key, round).into(),
        })),
    }
}

/// What a sample of commits brought.
#[derive(Clone, Copy, Debug)]
pub struct Commits {
    /// How many were acknowledged.
    pub count: u64,
    /// How long it took.
    pub wall: Duration,
    /// CPU time of the service.
    pub cpu: Duration,
}

impl Commits {
    /// Commits per second.
    pub fn rate(&self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64()
    }

    /// CPU microseconds of the service per commit.
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.count as f64
    }
}

/// Lets writers commit one record at a time for as long as a sample takes, each after the answer of its last.
///
/// # Errors
/// A commit is refused.
pub fn write(
    plan: &Plan,
    runtime: &Runtime,
    service: &FeedService,
    writers: usize,
) -> anyhow::Result<Commits> {
    runtime.block_on(async {
        let mut driving = JoinSet::new();
        let mut clients = Vec::new();
        for _ in 0..plan.connections.min(writers) {
            clients.push(Writer::connect(&service.uri, &mut driving).await?);
        }
        let pid = service.process.pid();
        let before = CpuReading::take(pid)?;
        let (begin, count) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let deadline = begin + plan.sample();
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let mut client = clients[writer % clients.len()].clone();
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    let mut random = writer as u64;
                    while Instant::now() < deadline {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let record = put((random >> 33) % KEYS, random >> 40);
                        client.commit(&commit(vec![record])).await?;
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        let wall = begin.elapsed();
        let cpu = CpuReading::take(pid)?.since(&before);
        Ok(Commits {
            count: count.load(Ordering::Relaxed),
            wall,
            cpu,
        })
    })
}

/// Returns a runtime of one thread: the load generator must leave a core to the service.
///
/// # Errors
/// The system refuses it.
pub fn runtime() -> anyhow::Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
