//! The service in a process: opened on a data directory, then served on a listener.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::access::{AccessMode, Rights, RightsChange};
use crate::api;
use crate::catalog::{Catalog, OWN_TABLES, SchemaReadError, SchemaSource, TableDefinition, TableName};
use crate::clock::{Clock, SystemClock};
use crate::commit::{Committer, CommitterParts, Pipeline, Writability, answer_channel, give_answers};
use crate::expiry;
use crate::feed::Feed;
use crate::indexing;
use crate::lease::Leases;
use crate::maintenance::{probe, retention};
use crate::ring::Ring;
use crate::sealing::Sealing;
use crate::store::reads::Reads;
use crate::store::sqlite;
use crate::store::{Reader, StoreError, StoreOpenError, Writer};

/// How long calls that are under way at the end may take. Watches end at once, so only a reader that takes nothing
/// from its connection, or a very large commit, needs so much.
const END_GRACE: Duration = Duration::from_millis(500);
/// How many stored tables, roles or users are read at a time at the start.
const RECORDS_PER_READ: usize = 1_000;

/// What a service is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the store; it is made if it is missing.
    pub data: PathBuf,
    /// Where the tables come from.
    pub schema: SchemaSource,
    /// Whether roles are looked at.
    pub access: AccessMode,
    /// The bounds.
    pub limits: Limits,
}

/// The bounds of a service; the default is right for production.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How much memory the newest entries of the log may take, in bytes.
    pub ring_bytes: usize,
    /// How large a record may be when it is sent, in bytes.
    pub record_bytes: usize,
    /// How large the records of a commit may be together, in bytes.
    pub commit_bytes: usize,
    /// How many reads of the store run at a time.
    pub concurrent_reads: usize,
    /// How many of these may be searches.
    pub concurrent_searches: usize,
    /// How long a session may be idle if its creator says nothing else.
    pub session_idle_timeout: Duration,
    /// For how long after the start no session expires.
    pub expiry_grace: Duration,
    /// How often idle sessions are looked for.
    pub expiry_interval: Duration,
    /// How many records a search or a count may look at (`search.scan_max`).
    pub search_scan_max: u64,
    /// How long an entry of the log is kept.
    pub log_age: Duration,
    /// How much the log may take, about, before its oldest entries go earlier.
    pub log_bytes: u64,
    /// How long an entry is kept whatever else says: streams that broke rely on it.
    pub log_floor: Duration,
    /// How often it is looked for what has outlived its time.
    pub retention_interval: Duration,
    /// How long a watch of some tables is silent at most while entries of others move the head on.
    pub bookmark_interval: Duration,
    /// How long a key seals what gateways give out before a new one is made.
    pub sealing_key_age: Duration,
    /// How many sessions a principal may have; not the anonymous one, which is everybody without a name.
    pub sessions_per_principal: u64,
    /// How many sessions there may be in all.
    pub sessions_in_all: u64,
    /// For how long an entry of the access log is kept.
    pub access_log_age_max: Duration,
    /// How much the access log may take, about, in bytes.
    pub access_log_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            ring_bytes: 64 * 1024 * 1024,
            record_bytes: 1024 * 1024,
            commit_bytes: 16 * 1024 * 1024,
            // SQLite reads from the page cache, so more than the processors of a usual machine would only wait for each other.
            concurrent_reads: 8,
            // They take long: reads of single records always find a place beside them.
            concurrent_searches: 4,
            session_idle_timeout: Duration::from_secs(30 * 60),
            expiry_grace: Duration::from_secs(5 * 60),
            expiry_interval: Duration::from_secs(30),
            search_scan_max: 100_000,
            log_age: Duration::from_secs(7 * 24 * 3600),
            log_bytes: 1024 * 1024 * 1024,
            log_floor: Duration::from_secs(600),
            retention_interval: Duration::from_secs(1),
            bookmark_interval: Duration::from_secs(5),
            sealing_key_age: Duration::from_secs(24 * 60 * 60),
            sessions_per_principal: 10_000,
            sessions_in_all: 200_000,
            access_log_age_max: Duration::from_secs(30 * 24 * 60 * 60),
            access_log_bytes_max: 1024 * 1024 * 1024,
        }
    }
}

impl Options {
    /// Returns options with the default bounds.
    pub fn new(data: impl Into<PathBuf>, schema: SchemaSource) -> Options {
        Options {
            data: data.into(),
            schema,
            access: AccessMode::default(),
            limits: Limits::default(),
        }
    }
}

/// Why a service cannot be opened; its text is one line that says what to do, and then one per error of a schema.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The schema cannot be read or has errors.
    #[error(transparent)]
    Schema(#[from] SchemaReadError),
    /// The store has no tables from an earlier run, and no schema was named.
    #[error("cannot start without tables: data directory `{}` has none yet; name a schema with --schema", data.display())]
    NoTables {
        /// The data directory.
        data: PathBuf,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreOpenError),
    /// The store was opened, and then could not be read or written.
    #[error("cannot use the store in `{}`: {problem}; check the disk, or restore the store from a backup", data.display())]
    Unusable {
        /// The data directory.
        data: PathBuf,
        /// What failed.
        problem: String,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}; raise the limit of processes")]
    Thread(#[source] std::io::Error),
}

/// Why a service stopped serving by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server failed.
    #[error("cannot serve: {0}; start again")]
    Server(String),
    /// The thread that commits ended by itself; what was acknowledged is durable.
    #[error("cannot serve: the committer failed; start again")]
    Committer,
}

/// An open service, which holds its data directory until it is dropped or has served.
pub struct Service {
    feed: Arc<Feed>,
    clock: Arc<dyn Clock>,
    committer: JoinHandle<()>,
    answers: tokio::task::JoinHandle<()>,
}

impl Service {
    /// Opens the store and brings its catalogue to what the schema says.
    ///
    /// # Errors
    /// See [`OpenError`]; with a schema that has errors the store is not touched.
    pub async fn open(options: Options) -> Result<Service, OpenError> {
        Service::open_with(options, Arc::new(SystemClock::new()), |writer| writer).await
    }

    /// Opens the service with another clock, and with a writer that may be put around the store's.
    pub(crate) async fn open_with(
        options: Options,
        clock: Arc<dyn Clock>,
        wrap_writer: impl FnOnce(Box<dyn Writer>) -> Box<dyn Writer>,
    ) -> Result<Service, OpenError> {
        let Options {
            data,
            schema,
            access,
            limits,
        } = options;
        let opening = tokio::task::spawn_blocking({
            let data = data.clone();
            move || open_store(&data, &schema, access)
        });
        let opened = opening.await.unwrap_or_else(|lost| Err(unusable(&data, &lost)))?;
        let Opened {
            store,
            definitions,
            catalog,
            rights,
        } = opened;
        let bounds = store.reader.bounds().map_err(|error| unusable(&data, &error))?;

        let (catalog_sender, catalog) = watch::channel(Arc::new(catalog));
        let (rights_sender, rights) = watch::channel(Arc::new(rights));
        let (writability_sender, writability) = watch::channel(Writability::default());
        let oldest = Arc::new(AtomicU64::new(bounds.oldest.0));
        let ring = Arc::new(Ring::new(bounds.head, limits.ring_bytes));
        let leases = Arc::new(Leases::new(Arc::clone(&clock)));
        let (pipeline, queue) = Pipeline::new();
        let (answer_sender, answers) = answer_channel();
        let committer = Committer::new(CommitterParts {
            answers: answer_sender,
            writer: wrap_writer(Box::new(store.writer)),
            clock: Arc::clone(&clock),
            leases: Arc::clone(&leases),
            ring: Arc::clone(&ring),
            catalog: catalog_sender,
            rights: rights_sender,
            load_rights: Box::new({
                let reader = Arc::clone(&store.reader);
                move || load_rights(reader.as_ref(), access)
            }),
            limits: limits.clone(),
            writability: writability_sender,
            oldest: Arc::clone(&oldest),
        });
        let committer = std::thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || committer.run(queue))
            .map_err(OpenError::Thread)?;
        // It ends after the committer, when every answer is given.
        let answers = tokio::spawn(give_answers(answers));

        if let Some(definitions) = definitions {
            match pipeline.set_tables(definitions).await {
                Ok(0) => {}
                Ok(changed) => info!(tables = changed, "the catalogue has changed"),
                Err(refusal) => return Err(unusable(&data, &refusal)),
            }
        }
        let keys = store.reader.sealing_keys();
        let keys = keys.map_err(|error| unusable(&data, &error))?;
        let feed = Feed {
            sealing: Sealing::new(keys),
            store_id: store.reader.store_id().to_owned(),
            reads: Reads::new(store.reader, limits.concurrent_reads, limits.concurrent_searches),
            limits,
            pipeline,
            ring,
            leases,
            catalog,
            rights,
            shutdown: CancellationToken::new(),
            oldest,
            writability,
            watch_count: AtomicU64::new(0),
            whole_reads: Arc::new(Semaphore::new(1)),
            clock: Arc::clone(&clock),
        };
        Ok(Service {
            feed: Arc::new(feed),
            clock,
            committer,
            answers,
        })
    }

    /// Serves on a listener until `shutdown` is cancelled, and then ends within a second: watches end with UNAVAILABLE,
    /// calls that are under way have 500 ms. Returns when everything is written and the data directory is free.
    ///
    /// Dropping the future ends the watches and takes no more connections, but the data directory is free only when the
    /// last connection has ended; what was acknowledged is durable.
    ///
    /// # Errors
    /// The server or the committer failed before `shutdown` was cancelled; the service has ended then all the same.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
        let Service {
            feed,
            clock,
            committer,
            answers,
        } = self;
        // Whatever way the service ends, its watches end too.
        let stop_watches = feed.shutdown.clone().drop_guard();
        let tasks = TaskTracker::new();
        tasks.spawn(expiry::run(Arc::clone(&feed), clock, feed.shutdown.clone()));
        tasks.spawn(retention::run(Arc::clone(&feed), feed.shutdown.clone()));
        tasks.spawn(probe::run(Arc::clone(&feed), feed.shutdown.clone()));
        tasks.spawn(indexing::run(Arc::clone(&feed), feed.shutdown.clone()));

        let committer_ended = ended(feed.writability.clone());
        let server = api::serve(Arc::clone(&feed), listener, shutdown.clone(), &tasks);
        let told_to_end = async {
            shutdown.cancelled().await;
            feed.shutdown.cancel();
            tokio::time::sleep(END_GRACE).await;
        };
        let outcome = tokio::select! {
            outcome = server => outcome.map_err(|error| ServeError::Server(error.to_string())),
            () = told_to_end => Ok(()),
            // Nothing can be committed any more; a new process can.
            () = committer_ended => Err(ServeError::Committer),
        };
        drop(stop_watches);
        tasks.close();
        tasks.wait().await;
        close(&feed, committer, answers).await?;
        outcome
    }

    /// Ends the service without having served.
    #[cfg(test)]
    pub(crate) async fn close(self) {
        close(&self.feed, self.committer, self.answers).await.unwrap();
    }

    /// Ends the service without having served; returns when everything is written and the data directory is free.
    ///
    /// # Errors
    /// The committer failed; what was acknowledged is durable.
    pub(crate) async fn end(self) -> Result<(), ServeError> {
        close(&self.feed, self.committer, self.answers).await
    }

    /// Returns what the calls work with.
    pub(crate) fn feed(&self) -> Arc<Feed> {
        Arc::clone(&self.feed)
    }
}

/// Waits until the committer has ended, which drops its side of the channel.
async fn ended(mut writability: watch::Receiver<Writability>) {
    while writability.changed().await.is_ok() {}
}

/// Ends the committer after what it was given, and with it the hold on the data directory.
async fn close(
    feed: &Feed,
    committer: JoinHandle<()>,
    answers: tokio::task::JoinHandle<()>,
) -> Result<(), ServeError> {
    feed.pipeline.stop().await;
    // Joining is a wait, so not on the runtime.
    let ended = tokio::task::spawn_blocking(move || committer.join()).await;
    match (ended, answers.await) {
        (Ok(Ok(())), Ok(())) => Ok(()),
        _ => Err(ServeError::Committer),
    }
}

/// What opening a store brings.
struct Opened {
    store: sqlite::OpenedStore,
    /// What the catalogue is to become; `None`: it stays.
    definitions: Option<Vec<TableDefinition>>,
    catalog: Catalog,
    rights: Rights,
}

fn open_store(data: &Path, schema: &SchemaSource, access: AccessMode) -> Result<Opened, OpenError> {
    let definitions = schema.read()?;
    let mut store = sqlite::open(data)?;
    let mut catalog = load_catalog(store.reader.as_ref()).map_err(|error| unusable(data, &error))?;
    add_own_tables(&mut store.writer, &mut catalog).map_err(|error| unusable(data, &error))?;
    let rights = load_rights(store.reader.as_ref(), access).map_err(|error| unusable(data, &error))?;
    if definitions.is_none() && catalog.tables().next().is_none() {
        return Err(OpenError::NoTables {
            data: data.to_owned(),
        });
    }
    Ok(Opened {
        store,
        definitions,
        catalog,
        rights,
    })
}

/// Puts the tables of the service itself into the catalogue, and makes room for them in a store that never had them. They are no part
/// of a schema, so that is no entry of the log.
fn add_own_tables(writer: &mut dyn Writer, catalog: &mut Catalog) -> Result<(), StoreError> {
    let head = writer.head()?;
    let mut transaction = writer.begin()?;
    let mut has_changed = false;
    for definition in OWN_TABLES.map(|definition| definition()) {
        let id = match catalog.find_id(&definition.name()) {
            Some(id) => id,
            None => {
                has_changed = true;
                transaction.create_table(&definition.name())?
            }
        };
        catalog.insert_own(id, definition);
    }
    if has_changed {
        transaction.commit(&head)?;
    }
    Ok(())
}

/// Reads the roles and users that the store has.
fn load_rights(reader: &dyn Reader, access: AccessMode) -> Result<Rights, StoreError> {
    let mut changes = Vec::new();
    for (name, id) in reader.table_ids()? {
        if name != TableName::system_role() && name != TableName::system_user() {
            continue;
        }
        let mut after_key = String::new();
        loop {
            let records = reader.read_records(id, &after_key, RECORDS_PER_READ)?;
            let Some(last) = records.last() else {
                break;
            };
            after_key = last.key.clone();
            for stored in &records {
                match RightsChange::read(&name, &stored.key, Some(&stored.record.value)) {
                    Ok(change) => changes.extend(change),
                    // It was checked when it was written, so another version of this program wrote it. Without it there are fewer rights.
                    Err(fault) => {
                        warn!(table = %name, key = stored.key, error = %fault, "left out a role or user")
                    }
                }
            }
        }
    }
    Ok(Rights::new(access).changed(changes))
}

/// Reads the catalogue that the store has.
fn load_catalog(reader: &dyn Reader) -> Result<Catalog, StoreError> {
    let ids: BTreeMap<_, _> = reader.table_ids()?.into_iter().collect();
    let mut catalog = Catalog::new(ids);
    let Some(system_id) = catalog.find_id(&TableName::system_table()) else {
        return Ok(catalog);
    };
    let mut after_key = String::new();
    loop {
        let records = reader.read_records(system_id, &after_key, RECORDS_PER_READ)?;
        let Some(last) = records.last() else {
            return Ok(catalog);
        };
        after_key = last.key.clone();
        for stored in &records {
            let revision = stored.record.revision;
            let damaged = StoreError::Damaged {
                problem: "a table that does not parse",
                revision,
            };
            let Ok(definition) = serde_json::from_slice::<TableDefinition>(&stored.record.value) else {
                return Err(damaged);
            };
            let Some(id) = catalog.find_id(&definition.name()) else {
                return Err(damaged);
            };
            catalog.insert(id, definition);
            catalog.revision = catalog.revision.max(revision);
        }
    }
}

fn unusable(data: &Path, problem: &dyn std::error::Error) -> OpenError {
    OpenError::Unusable {
        data: data.to_owned(),
        problem: problem.to_string(),
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Service")
            .field("store_id", &self.feed.store_id)
            .finish_non_exhaustive()
    }
}
