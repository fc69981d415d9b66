//! Who makes changes: by HTTP at the floor and at the rmcp server, by gRPC at the feed service.
//!
//! A publisher has a thread of its own, so that the moment of an answer is taken when it arrives and not when the
//! thread that reads the streams has time for it.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::{CommitRequest, Put, RecordOperation};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::transport::{Channel, Endpoint};

use crate::load::http::Connection;

/// What was published, and when.
#[derive(Debug)]
pub struct Published {
    /// The event ids that every session must get; `None` where the server numbers each session by itself.
    pub ids: Option<Vec<u64>>,
    /// Right before it was sent.
    pub sent: Instant,
    /// When the answer had arrived.
    pub answered: Instant,
}

/// A thread that publishes on demand.
#[derive(Debug)]
pub struct Publisher {
    /// Taken at the drop, which ends the thread.
    orders: Option<UnboundedSender<u32>>,
    results: Receiver<anyhow::Result<Published>>,
    thread: Option<JoinHandle<()>>,
}

/// What is asked of the thread and what it answers; each order has one result.
struct Desk {
    orders: UnboundedReceiver<u32>,
    results: Sender<anyhow::Result<Published>>,
}

/// Longer than any change takes that is made at all.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

impl Publisher {
    /// Publishes by `POST /publish?n=N`.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn http(address: SocketAddr) -> anyhow::Result<Publisher> {
        let mut publisher = HttpPublisher {
            connection: Connection::open(address)?,
        };
        Publisher::start(move |mut desk| {
            while let Some(changes) = desk.orders.blocking_recv() {
                if desk.results.send(publisher.publish(changes)).is_err() {
                    return;
                }
            }
        })
    }

    /// Publishes by commits at the feed service.
    ///
    /// # Errors
    /// The feed service cannot be reached.
    pub fn commits(address: &str) -> anyhow::Result<Publisher> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut publisher = runtime.block_on(CommitPublisher::connect(address))?;
        // The thread stays in the runtime while it waits: the connection has to answer pings then too.
        Publisher::start(move |mut desk| {
            runtime.block_on(async {
                while let Some(changes) = desk.orders.recv().await {
                    if desk.results.send(publisher.publish(changes).await).is_err() {
                        return;
                    }
                }
            });
        })
    }

    fn start(work: impl FnOnce(Desk) + Send + 'static) -> anyhow::Result<Publisher> {
        let (orders, order_queue) = unbounded_channel();
        let (result_queue, results) = channel();
        let desk = Desk {
            orders: order_queue,
            results: result_queue,
        };
        let thread = std::thread::Builder::new()
            .name("publisher".into())
            .spawn(move || work(desk))?;
        Ok(Publisher {
            orders: Some(orders),
            results,
            thread: Some(thread),
        })
    }

    /// Has changes published, without waiting for it.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn begin(&self, changes: u32) -> anyhow::Result<()> {
        let orders = self.orders.as_ref().context("the publisher has ended")?;
        orders
            .send(changes)
            .map_err(|_| anyhow!("the publisher has ended"))
    }

    /// Waits for the answer of what was begun.
    ///
    /// # Errors
    /// It could not be published.
    pub fn end(&self) -> anyhow::Result<Published> {
        self.results
            .recv_timeout(ANSWER_TIMEOUT)
            .context("nothing was published")?
            .context("cannot publish")
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.orders.take();
        if let Some(thread) = self.thread.take() {
            // It cannot be told to anybody any more.
            let _ = thread.join();
        }
    }
}

struct HttpPublisher {
    connection: Connection,
}

impl HttpPublisher {
    fn publish(&mut self, changes: u32) -> anyhow::Result<Published> {
        let sent = Instant::now();
        let response = self
            .connection
            .request("POST", &format!("/publish?n={changes}"), &[], "")?;
        let answered = Instant::now();
        let body: Value = serde_json::from_str(&response.body).context("the answer is not JSON")?;
        ensure!(
            body["lagged"].as_u64().unwrap_or(0) == 0,
            "streams lagged behind the broadcast"
        );
        let ids = match (body["first"].as_u64(), body["last"].as_u64()) {
            (Some(first), Some(last)) => Some((first..=last).step_by(1 << 16).collect()),
            _ => None,
        };
        Ok(Published { ids, sent, answered })
    }
}

struct CommitPublisher {
    client: FeedClient<Channel>,
    made_count: u64,
}

impl CommitPublisher {
    async fn connect(address: &str) -> anyhow::Result<CommitPublisher> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        let channel = endpoint
            .connect()
            .await
            .context("cannot connect to the feed service")?;
        Ok(CommitPublisher {
            client: FeedClient::new(channel),
            made_count: 0,
        })
    }

    fn put(&mut self) -> RecordOperation {
        self.made_count += 1;
        let value = format!(
            r#"{{"id":"42","name":"Lamp","price":19.5,"stock":{}}}"#,
            self.made_count
        );
        RecordOperation {
            database: "data".into(),
            table: "Product".into(),
            key: "42".into(),
            precondition: None,
            action: Some(Action::Put(Put { value: value.into() })),
        }
    }

    async fn publish(&mut self, changes: u32) -> anyhow::Result<Published> {
        let operations = (0..changes).map(|_| self.put()).collect();
        let request = CommitRequest {
            operations,
            ..CommitRequest::default()
        };
        let sent = Instant::now();
        let response = self
            .client
            .commit(request)
            .await
            .context("the commit was refused")?;
        let answered = Instant::now();
        // The slot of a record's URI is 1.
        let ids = response
            .get_ref()
            .results
            .iter()
            .map(|result| result.revision << 16 | 1)
            .collect();
        Ok(Published {
            ids: Some(ids),
            sent,
            answered,
        })
    }
}
