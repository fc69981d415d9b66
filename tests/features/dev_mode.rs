//! `gateway dev`: everything in one process, for someone who sees it for the first time.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::http::Request;
use crate::harness::mcp::Client;
use crate::harness::process::{Program, Service};
use crate::harness::stack::address_in;
use crate::harness::{PATIENCE, eventually};

/// A running `gateway dev` on this data.
struct Dev {
    service: Service,
    client: Client,
}

impl Dev {
    fn start(data: &Path, more: &[&str]) -> Dev {
        let data = data.display().to_string();
        let any = "127.0.0.1:0";
        let mut arguments = vec![
            "dev",
            "--application",
            any,
            "--admin",
            any,
            "--feed",
            any,
            "--data",
            &data,
        ];
        arguments.extend(more);
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let service = Service::spawn(Program::Gateway, &arguments);
        let line = service.wait_for_line("gateway ready ");
        let client = Client::initialize(address_in(&line, "application"), "2025-11-25");
        Dev { service, client }
    }

    /// Returns the descriptor of a sample table.
    fn table(&self, name: &str) -> Value {
        serde_json::from_str(&self.client.read(&format!("feed+rest://h/{name}")))
            .expect("a descriptor is JSON")
    }
}

#[test]
fn a_newcomer_is_told_what_runs_and_finds_sample_records() {
    let directory = TempDir::new().unwrap();
    let dev = Dev::start(&directory.path().join("data"), &[]);
    let url = format!("http://{}/mcp", dev.client.address);
    assert!(
        dev.service.stdout().iter().any(|line| line.contains(&url)),
        "{url} in {:#?}",
        dev.service.stdout()
    );
    let answer = Request::get("/Product/42").send(dev.client.address);
    assert_eq!(
        (answer.status, &answer.json()["id"]),
        (200, &json!("42")),
        "{answer:?}"
    );
    for table in ["Product", "Order"] {
        assert!(dev.table(table)["recordCount"].as_u64() > Some(0), "{table}");
    }
}

#[test]
fn a_second_start_on_the_same_data_does_not_double_the_sample_records() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let mut dev = Dev::start(&data, &[]);
    let (before, record) = (dev.table("Product"), dev.client.read("feed+rest://h/Product/42"));
    assert_eq!(dev.service.end_by(Signal::TERM).status.code(), Some(0));

    let dev = Dev::start(&data, &[]);
    assert_eq!(dev.table("Product")["recordCount"], before["recordCount"]);
    assert_eq!(
        dev.client.read("feed+rest://h/Product/42"),
        record,
        "nor written again"
    );
}

#[test]
fn demo_writes_notify_without_anybody_writing() {
    let directory = TempDir::new().unwrap();
    let dev = Dev::start(&directory.path().join("data"), &["--demo-writes"]);
    let mut stream = dev.client.listen_opened();
    dev.client.subscribe("feed+rest://h/Product");
    let first = stream.update("feed+rest://h/Product");
    assert!(stream.update("feed+rest://h/Product") > first);
}

#[test]
fn dev_takes_a_schema_from_a_file_or_a_directory() {
    let directory = TempDir::new().unwrap();
    let schema = directory.path().join("schema");
    std::fs::create_dir(&schema).unwrap();
    for name in ["Cat", "Dog"] {
        let text = format!("type {name} @table(database: \"data\") @export {{\n  id: ID @primaryKey\n}}\n");
        std::fs::write(schema.join(format!("{name}.graphql")), text).unwrap();
    }
    let file = schema.join("Cat.graphql");
    for (index, (path, tables)) in [(&schema, vec!["Cat", "Dog"]), (&file, vec!["Cat"])]
        .into_iter()
        .enumerate()
    {
        let data = directory.path().join(format!("data{index}"));
        let dev = Dev::start(&data, &["--schema", &path.display().to_string()]);
        for name in ["Cat", "Dog"] {
            let answer = Request::put(&format!("/{name}/1"), "{}").send(dev.client.address);
            assert_eq!(answer.status < 300, tables.contains(&name), "{name}: {answer:?}");
        }
    }
}

#[test]
fn both_signals_end_dev_cleanly_while_a_stream_is_open() {
    for signal in [Signal::TERM, Signal::INT] {
        let directory = TempDir::new().unwrap();
        let mut dev = Dev::start(&directory.path().join("data"), &["--demo-writes"]);
        let mut stream = dev.client.listen_opened();
        let ended = dev.service.end_by(signal);
        assert_eq!(ended.status.code(), Some(0), "by {signal:?}: {:#?}", ended.stderr);
        assert_eq!(stream.ends(), [], "the stream ends cleanly");
    }
}

/// Returns the printed commands: each follows a line that ends with a colon, and ends at a blank line.
fn printed_commands(output: &[String]) -> Vec<String> {
    let text = output.join("\n");
    let paragraphs: Vec<&str> = text.split("\n\n").collect();
    let after_headings = paragraphs.windows(2).filter(|pair| pair[0].ends_with(':'));
    after_headings.map(|pair| pair[1].to_owned()).collect()
}

/// A script that runs until it is ended, with all that it started.
struct Script {
    child: Child,
    output: mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Script {
    fn start(script: &str, directory: &Path) -> Script {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        // A group of its own, so that ending it ends the curl that it waits for.
        let mut child = command.process_group(0).spawn().expect("a shell");
        let (sender, output) = mpsc::channel();
        let mut stdout = child.stdout.take().expect("a piped stdout");
        std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Script {
            child,
            output,
            seen: String::new(),
        }
    }

    /// Waits until it has shown this text.
    fn wait_for(&mut self, text: &str) {
        while !self.seen.contains(text) {
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(error) => panic!("the script did not show `{text}` ({error}) but {}", self.seen),
            }
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[test]
fn the_printed_commands_work_as_they_are_printed() {
    if Command::new("curl")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI needs curl");
        println!("skipped: there is no curl to run the printed commands with");
        return;
    }
    let directory = TempDir::new().unwrap();
    let dev = Dev::start(&directory.path().join("data"), &[]);
    let [watch, change] = eventually("two commands", || {
        printed_commands(&dev.service.stdout())
            .try_into()
            .map_err(|found| format!("{found:?}"))
    });
    assert_eq!(change.lines().count(), 1, "one line changes a record: {change}");

    // Twice, since a newcomer tries it again.
    for _ in 0..2 {
        let mut script = Script::start(&watch, directory.path());
        script.wait_for(r#""result":{}"#);
        let changed = Command::new("sh")
            .args(["-c", &change])
            .output()
            .expect("a shell");
        assert!(changed.status.success(), "{change}: {changed:?}");
        script.wait_for("notifications/resources/updated");
    }
}
