//! Backups of a running service, restores, checks; and what gateways and clients see after a restore.

use std::path::Path;

use serde_json::json;

use crate::harness::eventually;
use crate::harness::mcp::Client;
use crate::harness::process::{Ended, Program, Service};
use crate::harness::stack::Stack;
use crate::harness::truth::{RECORD_SLOT, event_id, put};

const ITEM: &str = "feed+rest://tidegate.test/Item/7";

fn feedsvc(arguments: &[&str]) -> Ended {
    let arguments: Vec<String> = arguments.iter().map(|argument| argument.to_string()).collect();
    Service::spawn(Program::Feedsvc, &arguments).wait()
}

/// Runs a command that must work; returns what it printed.
fn done(arguments: &[&str]) -> Vec<String> {
    let ended = feedsvc(arguments);
    assert!(
        ended.status.success(),
        "{arguments:?}: {:#?} {:#?}",
        ended.stdout,
        ended.stderr
    );
    ended.stdout
}

/// Runs a command that must be refused with one line that names what is in the way.
fn refused(arguments: &[&str], named: &str) {
    let ended = feedsvc(arguments);
    assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {:#?}", ended.stderr);
    let naming = ended.stderr.iter().filter(|line| line.contains(named)).count();
    assert_eq!(naming, 1, "{arguments:?} names {named}: {:#?}", ended.stderr);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// What goes wrong between the backup and the restore: this many changes are lost.
fn check_restore(lost_changes: usize) {
    let mut stack = Stack::start(2);
    let place = tempfile::tempdir().expect("a directory for backups");
    let (backup, data) = (place.path().join("backup"), place.path().join("data"));
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    stack.put("Item/7", r#"{"name":"kept"}"#);
    stream.update(ITEM);
    let address = format!("http://{}", stack.feed.address);
    let printed = done(&["backup", "--feed", &address, text(&backup)]);
    assert!(printed[0].starts_with("feedsvc backup file="), "{printed:?}");
    for _ in 0..lost_changes {
        stack.put("Item/7", r#"{"name":"lost"}"#);
        stream.update(ITEM);
    }
    let last = stack.truth().newest("Item", "7");
    let head = stack.truth().status().head;

    stack.feed.kill();
    done(&["restore", text(&backup), "--data", text(&data)]);
    let printed = done(&["verify", "--data", text(&data)]);
    assert!(printed[0].contains("findings=0"), "{printed:?}");
    stack.feed.restart_on(&data);
    stack
        .gateways
        .iter()
        .for_each(|gateway| gateway.wait_until_ready());

    let status = stack.truth().status();
    assert!(
        status.oldest > head + (1 << 31),
        "every older cursor is below the log: {status:?}"
    );
    assert_eq!(status.sessions, 0);
    // The stream of a session that is no more ends, and the session is unknown everywhere, with any cursor.
    stream.ends();
    for gateway in &stack.gateways {
        let gone = client.on(gateway.application);
        let answer = eventually("the session is unknown", || {
            match gone
                .get(Some(&event_id(last, RECORD_SLOT).to_string()))
                .send(gateway.application)
            {
                answer if answer.status == 404 => Ok(answer.status),
                answer => Err(format!("{answer:?}")),
            }
        });
        assert_eq!(answer, 404);
        assert_eq!(gone.send(&gone.call("ping", &json!({}))).status, 404);
    }

    // A new session works on every instance; an old cursor in it is a gap, told.
    for gateway in &stack.gateways {
        let client = Client::initialize(gateway.application, "2025-11-25");
        let stream = client.listen_opened();
        client.subscribe(ITEM);
        assert!(client.read(ITEM).contains("kept"));
        stream.close();
        let mut stream = client.resume(event_id(last, RECORD_SLOT));
        stream.gap(&[ITEM]);
        let written = stack
            .truth()
            .commit(vec![put("Item", "7", r#"{"name":"kept"}"#)])
            .head;
        assert_eq!(stream.update(ITEM), event_id(written, RECORD_SLOT));
        stream.close();
    }
    assert_eq!(stack.truth().verify(), Vec::<String>::new());
}

#[test]
fn told_after_a_restore_old_sessions_are_gone_old_cursors_are_gaps_and_new_sessions_work() {
    check_restore(5);
}

#[test]
fn told_a_restore_that_lost_nothing_is_another_history_all_the_same() {
    check_restore(0);
}

#[test]
fn operators_commands_say_what_is_in_the_way() {
    let mut stack = Stack::start(0);
    let place = tempfile::tempdir().expect("a directory for backups");
    let (backup, text_file) = (place.path().join("backup"), place.path().join("text"));
    std::fs::write(&text_file, "no backup, and long enough to look like a database").unwrap();
    let address = format!("http://{}", stack.feed.address);
    let data = stack.feed.data().to_owned();
    stack.truth().commit(vec![put("Item", "7", "{}")]);

    done(&["backup", "--feed", &address, text(&backup)]);
    refused(
        &["backup", "--feed", &address, text(&backup)],
        "there is a file already",
    );
    refused(
        &[
            "backup",
            "--feed",
            &address,
            text(&place.path().join("absent/backup")),
        ],
        "its directory does not exist",
    );
    refused(
        &["backup", "--feed", "nonsense nonsense", text(&backup)],
        "nonsense nonsense",
    );
    refused(
        &["restore", text(&backup), "--data", text(&data)],
        "another process has it open",
    );
    refused(&["verify", "--data", text(&data)], "another process has it open");
    refused(
        &["verify", "--backup", text(&text_file)],
        "file is not a database",
    );
    refused(
        &[
            "restore",
            text(&text_file),
            "--data",
            text(&place.path().join("data")),
        ],
        text(&text_file),
    );
    assert!(done(&["verify", "--backup", text(&backup)])[0].contains("findings=0"));

    stack.feed.kill();
    refused(
        &["backup", "--feed", &address, text(&place.path().join("other"))],
        &address,
    );
    refused(
        &["restore", text(&backup), "--data", text(&data)],
        "it is not empty",
    );
    assert!(done(&["verify", "--data", text(&data)])[0].contains("findings=0"));
    refused(&["verify", "--data", text(place.path())], "there is no store");
}
