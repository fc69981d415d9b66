//! What is read from which source, what is told of mistakes, and that what is printed is read again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;

use crate::declaration::declarations;
use crate::reference::{reference, sample};
use crate::size::mebibytes;
use crate::testing::{Everything, print, run};

/// A directory with a configuration file.
struct Folder {
    directory: TempDir,
}

impl Folder {
    fn with(contents: impl AsRef<[u8]>) -> Folder {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("app.toml"), contents).unwrap();
        Folder { directory }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("app.toml")
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a text with the file's path replaced, to compare.
    fn clean(&self, text: &str) -> String {
        text.replace(&self.file().display().to_string(), "FILE")
    }
}

/// What a file is read as, or the mistakes that are told of it, without what all messages have in common.
fn read(contents: impl AsRef<[u8]>) -> Result<Everything, Vec<String>> {
    let folder = Folder::with(contents);
    run(&[], &[], Some(&folder.file())).map_err(|text| mistakes(&folder.clean(&text)))
}

/// Splits a message into its mistakes.
fn mistakes(text: &str) -> Vec<String> {
    match text.strip_prefix("cannot read the configuration: ") {
        Some(only) => vec![only.to_owned()],
        None => text.lines().skip(1).map(|line| line.trim().to_owned()).collect(),
    }
}

#[test]
fn a_flag_counts_more_than_the_environment_that_more_than_the_file_that_more_than_the_default() {
    let folder = Folder::with("ring.bytes = \"1 MiB\"\nreads = 1\nsession.idle_timeout = \"1m\"\n");
    let file = folder.file();
    let variables = [("TIDEGATE_RING__BYTES", "2 MiB"), ("TIDEGATE_READS", "2")];
    let flags = ["--ring-bytes", "3 MiB"];
    let read = run(&flags, &variables, Some(&file)).unwrap();
    assert_eq!(
        (read.ring_bytes, read.reads, read.idle_timeout, read.level),
        (mebibytes(3), 2, Duration::from_secs(60), 1)
    );
    let set = ["--set", "ring.bytes=4 MiB", "--set", "reads=4"];
    let read = run(&set, &variables, Some(&file)).unwrap();
    assert_eq!((read.ring_bytes, read.reads), (mebibytes(4), 4));
    let read = run(&[], &variables, None).unwrap();
    assert_eq!((read.ring_bytes, read.reads), (mebibytes(2), 2));
    assert_eq!(run(&[], &[], None).unwrap().ring_bytes, mebibytes(64));
}

#[test]
fn every_key_can_be_given_in_every_way() {
    let values = [
        ("listen", "[::1]:0", "\"[::1]:0\""),
        ("data", "/d", "\"/d\""),
        ("schema", "/s", "\"/s\""),
        ("ring.bytes", "1048576", "1048576"),
        ("reads", "9", "9"),
        ("session.idle_timeout", "90s", "\"90s\""),
        ("strict", "true", "true"),
        ("server.title", "a b", "\"a b\""),
        ("server.motto", "", "\"\""),
        ("log.level", "debug", "\"debug\""),
        ("origins", "https://a, https://b", "[\"https://a\", 'https://b']"),
        ("auth.token", "t0ken", "\"t0ken\""),
    ];
    let variables: Vec<(String, &str)> = values
        .iter()
        .map(|(key, plain, _)| {
            let name = key.to_uppercase().replace('.', "__");
            (format!("TIDEGATE_{name}"), *plain)
        })
        .collect();
    let variables: Vec<(&str, &str)> = variables
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    let flags: Vec<String> = values
        .iter()
        .flat_map(|(key, plain, _)| ["--set".to_owned(), format!("{key}={plain}")])
        .collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let file: String = values
        .iter()
        .map(|(key, _, toml)| format!("{key} = {toml}\n"))
        .collect();

    let expected = run(&flags, &[], None).unwrap();
    assert_eq!(expected.origins, ["https://a", "https://b"]);
    assert_eq!(expected.motto.as_deref(), Some(""));
    assert_eq!(expected.token.as_ref().unwrap().expose(), "t0ken");
    assert_eq!(run(&[], &variables, None).unwrap(), expected);
    assert_eq!(read(file).unwrap(), expected);

    let nested = "listen = '[::1]:0'\ndata = '/d'\nschema = '/s'\nreads = 9\nstrict = true\norigins = ['https://a', 'https://b']\n\
        session = { idle_timeout = '90s' }\n[ring]\nbytes = 1048576\n[server]\ntitle = 'a b'\nmotto = ''\n[log]\nlevel = 'debug'\n\
        [auth]\ntoken = 't0ken'\n";
    assert_eq!(read(nested).unwrap(), expected);
    assert_eq!(
        read(format!("\u{feff}{}", nested.replace('\n', "\r\n"))).unwrap(),
        expected
    );
    let listed = run(
        &[
            "--set",
            "origins=['https://a', \"https://b\"]",
            "--strict",
            "--set",
            "schema=x",
        ],
        &[],
        None,
    );
    assert_eq!(listed.unwrap().origins, expected.origins);
}

#[test]
fn the_file_is_named_by_flag_or_environment() {
    let (one, two) = (Folder::with("reads = 1"), Folder::with("reads = 2"));
    let two_text = two.file().display().to_string();
    let variables = [("TIDEGATE_CONFIG", two_text.as_str())];
    assert_eq!(run(&[], &variables, None).unwrap().reads, 2);
    assert_eq!(run(&[], &variables, Some(&one.file())).unwrap().reads, 1);
    assert_eq!(
        run(&[], &[("TIDEGATE_CONFIG", "")], None).unwrap_err(),
        "cannot read the configuration: TIDEGATE_CONFIG: it is empty; name a file"
    );
    let twice = run(&["--config", &two_text], &[], Some(&one.file())).unwrap_err();
    assert_eq!(
        twice,
        "cannot read the configuration: --config: it is given twice; there is one configuration file"
    );
}

#[test]
fn a_path_in_the_file_is_relative_to_the_file() {
    let folder = Folder::with("data = 'd'\nschema = '/s'");
    let read = run(&[], &[], Some(&folder.file())).unwrap();
    assert_eq!(read.data, folder.path().join("d"));
    assert_eq!(read.schema.unwrap(), Path::new("/s"));
    let read = run(
        &["--data", "e"],
        &[("TIDEGATE_SCHEMA", "s")],
        Some(&folder.file()),
    )
    .unwrap();
    assert_eq!((read.data, read.schema.unwrap()), ("e".into(), "s".into()));
}

#[test]
fn all_mistakes_are_told_at_once_each_with_its_source() {
    let folder = Folder::with(
        "listen = \"localhost:80\"\n\
         raeds = 4\n\
         [ring]\n\
         bytes = \"64 MB\"\n\
         [session]\n\
         idle_timeout = 30\n",
    );
    let text = run(
        &[
            "--set",
            "session.idle_timeout=2d",
            "--set",
            "ring=5",
            "--set",
            "nonsense",
            "--ring-bytes",
            "1",
            "--ring-bytes",
            "2",
        ],
        &[
            ("TIDEGATE_READS", "-1"),
            ("TIDEGATE_RECORD", "1"),
            ("TIDEGATE_LISEN", "1"),
            ("TIDEGATE_SESSION", "1"),
            ("OTHER_LISEN", "1"),
        ],
        Some(&folder.file()),
    )
    .unwrap_err();
    let listen = "allowed: an IP address and a port, as in \"127.0.0.1:9926\" or \"[::1]:9926\"; port 0 takes a free one";
    let size = "allowed: a size from 64 KiB to 4 GiB, as in 1048576 or \"64 MiB\"";
    let duration = "allowed: a duration from 1s to 1d, as in \"500ms\", \"30s\", \"5m\", \"1h\" or \"7d\"";
    let expected = [
        "--set: ring: this is a group of keys, not a value; allowed: ring.bytes".to_owned(),
        "--set: nonsense: it has no `=`, write --set KEY=VALUE".to_owned(),
        "--ring-bytes: ring.bytes: it is given twice, first by --ring-bytes".to_owned(),
        format!("--ring-bytes: ring.bytes = 1: it is less than 64 KiB; {size}"),
        format!("--set: session.idle_timeout = 2d: it is more than 1d; {duration}"),
        "TIDEGATE_RECORD: there is no such key".to_owned(),
        "TIDEGATE_LISEN: there is no such key; did you mean TIDEGATE_LISTEN?".to_owned(),
        "TIDEGATE_SESSION: this is a group of keys, not a value; allowed: session.idle_timeout".to_owned(),
        "TIDEGATE_READS: reads = -1: it is less than 1; allowed: a whole number from 1 to 1000".to_owned(),
        format!("FILE:1: listen = \"localhost:80\": it is no IP address with a port; {listen}"),
        "FILE:2: raeds: there is no such key; did you mean reads?".to_owned(),
        format!("FILE:4: ring.bytes = \"64 MB\": `MB` is no unit of size, did you mean MiB?; {size}"),
        format!(
            "FILE:6: session.idle_timeout = 30: it has no unit, write \"30ms\", \"30s\", \"30m\", …; {duration}"
        ),
    ];
    let text = folder.clean(&text);
    assert!(
        text.starts_with("cannot read the configuration, it has 13 mistakes:\n"),
        "{text}"
    );
    assert_eq!(mistakes(&text), expected);
}

/// A file with these contents has exactly these mistakes; each is told by its beginning.
fn check_file(contents: impl AsRef<[u8]>, expected: &[&str]) {
    let shown = String::from_utf8_lossy(contents.as_ref())
        .chars()
        .take(200)
        .collect::<String>();
    let found = read(contents).unwrap_err();
    assert_eq!(found.len(), expected.len(), "{shown}\n{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{shown}\n{found}\nnot {expected}");
        assert!(!found.contains('\n') && found.len() < 500, "{found}");
    }
}

#[test]
fn a_file_that_is_no_toml_is_told_with_its_lines() {
    check_file("reads = ", &["FILE:1: column 9: this is not TOML: "]);
    check_file("reads = 4\nlisten = \"127.0", &["FILE:2: column "]);
    check_file("reads = 4\nring.by", &["FILE:2: column "]);
    check_file(
        "[ring\nbytes = 1048576\n[log]\nlevel = 1",
        &["FILE:1: column ", "FILE:4: log.level = 1: it is a number"],
    );
    check_file(
        "listen = 127.0.0.1:80\nreads = 0",
        &["FILE:1: column ", "FILE:2: reads = 0: it is less than 1"],
    );
    check_file("origins = [\"https://a\",", &["FILE:1: column "]);
    check_file("\u{1}\n", &["FILE:1: column "]);
    check_file("{\"reads\": 4}", &["FILE:1: column "]);
    check_file(
        "reads = 1\r\n\r\nreads = 2\r\n",
        &["FILE:3: column 1: this is not TOML: duplicate key"],
    );
    check_file(
        "[ring]\nbytes = 1048576\n[ring]\n",
        &["FILE:3: column 2: this is not TOML: duplicate key"],
    );
    check_file(
        "ring.bytes = 1048576\nring = 5\n",
        &["FILE:2: column 1: this is not TOML: duplicate key"],
    );
    check_file(
        "ring = 5\nring.bytes = 1048576\n",
        &[
            "FILE:1: ring: this is a group",
            "FILE:2: column 1: this is not TOML: ",
        ],
    );
}

#[test]
fn a_file_in_another_encoding_is_told() {
    let utf16 = |text: &str| {
        text.encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<u8>>()
    };
    check_file(
        utf16("\u{feff}reads = 4"),
        &["FILE: the file is not UTF-8 but seems to be UTF-16"],
    );
    check_file(
        utf16("reads = 4"),
        &["FILE: the file is not UTF-8 but seems to be UTF-16"],
    );
    check_file(
        b"reads = 4\nserver.title = \"\xe4\"\n",
        &["FILE:2: the line is not UTF-8"],
    );
}

#[test]
fn a_file_that_is_none_or_too_large_is_told() {
    check_file(vec![b'#'; 10 << 20], &["FILE: the file has more than 1 MiB"]);
    let folder = Folder::with("");
    let check = |path: &Path, expected: &str| {
        let found = run(&[], &[], Some(path)).unwrap_err();
        let expected = format!(
            "cannot read the configuration: {}: cannot read the file: {expected}",
            path.display()
        );
        assert!(found.starts_with(&expected), "{found}");
    };
    check(folder.path(), "Is a directory");
    check(&folder.path().join("absent.toml"), "No such file");
    check(&folder.file().join("x"), "Not a directory");
}

#[test]
fn deep_nesting_is_a_mistake_and_not_a_crash() {
    for deep in [
        format!("reads = {}", "[".repeat(400_000)),
        format!("reads = {}{}", "[".repeat(400_000), "]".repeat(400_000)),
        format!("reads = {}", "{a=".repeat(300_000)),
        format!("{} = 1", vec!["a"; 400_000].join(".")),
        format!("[{}]", vec!["a"; 400_000].join(".")),
        format!("[[{}]]", vec!["a"; 400_000].join(".")),
    ] {
        let found = read(&deep).unwrap_err();
        assert!(found.iter().all(|mistake| mistake.len() < 500), "{found:#?}");
    }
}

#[test]
fn a_value_of_another_type_is_told_with_what_is_allowed() {
    for (line, reason) in [
        ("reads = \"4\"", "a number is written without quotes"),
        (
            "reads = 4.0",
            "it is a number with a fraction, not a whole number",
        ),
        ("reads = -4", "it is less than 1"),
        ("reads = 1001", "it is more than 1000"),
        ("reads = 70000", "it is more than 1000"),
        (
            "reads = 99999999999999999999999999999999999999999999",
            "it is more than 1000",
        ),
        ("reads = 0xffff_ffff", "it is more than 1000"),
        ("reads = true", "it is a truth value, not a whole number"),
        ("reads = [4]", "it is a list, not a whole number"),
        ("reads = { x = 1 }", "it is a group of keys, not a whole number"),
        ("strict = \"true\"", "a truth value is written without quotes"),
        ("strict = 1", "it is a number"),
        ("ring.bytes = -1", "it is less than 64 KiB"),
        ("ring.bytes = \"-1\"", "it is not a whole number of bytes"),
        (
            "ring.bytes = \"18446744073709551616\"",
            "it is more than a size can be",
        ),
        ("ring.bytes = \"16777216 TiB\"", "it is more than a size can be"),
        ("ring.bytes = \"5 TiB\"", "it is more than 4 GiB"),
        ("ring.bytes = 9999999999999999999999999", "it is more than 4 GiB"),
        ("ring.bytes = \"\"", "it is empty"),
        ("session.idle_timeout = \"\"", "it is empty"),
        (
            "session.idle_timeout = \"-5s\"",
            "it is not a whole number with a unit",
        ),
        ("session.idle_timeout = \"5x\"", "`x` is no unit of time"),
        (
            "session.idle_timeout = \"99999999999999999d\"",
            "it is too long for a duration",
        ),
        (
            "session.idle_timeout = 07:30:00",
            "it is a date or time, not a text in quotes",
        ),
        ("listen = 80", "it is a number, not a text in quotes"),
        ("listen = \"\"", "it is empty"),
        ("listen = \"127.0.0.1\"", "it is no IP address with a port"),
        ("listen = \"127.0.0.1:99999\"", "it is no IP address with a port"),
        ("data = \"\"", "it is empty"),
        ("data = \"a\\u0000b\"", "a path has no NUL character"),
        ("log.level = \"loud\"", "it is none of the words"),
        (
            "origins = \"https://a\"",
            "it is a text in quotes, not a list in brackets",
        ),
        ("origins = [\"https://a\", \"b\"]", "item 2: it is no origin"),
        ("origins = [1]", "item 1: it is a number, not a text in quotes"),
        ("origins = [\"\"]", "item 1: it is empty"),
    ] {
        let found = read(line).unwrap_err();
        let key = line.split(" =").next().unwrap();
        assert_eq!(found.len(), 1, "{line}: {found:#?}");
        assert!(
            found[0].starts_with(&format!("FILE:1: {key} = ")),
            "{line}: {found:#?}"
        );
        assert!(found[0].contains(&format!(": {reason}")), "{line}: {found:#?}");
        assert!(found[0].contains("; allowed: "), "{line}: {found:#?}");
    }
}

#[test]
fn unknown_keys_and_groups_are_told_with_what_may_be_meant() {
    check_file(
        "[rin]\nbytes = 1\n[empty]\n[[ring]]\nbytes = 2\n",
        &[
            "FILE:2: rin.bytes: there is no such key; did you mean ring.bytes?",
            "FILE:3: empty: there is no such key",
            "FILE:4: ring: this is a group of keys, not a value; allowed: ring.bytes",
        ],
    );
    check_file(
        "\"ring.bytes\" = 5\nsession = \"1m\"\n\"\" = 1\n",
        &[
            "FILE:1: \"ring.bytes\": there is no such key; did you mean ring.bytes?",
            "FILE:2: session: this is a group of keys, not a value; allowed: session.idle_timeout",
            "FILE:3: \"\": there is no such key",
        ],
    );
    check_file(
        "[ring]\nring.bytes = 5\n[session.idle_timeout]\nx = 1\n",
        &[
            "FILE:2: ring.ring.bytes: there is no such key; did you mean ring.bytes?",
            "FILE:3: session.idle_timeout = {…}: it is a group",
        ],
    );
    assert!(read("[ring]\n[session]\n").is_ok(), "empty groups");
}

#[test]
fn a_key_is_given_once_in_a_source() {
    for (flags, second, first) in [
        (["--set", "reads=1", "--set", "reads=2"], "--set: reads", "--set"),
        (
            ["--listen", "127.0.0.1:1", "--set", "listen=127.0.0.1:1"],
            "--set: listen",
            "--listen",
        ),
    ] {
        let expected =
            format!("cannot read the configuration: {second}: it is given twice, first by {first}");
        assert_eq!(run(&flags, &[], None).unwrap_err(), expected);
    }
}

#[test]
fn a_weaker_value_that_is_wrong_is_told_although_it_does_not_count() {
    let folder = Folder::with("reads = 0");
    let text = run(
        &["--set", "reads=5"],
        &[("TIDEGATE_READS", "x")],
        Some(&folder.file()),
    )
    .unwrap_err();
    assert_eq!(mistakes(&text).len(), 2, "{text}");
}

#[test]
fn what_depends_on_other_values_is_told_with_its_source() {
    let reason = "it needs a schema; name one or leave it out";
    let check = |flags: &[&str], variables: &[(&str, &str)], expected: &str| {
        let expected = format!("cannot read the configuration: {expected}: {reason}");
        assert_eq!(run(flags, variables, None).unwrap_err(), expected);
    };
    check(&["--strict"], &[], "--strict: strict = true");
    check(
        &[],
        &[("TIDEGATE_STRICT", "true")],
        "TIDEGATE_STRICT: strict = true",
    );
    assert!(run(&["--strict"], &[("TIDEGATE_SCHEMA", "s")], None).is_ok());
    // A value that is wrong by itself is told once.
    let wrong = run(&["--strict=yes"], &[], None).unwrap_err();
    assert_eq!(mistakes(&wrong).len(), 1, "{wrong}");
}

#[test]
#[cfg(unix)]
fn what_is_not_utf8_is_told() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use clap::{Args, Command, FromArgMatches};

    use crate::arguments::Arguments;

    let bad = || OsString::from_vec(b"\xff".to_vec());
    let command = Arguments::<Everything>::augment_args(Command::new("serve").no_binary_name(true));
    let set = OsString::from_vec(b"reads=\xff".to_vec());
    let matches =
        command.try_get_matches_from([OsString::from("--data"), bad(), OsString::from("--set"), set]);
    let arguments = Arguments::<Everything>::from_arg_matches(&matches.unwrap()).unwrap();
    let variables = [
        ("TIDEGATE_READS".into(), bad()),
        (OsString::from_vec(b"TIDEGATE_\xff".to_vec()), bad()),
    ];
    let text = arguments.read_with(variables).unwrap_err().to_string();
    assert_eq!(
        mistakes(&text),
        [
            "--data: data: it is not UTF-8",
            "--set: it is not UTF-8",
            "TIDEGATE_READS: reads: it is not UTF-8",
            "TIDEGATE_\u{fffd}: there is no such key",
        ]
    );
}

#[test]
fn a_secret_is_shown_nowhere() {
    const SECRET: &str = "hunter2";
    let folder = Folder::with(format!("auth.token = \"{SECRET}\"\n"));
    let file = Some(folder.file());
    let printed = print(&[], &[], file.as_deref()).unwrap();
    assert!(
        folder
            .clean(&printed)
            .contains("# auth.token = (secret)  # FILE:1\n"),
        "{printed}"
    );
    let settings = run(&[], &[], file.as_deref()).unwrap();
    assert_eq!(settings.token.as_ref().unwrap().expose(), SECRET);
    for text in [
        printed,
        format!("{settings:?}"),
        read(format!("auth.token = [\"{SECRET}\"]")).unwrap_err().concat(),
        read(format!("auth.tokn = \"{SECRET}\"")).unwrap_err().concat(),
        read(format!("auth.token = {SECRET}")).unwrap_err().concat(),
        read(format!("auth.token = \"{SECRET}")).unwrap_err().concat(),
        run(
            &["--set", "auth.token="],
            &[("TIDEGATE_AUTH__TOKN", SECRET)],
            None,
        )
        .unwrap_err(),
        run(&["--set", &format!("auth.tokn={SECRET}")], &[], None).unwrap_err(),
    ] {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn a_password_in_an_address_is_shown_nowhere() {
    const ADDRESS: &str = "http://user:hunter2@host:1/x";
    let folder = Folder::with(format!("[server]\ntitle = \"{ADDRESS}\"\n"));
    let printed = print(&[], &[], Some(&folder.file())).unwrap();
    let printed = folder.clean(&printed);
    assert!(
        printed.contains("# server.title = \"http://…@host:1/x\"  # FILE:2, without its password\n"),
        "{printed}"
    );
    for text in [
        printed,
        read(format!("listen = \"{ADDRESS}\"")).unwrap_err().concat(),
        read(format!("lisen = \"{ADDRESS}\"")).unwrap_err().concat(),
        read(format!("listen = {ADDRESS}")).unwrap_err().concat(),
        run(&["--set", &format!("listen={ADDRESS}")], &[], None).unwrap_err(),
        run(&["--set", &format!("{ADDRESS}=1")], &[], None).unwrap_err(),
        run(&["--set", ADDRESS], &[], None).unwrap_err(),
        run(&["--listen", ADDRESS], &[], None).unwrap_err(),
        run(&[], &[("TIDEGATE_LISTEN", ADDRESS)], None).unwrap_err(),
        run(&[], &[("TIDEGATE_READS", ADDRESS)], None).unwrap_err(),
    ] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn what_counts_is_printed_with_its_origin_and_can_be_fed_back() {
    let folder = Folder::with("reads = 3\n\n[server]\ntitle = \"a \\\"b\\\" #c\"\n");
    let printed = print(
        &["--set", "session.idle_timeout=90s", "--data", "/d"],
        &[("TIDEGATE_LISTEN", "[::1]:1")],
        Some(&folder.file()),
    );
    let printed = printed.unwrap();
    let expected = "listen = \"[::1]:1\"  # TIDEGATE_LISTEN\n\
        data = \"/d\"  # --data\n\
        # schema is not set\n\
        ring.bytes = \"64 MiB\"  # default\n\
        reads = 3  # FILE:1\n\
        session.idle_timeout = \"90s\"  # --set\n\
        strict = false  # default\n\
        server.title = \"a \\\"b\\\" #c\"  # FILE:4\n\
        # server.motto is not set\n\
        log.level = \"info\"  # default\n\
        origins = []  # default\n\
        # auth.token is not set\n";
    assert_eq!(folder.clean(&printed), expected);
    let again = read(printed).unwrap();
    assert_eq!((again.reads, again.title.as_str()), (3, "a \"b\" #c"));

    // A path is where it was, from whichever directory the file is read.
    let printed = print(&[], &[], None).unwrap();
    let here = std::env::current_dir().unwrap();
    assert_eq!(read(printed).unwrap().data, here.join("data"));
}

proptest! {
    #[test]
    fn what_is_printed_is_read_as_the_same(
        port in any::<u16>(),
        data in "[^\u{0}]{0,20}",
        bytes in 65_536_usize..4 << 30,
        reads in 1_u16..=1_000,
        idle_ms in 1_000_u64..=86_400_000,
        title in any::<String>(),
        origins in proptest::collection::vec("https://[a-z\"\\\\,#\u{1}]{0,9}", 0..4),
    ) {
        let pairs = [
            format!("listen=127.0.0.1:{port}"),
            format!("data=/{data}"),
            format!("ring.bytes={bytes}"),
            format!("reads={reads}"),
            format!("session.idle_timeout={idle_ms}ms"),
            format!("server.title={title}"),
            format!("origins={}", crate::toml_text::array(origins.iter().map(|text| crate::toml_text::quoted(text)))),
        ];
        let flags: Vec<&str> = pairs.iter().flat_map(|pair| ["--set", pair.as_str()]).collect();
        let read_first = run(&flags, &[], None).unwrap();
        prop_assert_eq!(&read_first.title, &title);
        prop_assert_eq!(&read_first.origins, &origins);
        let printed = print(&flags, &[], None).unwrap();
        let mut again = read(&printed).unwrap();
        // Printed absolute, which takes `.` out of it.
        again.data.clone_from(&read_first.data);
        prop_assert_eq!(again, read_first);
    }

    #[test]
    fn any_text_is_read_or_refused_and_lines_are_those_of_the_text(text in "([a-z.\\[\\]\"'={},\\\\# \n\u{e4}-]|listen|ring|bytes|= 1){0,60}") {
        if let Err(mistakes) = read(&text) {
            for mistake in mistakes {
                let line = mistake.strip_prefix("FILE:").unwrap().split(':').next().unwrap();
                let line: usize = line.parse().unwrap();
                prop_assert!(line >= 1 && line <= text.matches('\n').count() + 1, "{}", mistake);
            }
        }
    }
}

#[test]
fn a_file_that_was_cut_anywhere_is_read_or_refused() {
    let whole: String = uncommented(&sample::<Everything>("Head."));
    for end in 0..whole.len() {
        // Nothing but what is told may come of it.
        let _ = read(&whole.as_bytes()[..end]);
    }
}

/// Takes the comment sign from the lines that have a key behind it.
fn uncommented(sample: &str) -> String {
    let lines = sample.lines().map(|line| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_alphabetic()) => rest,
        Some(_) | None => line,
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_sample_has_every_key_with_its_default() {
    let sample = sample::<Everything>("One.\n\nTwo.");
    assert!(
        sample.starts_with("# One.\n#\n# Two.\n\n# The address to listen on.\n# Allowed: an IP"),
        "{sample}"
    );
    assert!(sample.contains("\n#session.idle_timeout = \"30m\"\n"), "{sample}");
    assert!(sample.contains("\n#schema = \"schema.graphql\"\n"), "{sample}");
    let defaults = run(&[], &[], None).unwrap();
    assert_eq!(read(&sample).unwrap(), defaults);
    let read = read(uncommented(&sample)).unwrap();
    assert_eq!(read.ring_bytes, defaults.ring_bytes);
    assert!(read.schema.is_some());
}

#[test]
fn the_reference_says_all_of_a_key() {
    let reference = reference(&declarations::<Everything>());
    let ring = "### `ring.bytes`\n\nHow much the ring may take.\n\n- Default: `\"64 MiB\"`\n\
        - Allowed: a size from 64 KiB to 4 GiB, as in 1048576 or \"64 MiB\"\n\
        - Environment: `TIDEGATE_RING__BYTES`, flag: `--ring-bytes SIZE`\n";
    assert!(reference.contains(ring), "{reference}");
    assert!(reference.contains("- Default: not set\n"), "{reference}");
    assert!(reference.contains("- Secret: it is never shown\n"), "{reference}");
}
