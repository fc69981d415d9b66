//! How the services start, end, and say why they cannot.

use std::net::TcpListener;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::http::{Connection, Request};
use crate::harness::process::{Program, Service};
use crate::harness::stack::{Gateway, SCHEMA, Stack, address_in};

/// Splits a command line at its spaces.
fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// A command that cannot work ends with a code, and with one line that names what is in the way.
fn check_refusal(program: Program, line: &str, named: &str) {
    let ended = Service::spawn(program, &words(line)).wait();
    let case = format!(
        "{program:?} {line}: {:?}, stdout {:#?}, stderr {:#?}",
        ended.status, ended.stdout, ended.stderr
    );
    assert!(
        ended.status.code().is_some_and(|code| code != 0 && code != 101),
        "a code of its own: {case}"
    );
    assert!(
        !ended.stdout.iter().any(|line| line.contains(" ready ")),
        "{case}"
    );
    let naming = ended.stderr.iter().filter(|line| line.contains(named)).count();
    assert_eq!(naming, 1, "one line names {named}: {case}");
    assert!(
        !ended.stderr.iter().any(|line| line.contains("panicked")),
        "{case}"
    );
}

/// A directory with a good schema, a bad one, and a file that stands where a directory should be.
fn directory() -> (TempDir, String) {
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path();
    std::fs::write(path.join("good.graphql"), SCHEMA).unwrap();
    std::fs::write(
        path.join("bad.graphql"),
        "type Product @table {\n  id: ID @primaryKey\n  price: Money\n}\n",
    )
    .unwrap();
    std::fs::write(path.join("file"), "").unwrap();
    let text = path.display().to_string();
    (directory, text)
}

#[test]
fn a_feed_service_that_cannot_start_says_what_is_in_the_way() {
    let (_guard, dir) = directory();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let good = format!("--schema {dir}/good.graphql");
    let any = "--listen 127.0.0.1:0";
    check_refusal(
        Program::Feedsvc,
        &format!("serve --listen {address} --data {dir}/d {good}"),
        &address.to_string(),
    );
    check_refusal(
        Program::Feedsvc,
        &format!("serve {any} --data {dir}/file/d {good}"),
        &format!("{dir}/file/d"),
    );
    check_refusal(
        Program::Feedsvc,
        &format!("serve {any} --data {dir}/d --schema {dir}/bad.graphql"),
        "bad.graphql",
    );
    check_refusal(
        Program::Feedsvc,
        &format!("serve {any} --data {dir}/d --schema {dir}/absent.graphql"),
        "absent.graphql",
    );
}

#[test]
fn a_schema_error_is_one_line_with_its_place_and_what_is_allowed() {
    let (_guard, dir) = directory();
    for (program, line) in [
        (
            Program::Feedsvc,
            format!("serve --listen 127.0.0.1:0 --data {dir}/d --schema {dir}/bad.graphql"),
        ),
        (
            Program::Gateway,
            format!(
                "dev --application 127.0.0.1:0 --admin 127.0.0.1:0 --feed 127.0.0.1:0 --data {dir}/e --schema {dir}/bad.graphql"
            ),
        ),
    ] {
        let stderr = Service::spawn(program, &words(&line)).wait().stderr;
        assert_eq!(stderr.len(), 1, "{stderr:#?}");
        assert!(
            stderr[0].contains("bad.graphql:3:10: unknown type `Money`"),
            "{stderr:#?}"
        );
        assert!(stderr[0].contains("Float"), "names what is allowed: {stderr:#?}");
    }
}

#[test]
fn a_gateway_that_cannot_start_says_what_is_in_the_way() {
    let (_guard, dir) = directory();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let feed = "--feed http://127.0.0.1:1";
    let any = "127.0.0.1:0";
    check_refusal(
        Program::Gateway,
        &format!("serve {feed} --application {address} --admin {any}"),
        &address.to_string(),
    );
    check_refusal(
        Program::Gateway,
        &format!("serve {feed} --application {any} --admin {address}"),
        &address.to_string(),
    );
    let dev = format!("dev --feed {any}");
    let addresses = format!("--application {any} --admin {any}");
    check_refusal(
        Program::Gateway,
        &format!("{dev} --data {dir}/d --application {address} --admin {any}"),
        &address.to_string(),
    );
    check_refusal(
        Program::Gateway,
        &format!("dev --feed {address} {addresses} --data {dir}/d"),
        &address.to_string(),
    );
    check_refusal(
        Program::Gateway,
        &format!("{dev} {addresses} --data {dir}/file/d"),
        &format!("{dir}/file/d"),
    );
    check_refusal(
        Program::Gateway,
        &format!("{dev} {addresses} --data {dir}/d --schema {dir}/bad.graphql"),
        "bad.graphql",
    );
}

#[test]
fn the_version_is_told() {
    for program in [Program::Feedsvc, Program::Gateway] {
        let ended = Service::spawn(program, &words("--version")).wait();
        assert_eq!(ended.status.code(), Some(0), "{:?}", ended.stderr);
        assert!(
            ended.stdout.join(" ").contains(env!("CARGO_PKG_VERSION")),
            "{:?}",
            ended.stdout
        );
    }
}

#[test]
fn both_signals_end_every_service_cleanly_while_streams_are_open() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut stack = Stack::start(1);
        let mut stream = stack.client().listen_opened();
        let ended = stack.gateways[0].service.end_by(signal);
        assert_eq!(
            ended.status.code(),
            Some(0),
            "gateway by {signal:?}: {:#?}",
            ended.stderr
        );
        assert_eq!(stream.ends(), [], "the stream ends cleanly");
        let ended = stack.feed.service().end_by(signal);
        assert_eq!(
            ended.status.code(),
            Some(0),
            "feedsvc by {signal:?}: {:#?}",
            ended.stderr
        );
    }
}

#[test]
fn a_feed_service_ends_cleanly_while_gateways_watch_it() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut stack = Stack::start(2);
        let ended = stack.feed.service().end_by(signal);
        assert_eq!(ended.status.code(), Some(0), "by {signal:?}: {:#?}", ended.stderr);
    }
}

#[test]
fn a_gateway_ends_cleanly_that_never_found_its_feed_service() {
    let mut gateway = Gateway::start("127.0.0.1:1".parse().unwrap());
    let ended = gateway.service.end_by(Signal::TERM);
    assert_eq!(ended.status.code(), Some(0), "{:#?}", ended.stderr);
}

/// Reads soft and hard limit of a process's open files.
#[cfg(target_os = "linux")]
fn descriptor_limits(process: u32) -> Vec<String> {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).expect("the limits of a child");
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .expect("a limit of open files");
    line.split_whitespace().take(2).map(str::to_owned).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn a_gateway_raises_its_limit_of_open_files() {
    let addresses = "--application 127.0.0.1:0 --admin 127.0.0.1:0";
    let line = format!("serve --feed http://127.0.0.1:1 {addresses}");
    let service = Service::spawn_with_descriptor_limit(Program::Gateway, &words(&line), "-Sn 128");
    address_in(&service.wait_for_line("gateway ready "), "admin");
    let limits = descriptor_limits(service.id());
    assert_eq!(limits[0], limits[1], "soft and hard");
}

#[test]
fn b_2_9_a_gateway_without_free_places_says_so_and_still_ends() {
    let addresses = "--application 127.0.0.1:0 --admin 127.0.0.1:0";
    let line = format!("serve --feed http://127.0.0.1:1 {addresses}");
    // Some descriptors are kept for the process itself, so this leaves 44 places.
    let mut service = Service::spawn_with_descriptor_limit(Program::Gateway, &words(&line), "-n 300");
    let application = address_in(&service.wait_for_line("gateway ready "), "application");
    let held: Vec<Connection> = (0..44).map(|_| Connection::open(application)).collect();
    let refused = Connection::open(application).send(&Request::get("/mcp"));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");

    // Beyond the places for those that are told so, nobody is accepted: that must not keep the process from ending.
    let waiting: Vec<Connection> = (0..70).map(|_| Connection::open(application)).collect();
    let ended = service.end_by(Signal::TERM);
    assert_eq!(ended.status.code(), Some(0), "{:#?}", ended.stderr);
    drop((held, waiting));
}

#[test]
fn the_version_is_an_option_of_every_command() {
    for line in ["dev --version", "serve --version", "--version"] {
        let ended = Service::spawn(Program::Gateway, &words(line)).wait();
        assert_eq!(ended.status.code(), Some(0), "{line}: {:#?}", ended.stderr);
        assert!(
            ended.stdout.iter().any(|line| line.contains("0.1.0")),
            "{line}: {:#?}",
            ended.stdout
        );
    }
}
