//! Configuration of the services as processes: sources, mistakes, what is printed; and the pages that are made of the keys.

use std::path::Path;

use tempfile::TempDir;

use crate::harness::http::Request;
use crate::harness::process::{Ended, Program, Service};
use crate::harness::stack::{SCHEMA, Stack, address_in};
use crate::tidy::workspace;

/// Runs a program to its end with these words and variables.
fn ended(program: Program, words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    Service::spawn_with_variables(program, &words, variables).wait()
}

/// The program does not start, ends with code 2, and its stderr is exactly these lines; `…` stands for anything that follows.
fn check_mistakes(program: Program, words: &[&str], variables: &[(&str, &str)], expected: &[&str]) {
    let ended = ended(program, words, variables);
    let case = format!("{program:?} {words:?} {variables:?}: {:#?}", ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{case}");
    assert_eq!(ended.stdout, Vec::<String>::new(), "{case}");
    assert_eq!(ended.stderr.len(), expected.len(), "{case}");
    for (line, expected) in ended.stderr.iter().zip(expected) {
        match expected.strip_suffix('…') {
            Some(start) => assert!(line.starts_with(start), "{line}\nnot {expected}"),
            None => assert_eq!(line, expected),
        }
    }
}

/// A directory with a file of this content, and the file's path.
fn file(content: impl AsRef<[u8]>) -> (TempDir, String) {
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().join("app.toml");
    std::fs::write(&path, content).expect("a configuration file");
    let path = path.display().to_string();
    (directory, path)
}

#[test]
fn all_mistakes_of_a_configuration_are_told_at_once() {
    let (_guard, path) =
        file("lisen = \"127.0.0.1:0\"\n[ring]\nbytes = \"64 MB\"\n[session]\nidle_timeout = 30\n");
    check_mistakes(
        Program::Feedsvc,
        &[
            "serve",
            "--config",
            &path,
            "--listen",
            "nowhere",
            "--set",
            "record.byte=5",
        ],
        &[
            ("TIDEGATE_RECORD__BYTES", "-1"),
            ("TIDEGATE_RING__BITES", "1"),
            ("FEEDSVC_LISTEN", "x"),
        ],
        &[
            "feedsvc: cannot read the configuration, it has 7 mistakes:",
            "  --set: record.byte: there is no such key; did you mean record.bytes?",
            "  --listen: listen = nowhere: it is no IP address with a port; allowed: …",
            "  TIDEGATE_RING__BITES: there is no such key; did you mean TIDEGATE_RING__BYTES?",
            "  TIDEGATE_RECORD__BYTES: record.bytes = -1: it is not a whole number of bytes, KiB, MiB, GiB or TiB; allowed: …",
            &format!("  {path}:1: lisen: there is no such key; did you mean listen?"),
            &format!(
                "  {path}:3: ring.bytes = \"64 MB\": `MB` is no unit of size, did you mean MiB?; allowed: …"
            ),
            &format!(
                "  {path}:5: session.idle_timeout = 30: it has no unit, write \"30ms\", \"30s\", \"30m\", …; allowed: …"
            ),
        ],
    );
    check_mistakes(
        Program::Gateway,
        &["serve", "--config", &path, "--feed", "127.0.0.1:1"],
        &[("TIDEGATE_PUBLIC_URL", "https://a/b")],
        &[
            "gateway: cannot read the configuration, it has 5 mistakes:",
            "  --feed: feed.url = 127.0.0.1:1: …",
            "  TIDEGATE_PUBLIC_URL: public_url = https://a/b: it has a path; allowed: …",
            &format!("  {path}:1: lisen: there is no such key"),
            &format!("  {path}:3: ring.bytes = \"64 MB\": …"),
            &format!("  {path}:5: session.idle_timeout = 30: …"),
        ],
    );
}

#[test]
fn one_mistake_is_one_line() {
    for (program, prefix) in [(Program::Feedsvc, "feedsvc"), (Program::Gateway, "gateway")] {
        let check = |content: &[u8], expected: &str| {
            let (_guard, path) = file(content);
            let expected = format!("{prefix}: cannot read the configuration: {path}{expected}…");
            check_mistakes(program, &["serve", "--config", &path], &[], &[&expected]);
        };
        check(b"x = [", ":1: column ");
        check(
            b"\xef\xbb\xbfring.bytes = \"1 MiB\"\r\nring.bytes = 2\r\n",
            ":2: column ",
        );
        check(
            b"\xff\xfer\0i\0",
            ": the file is not UTF-8 but seems to be UTF-16; save it as UTF-8",
        );
        check(b"# \xe4\n", ":1: the line is not UTF-8; save the file as UTF-8");
        check(&vec![b'#'; 10 << 20], ": the file has more than 1 MiB");
        check(b"ring.bytes = \"99999999 TiB\"\n", ":1: ring.bytes = ");
        check(
            b"ring = 5\n",
            ":1: ring: this is a group of keys, not a value; allowed: ring.bytes",
        );
    }
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().display().to_string();
    let expected =
        format!("gateway: cannot read the configuration: {path}: cannot read the file: Is a directory…");
    check_mistakes(
        Program::Gateway,
        &["dev"],
        &[("TIDEGATE_CONFIG", &path)],
        &[&expected],
    );
    check_mistakes(
        Program::Gateway,
        &["dev", "--demo-writes", "--schema", "x"],
        &[],
        &[
            "gateway: cannot read the configuration: --demo-writes: demo_writes = true: only the sample tables are written to…",
        ],
    );
    check_mistakes(
        Program::Gateway,
        &["serve", "--admin", "0.0.0.0:0"],
        &[],
        &[
            "gateway: cannot read the configuration: --admin: admin.listen = \"0.0.0.0:0\": there is no authentication yet…",
        ],
    );
}

#[test]
fn an_unreadable_file_is_told() {
    use std::os::unix::fs::PermissionsExt;

    let (_guard, path) = file("");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).expect("permissions");
    if std::fs::read(&path).is_ok() {
        println!("skipped: this user may read every file");
        return;
    }
    let expected =
        format!("feedsvc: cannot read the configuration: {path}: cannot read the file: Permission denied…");
    check_mistakes(Program::Feedsvc, &["serve", "--config", &path], &[], &[&expected]);
}

#[test]
fn what_is_printed_says_where_it_comes_from_and_can_be_fed_back() {
    let (_guard, path) = file("# mine\nring.bytes = 1048576\nrecord.bytes = \"2 MiB\"\n");
    let words = [
        "serve",
        "--print-config",
        "--config",
        &path,
        "--listen",
        "127.0.0.1:0",
    ];
    let printed = ended(Program::Feedsvc, &words, &[("TIDEGATE_RECORD__BYTES", "3MiB")]);
    assert_eq!(printed.status.code(), Some(0), "{:#?}", printed.stderr);
    for line in [
        "listen = \"127.0.0.1:0\"  # --listen".to_owned(),
        format!("ring.bytes = \"1 MiB\"  # {path}:2"),
        "record.bytes = \"3 MiB\"  # TIDEGATE_RECORD__BYTES".to_owned(),
        "session.idle_timeout = \"30m\"  # default".to_owned(),
        "# schema is not set".to_owned(),
    ] {
        assert!(printed.stdout.contains(&line), "{line}\n{:#?}", printed.stdout);
    }
    let (_guard, again) = file(printed.stdout.join("\n"));
    let printed_again = ended(
        Program::Feedsvc,
        &["serve", "--print-config", "--config", &again],
        &[],
    );
    let values = |lines: &[String]| -> Vec<String> {
        let value = |line: &String| {
            line.rsplit_once("  #")
                .map_or(line.as_str(), |(value, _)| value)
                .to_owned()
        };
        lines.iter().map(value).collect()
    };
    assert_eq!(values(&printed_again.stdout), values(&printed.stdout));
}

#[test]
fn services_work_by_what_is_configured() {
    let directory = TempDir::new().expect("a temporary directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(at("schema.graphql"), SCHEMA).unwrap();
    // The paths are relative to the file, not to the directory of this test.
    std::fs::write(
        at("feedsvc.toml"),
        "listen = \"127.0.0.1:0\"\ndata = \"d\"\nschema = \"schema.graphql\"\nrecord.bytes = 1024\n",
    )
    .unwrap();
    let words = ["serve".to_owned(), "--config".to_owned(), at("feedsvc.toml")];
    let feed = Service::spawn(Program::Feedsvc, &words);
    let listen = address_in(&feed.wait_for_line("feedsvc ready "), "listen");
    assert!(Path::new(&at("d")).is_dir());

    let content = format!(
        "feed.url = \"http://{listen}\"\npublic_url = \"https://Shop.example.org\"\nsession.max_subscriptions = 1\n\
         [application]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [server]\ntitle = \"Shop\"\ninstructions = \"\"\"Read\nfirst.\"\"\"\n[http]\nbody_bytes = 2048\nallowed_origins = [\"https://app.example.org\"]\n"
    );
    std::fs::write(at("gateway.toml"), content).unwrap();
    let variable = at("gateway.toml");
    let gateway = Service::spawn_with_variables(
        Program::Gateway,
        &["serve".to_owned()],
        &[("TIDEGATE_CONFIG", &variable)],
    );
    let line = gateway.wait_for_line("gateway ready ");
    let application = address_in(&line, "application");
    crate::harness::eventually("the gateway is ready", || {
        let answer = Request::get("/readyz").send(address_in(&line, "admin"));
        if answer.status == 200 {
            Ok(())
        } else {
            Err(answer.text())
        }
    });

    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let answer = Request::mcp(initialize).send(application);
    let text = answer.text();
    assert!(
        text.contains(r#""title":"Shop""#) && text.contains(r#""instructions":"Read\nfirst.""#),
        "{text}"
    );
    let session = answer.header("mcp-session-id").expect("a session");
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"resources/list"}"#;
    let answer = Request::mcp(list)
        .header("Mcp-Session-Id", &session)
        .send(application);
    assert!(
        answer.text().contains("feed+rest://shop.example.org/Product"),
        "{}",
        answer.text()
    );

    let origin = |origin: &str| {
        Request::get("/Product/1")
            .header("Origin", origin)
            .send(application)
            .status
    };
    assert_eq!(
        (
            origin("https://app.example.org"),
            origin("https://other.example.org")
        ),
        (404, 403)
    );
    let put = |length: usize| {
        let record = format!("{{\"name\":\"{}\"}}", "x".repeat(length));
        Request::put("/Product/1", &record).send(application).status
    };
    assert_eq!(put(100), 201);
    assert_eq!(put(1_500), 413, "the feed service's limit");
    assert_eq!(put(3_000), 413, "the gateway's limit");
}

#[test]
fn a_gateway_can_keep_sessions_from_being_deleted() {
    let stack = Stack::start_with(1, &[], &[("--set", "session.allow_client_delete=false")]);
    let answer = Request::new("DELETE", "/mcp").send(stack.gateways[0].application);
    assert_eq!(answer.status, 405, "{answer:?}");
}

#[test]
fn completions_and_man_pages_have_the_flags_of_every_command() {
    for (program, name, commands, flag) in [
        (Program::Feedsvc, "feedsvc", &["serve"][..], "ring-bytes"),
        (Program::Gateway, "gateway", &["serve", "dev"][..], "application"),
    ] {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let script = ended(program, &["completions", shell], &[]);
            assert_eq!(script.status.code(), Some(0), "{shell}: {:?}", script.stderr);
            assert!(
                script.stdout.iter().any(|line| line.contains(flag)),
                "{name} {shell}"
            );
        }
        let directory = TempDir::new().expect("a temporary directory");
        let out = directory.path().join("man").display().to_string();
        let written = ended(program, &["man", "--out", &out], &[]);
        assert_eq!(written.status.code(), Some(0), "{:?}", written.stderr);
        let roff_flag = flag.replace('-', "\\-");
        for command in commands {
            let page = std::fs::read_to_string(format!("{out}/{name}-{command}.1")).expect("a man page");
            assert!(
                page.contains(&roff_flag) && page.contains("session.idle_timeout"),
                "{page}"
            );
            let printed = ended(program, &["man", command], &[]).stdout.join("\n");
            assert!(printed.contains(&roff_flag), "{printed}");
        }
        let page = ended(program, &["man"], &[]).stdout.join("\n");
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
}

/// Everything that is made of the keys: path and text.
fn pages() -> [(&'static str, String); 3] {
    let head = |program: &str, command: &str| {
        format!(
            "A sample configuration of {program}: every key of `{program} {command}`, each with its default, or an example where there is \
             none.\n\nTake the # from a line to change it. Read it with `{program} {command} --config FILE`. A relative path is relative to \
             this file. Made of the code, see docs/configuration.md."
        )
    };
    let of_serve = settings::declarations::<gateway::ServeSettings>();
    let of_feedsvc = settings::declarations::<feedsvc::ServeSettings>();
    let mut of_dev = settings::declarations::<gateway::DevSettings>();
    of_dev.retain(|key| {
        let is_of_feedsvc = key.key.starts_with("feedsvc.") && key.flag.is_none();
        !is_of_feedsvc && !of_serve.contains(key)
    });
    let reference = format!(
        "{}\n## `feedsvc serve`\n\n{}\n## `gateway serve`\n\n{}\n## `gateway dev`\n\n{}\n{}",
        include_str!("configuration_head.md"),
        settings::reference(&of_feedsvc),
        settings::reference(&of_serve),
        include_str!("configuration_dev.md"),
        settings::reference(&of_dev),
    );
    [
        ("docs/configuration.md", reference),
        (
            "examples/feedsvc.toml",
            settings::sample::<feedsvc::ServeSettings>(&head("feedsvc", "serve")),
        ),
        (
            "examples/gateway.toml",
            settings::sample::<gateway::ServeSettings>(&head("gateway", "serve")),
        ),
    ]
}

#[test]
fn the_reference_page_and_the_sample_files_are_those_of_the_code() {
    for (path, text) in pages() {
        let file = workspace().join(path);
        if std::env::var_os("REGENERATE").is_some() {
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder can be made");
            std::fs::write(&file, &text).expect("the page can be written");
        }
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            found == text,
            "{path} is not what the code says; run: REGENERATE=1 cargo test -p tests -- the_reference_page"
        );
    }
}

#[test]
fn the_sample_files_are_read_as_they_are_and_with_every_key_uncommented() {
    for (program, path) in [
        (Program::Feedsvc, "examples/feedsvc.toml"),
        (Program::Gateway, "examples/gateway.toml"),
    ] {
        let sample = std::fs::read_to_string(workspace().join(path)).expect("a sample file");
        let uncommented: String = sample
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(key) if key.starts_with(|first: char| first.is_ascii_lowercase()) => format!("{key}\n"),
                Some(_) | None => format!("{line}\n"),
            })
            .collect();
        let key_count = uncommented
            .lines()
            .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
            .count();
        assert!(key_count > 5, "{path}: {key_count}");
        for (text, of_file) in [(sample, 0), (uncommented, key_count)] {
            let (_guard, path) = file(text);
            let printed = ended(program, &["serve", "--print-config", "--config", &path], &[]);
            assert_eq!(printed.status.code(), Some(0), "{path}: {:#?}", printed.stderr);
            let origin = format!("  # {path}:");
            let found = printed
                .stdout
                .iter()
                .filter(|line| line.contains(&origin))
                .count();
            assert_eq!(found, of_file, "{path}: {:#?}", printed.stdout);
        }
    }
}
