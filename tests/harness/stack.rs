//! A feed service and gateways on a directory and addresses of their own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::http::{Answer, Request};
use super::mcp::Client;
use super::process::{Program, Service};
use super::truth::Truth;
use super::{PATIENCE, eventually};

/// The tables that the tests use. `Unseen` is not exported; `Number` has an attribute of each numeric type.
pub const SCHEMA: &str = r#"
type Product @table(database: "data") @export {
  id: ID @primaryKey
  name: String!
  description: String
  price: Float
  stock: Int
  tags: [String!]
  data: Any
  createdAt: Date @createdTime
  updatedAt: Date @updatedTime
}
type Item @table(database: "data") @export {
  id: ID @primaryKey
  name: String
  data: Any
}
type Number @table(database: "data") @export {
  id: ID @primaryKey
  int: Int
  long: Long
  bigInt: BigInt
  float: Float
  any: Any
}
type Unseen @table(database: "data") {
  id: ID @primaryKey
  name: String
}
"#;

/// One feed service and some gateways.
pub struct Stack {
    // Dropped in this order: the directory goes last.
    pub gateways: Vec<Gateway>,
    pub feed: Feed,
    _directory: TempDir,
}

impl Stack {
    /// Starts them and waits until every gateway's watch is live.
    pub fn start(gateway_count: usize) -> Stack {
        Stack::start_with(gateway_count, &[], &[])
    }

    /// As `start`, with more options (name and value) for the feed service and for each gateway.
    pub fn start_with(
        gateway_count: usize,
        feed_options: &[(&str, &str)],
        gateway_options: &[(&str, &str)],
    ) -> Stack {
        let directory = TempDir::new().expect("a temporary directory");
        let feed = Feed::start_with(directory.path(), feed_options);
        let gateways: Vec<Gateway> = (0..gateway_count)
            .map(|_| Gateway::start_with(feed.address, gateway_options))
            .collect();
        gateways.iter().for_each(Gateway::wait_until_ready);
        Stack {
            gateways,
            feed,
            _directory: directory,
        }
    }

    /// Makes a session of the preferred version on the first gateway.
    pub fn client(&self) -> Client {
        self.gateways[0].client()
    }

    /// Writes a record through the last gateway, so not the one that `client` listens on if there are several.
    pub fn put(&self, path: &str, record: &str) {
        self.gateways[self.gateways.len() - 1].put(path, record);
    }

    pub fn truth(&self) -> Truth {
        Truth::of(self.feed.address)
    }
}

/// A feed service of its own, which keeps its address and its data from one start to the next.
pub struct Feed {
    pub address: SocketAddr,
    service: Service,
    data: PathBuf,
    schema: PathBuf,
    options: Vec<(String, String)>,
    variables: Vec<(String, String)>,
}

impl Feed {
    /// Starts one with the tests' schema and its data below `directory`.
    pub fn start(directory: &Path) -> Feed {
        Feed::start_by(&[], directory, &[], &[])
    }

    /// Starts one with more options.
    pub fn start_with(directory: &Path, options: &[(&str, &str)]) -> Feed {
        Feed::start_by(&[], directory, options, &[])
    }

    /// As `start_with`, with these variables in its environment at every start.
    pub fn start_in(variables: &[(&str, &str)], directory: &Path, options: &[(&str, &str)]) -> Feed {
        Feed::start_by(&[], directory, options, variables)
    }

    /// Starts one by another program that becomes it (see `Service::spawn_under`); a restart does without.
    pub fn start_under(wrapper: &[&str], directory: &Path) -> Feed {
        Feed::start_by(wrapper, directory, &[], &[])
    }

    fn start_by(
        wrapper: &[&str],
        directory: &Path,
        options: &[(&str, &str)],
        variables: &[(&str, &str)],
    ) -> Feed {
        let (data, schema) = (directory.join("data"), directory.join("schema.graphql"));
        std::fs::write(&schema, SCHEMA).expect("a schema file");
        let (options, variables) = (owned(options), owned(variables));
        let (service, address) = Feed::serve(wrapper, any_port(), &data, &schema, &options, &variables);
        Feed {
            address,
            service,
            data,
            schema,
            options,
            variables,
        }
    }

    /// Starts one that is expected to end by itself, on what an earlier one left.
    pub fn try_start_stored(directory: &Path) -> Service {
        let (data, schema) = (directory.join("data"), directory.join("schema.graphql"));
        Service::spawn(Program::Feedsvc, &Feed::arguments(any_port(), &data, &schema))
    }

    /// Returns the data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Starts it again where it was, but on another data directory.
    pub fn restart_on(&mut self, data: &Path) {
        self.data = data.to_owned();
        self.restart();
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Starts it again where it was.
    pub fn restart(&mut self) {
        let (service, address) = Feed::serve(
            &[],
            self.address,
            &self.data,
            &self.schema,
            &self.options,
            &self.variables,
        );
        assert_eq!(address, self.address);
        self.service = service;
    }

    /// Ends it as a crash does, and starts it again where it was with other tables.
    pub fn restart_with_schema(&mut self, schema: &str) {
        self.kill();
        std::fs::write(&self.schema, schema).expect("a schema file");
        self.restart();
    }

    pub fn service(&mut self) -> &mut Service {
        &mut self.service
    }

    fn arguments(listen: SocketAddr, data: &Path, schema: &Path) -> Vec<String> {
        arguments(&[
            ("--listen", listen.to_string()),
            ("--data", data.display().to_string()),
            ("--schema", schema.display().to_string()),
        ])
    }

    fn serve(
        wrapper: &[&str],
        listen: SocketAddr,
        data: &Path,
        schema: &Path,
        options: &[(String, String)],
        variables: &[(String, String)],
    ) -> (Service, SocketAddr) {
        let mut arguments = Feed::arguments(listen, data, schema);
        arguments.extend(flattened(options));
        let service = match wrapper {
            [] => Service::spawn_with_variables(Program::Feedsvc, &arguments, &borrowed(variables)),
            wrapper => Service::spawn_under(wrapper, Program::Feedsvc, &arguments),
        };
        let line = service.wait_for_line("feedsvc ready ");
        (service, address_in(&line, "listen"))
    }
}

/// A gateway of its own, which keeps its addresses from one start to the next.
pub struct Gateway {
    pub application: SocketAddr,
    pub admin: SocketAddr,
    pub service: Service,
    feed: SocketAddr,
    options: Vec<(String, String)>,
    variables: Vec<(String, String)>,
}

impl Gateway {
    /// Starts one and waits until it listens; the feed service need not be there.
    pub fn start(feed: SocketAddr) -> Gateway {
        Gateway::start_with(feed, &[])
    }

    /// As `start`, with more options.
    pub fn start_with(feed: SocketAddr, options: &[(&str, &str)]) -> Gateway {
        Gateway::start_in(&[], feed, options)
    }

    /// As `start_with`, with these variables in its environment at every start.
    pub fn start_in(variables: &[(&str, &str)], feed: SocketAddr, options: &[(&str, &str)]) -> Gateway {
        Gateway::serve(feed, any_port(), any_port(), owned(options), owned(variables))
    }

    fn serve(
        feed: SocketAddr,
        application: SocketAddr,
        admin: SocketAddr,
        options: Vec<(String, String)>,
        variables: Vec<(String, String)>,
    ) -> Gateway {
        let mut arguments = arguments(&[
            ("--feed", format!("http://{feed}")),
            ("--application", application.to_string()),
            ("--admin", admin.to_string()),
        ]);
        arguments.extend(flattened(&options));
        let service = Service::spawn_with_variables(Program::Gateway, &arguments, &borrowed(&variables));
        let line = service.wait_for_line("gateway ready ");
        let (application, admin) = (address_in(&line, "application"), address_in(&line, "admin"));
        Gateway {
            application,
            admin,
            service,
            feed,
            options,
            variables,
        }
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Starts it again where it was.
    pub fn restart(&mut self) {
        *self = Gateway::serve(
            self.feed,
            self.application,
            self.admin,
            self.options.clone(),
            self.variables.clone(),
        );
    }

    /// Waits until its watch is live.
    pub fn wait_until_ready(&self) {
        eventually("the gateway is ready", || match self.readiness() {
            answer if answer.status == 200 => Ok(()),
            answer => Err(answer.text()),
        });
    }

    /// Asks the admin listener whether the watch is live.
    pub fn readiness(&self) -> Answer {
        Request::get("/readyz").send(self.admin)
    }

    /// Makes a session of the preferred version.
    pub fn client(&self) -> Client {
        Client::initialize(self.application, "2025-11-25")
    }

    /// Writes a record by REST; `path` is `Product/42`, its key percent-encoded.
    pub fn put(&self, path: &str, record: &str) {
        let answer = Request::put(&format!("/{path}"), record).send(self.application);
        assert!(answer.status < 300, "PUT /{path} within {PATIENCE:?}: {answer:?}");
    }

    /// Removes a record by REST.
    pub fn delete(&self, path: &str) {
        let answer = Request::new("DELETE", &format!("/{path}")).send(self.application);
        assert!(answer.status < 300, "DELETE /{path}: {answer:?}");
    }
}

/// Finds `name=<address>` in a line that says that a service is ready.
pub fn address_in(line: &str, name: &str) -> SocketAddr {
    let value = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {name}=ADDRESS in `{line}`"))
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn owned(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn borrowed(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

fn flattened(options: &[(String, String)]) -> impl Iterator<Item = String> {
    // One word each: a switch takes its value in no other way.
    options.iter().map(|(name, value)| format!("{name}={value}"))
}

fn arguments(options: &[(&str, String)]) -> Vec<String> {
    let options = options
        .iter()
        .flat_map(|(name, value)| [name.to_string(), value.clone()]);
    std::iter::once("serve".to_owned()).chain(options).collect()
}
