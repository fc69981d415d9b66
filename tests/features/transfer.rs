//! Import and export: what becomes of the records, whatever breaks, and what is told about it.

use std::io::{PipeWriter, Write};
use std::net::SocketAddr;
use std::path::Path;

use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::{CountRequest, GetRequest};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::process::{Ended, Program, Service};
use crate::harness::stack::{Feed, SCHEMA};
use crate::harness::truth::{self, Truth};
use crate::harness::{RUNTIME, eventually};

/// A feed service without gateways, and a folder for files.
struct Site {
    // Dropped in this order: the directory goes last.
    feed: Feed,
    directory: TempDir,
}

impl Site {
    fn start() -> Site {
        let directory = TempDir::new().expect("a temporary directory");
        Site {
            feed: Feed::start_with(directory.path(), &[]),
            directory,
        }
    }

    fn truth(&self) -> Truth {
        Truth::of(self.feed.address)
    }

    /// Writes a file and returns its path.
    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    /// Returns a command line for this service; `{…}` is not replaced, words are split at spaces.
    fn arguments(&self, line: &str) -> Vec<String> {
        let mut arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        arguments.extend(["--feed".to_owned(), format!("http://{}", self.feed.address)]);
        arguments
    }

    fn run(&self, line: &str) -> Ended {
        Service::spawn(Program::Feedsvc, &self.arguments(line)).wait()
    }

    /// Starts an import that reads what the test writes.
    fn import_piped(&self, line: &str) -> (Service, PipeWriter) {
        let (input, writer) = std::io::pipe().expect("a pipe");
        let service = Service::spawn_reading(Program::Feedsvc, &self.arguments(line), input);
        (service, writer)
    }

    fn wait_for_count(&self, table: &str, expected: u64) {
        eventually("the rows are committed", || {
            match count(self.feed.address, table) {
                Ok(found) if found == expected => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    /// Every change of a table by key, each of which must be the only one of its record.
    fn assert_written_once(&self, table: &str, expected: usize) {
        let changes = self.truth().changes(table, None);
        let mut keys: Vec<&str> = changes.iter().map(|(_, change)| change.key.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!((keys.len(), changes.len()), (expected, expected));
    }
}

fn count(address: SocketAddr, table: &str) -> Result<u64, String> {
    let request = CountRequest {
        database: "data".to_owned(),
        table: table.to_owned(),
        ..CountRequest::default()
    };
    RUNTIME.block_on(async {
        let mut client = FeedClient::connect(format!("http://{address}"))
            .await
            .map_err(|error| error.to_string())?;
        let answer = client.count(request).await.map_err(|status| status.to_string())?;
        Ok(answer.into_inner().count)
    })
}

fn get(address: SocketAddr, table: &str, key: &str) -> Option<String> {
    let request = GetRequest {
        database: "data".to_owned(),
        table: table.to_owned(),
        key: key.to_owned(),
        ..GetRequest::default()
    };
    RUNTIME.block_on(async {
        let mut client = FeedClient::connect(format!("http://{address}"))
            .await
            .expect("a connection");
        let answer = client.get(request).await.expect("an answer").into_inner();
        answer
            .record
            .map(|record| String::from_utf8(record.value.to_vec()).expect("a record is UTF-8"))
    })
}

fn code(ended: &Ended) -> Option<i32> {
    ended.status.code()
}

/// The last line on stderr, without the time that it took.
fn summary(ended: &Ended) -> &str {
    let last = ended.stderr.last().map_or("", String::as_str);
    last.split(" in ")
        .next()
        .map_or("", |_| last.rsplit_once(" in ").map_or(last, |(text, _)| text))
}

fn items(range: std::ops::Range<u32>) -> String {
    range
        .map(|n| format!("{{\"id\":\"k{n:06}\",\"name\":\"n{n}\"}}\n"))
        .collect()
}

#[test]
fn an_import_that_is_repeated_writes_only_what_has_changed_since() {
    let site = Site::start();
    let rows: String = (0..600).map(|n| format!("k{n},name {n},{n}.50\n")).collect();
    let file = site.file("products.csv", format!("id,name,price\n{rows}"));
    let line = format!("import Product {file}");

    let ended = site.run(&line);
    assert_eq!(code(&ended), Some(0), "{:#?}", ended.stderr);
    assert_eq!(
        summary(&ended),
        format!("imported {file} into data.Product: 600 rows read, 600 written, 0 unchanged, 0 skipped")
    );
    assert!(ended.stdout.is_empty(), "{:#?}", ended.stdout);
    let record = get(site.feed.address, "Product", "k7").expect("an imported record");
    assert!(
        record.starts_with(r#"{"id":"k7","name":"name 7","price":7.50,"createdAt":""#),
        "{record}"
    );

    let before = site.truth().log().len();
    let ended = site.run(&line);
    assert!(
        summary(&ended).ends_with("600 rows read, 0 written, 600 unchanged, 0 skipped"),
        "{:#?}",
        ended.stderr
    );
    assert_eq!(site.truth().log().len(), before, "a repetition leaves no trace");

    // What somebody else has changed since is what the file says again.
    site.truth().commit(vec![
        truth::put("Product", "k7", r#"{"name":"other"}"#),
        truth::delete("Product", "k8"),
    ]);
    let ended = site.run(&line);
    assert!(
        summary(&ended).ends_with("600 rows read, 2 written, 598 unchanged, 0 skipped"),
        "{:#?}",
        ended.stderr
    );
    let record = get(site.feed.address, "Product", "k7").expect("an imported record");
    assert!(
        record.starts_with(r#"{"id":"k7","name":"name 7","price":7.50,"#),
        "{record}"
    );
}

#[test]
fn an_import_reads_the_standard_input_in_the_format_that_is_named() {
    let site = Site::start();
    let (mut import, mut input) = site.import_piped("import data.Item - --format jsonl");
    input.write_all(items(0..300).as_bytes()).unwrap();
    drop(input);
    let ended = import.wait();
    assert_eq!(code(&ended), Some(0), "{:#?}", ended.stderr);
    assert_eq!(
        summary(&ended),
        "imported - into data.Item: 300 rows read, 300 written, 0 unchanged, 0 skipped"
    );
    site.assert_written_once("Item", 300);
}

#[test]
fn a_service_that_is_killed_stops_an_import_which_a_second_run_completes() {
    let mut site = Site::start();
    let (mut import, mut input) = site.import_piped("import Item - --format jsonl --retry-for 500ms");
    input.write_all(items(0..512).as_bytes()).unwrap();
    site.wait_for_count("Item", 512);
    site.feed.kill();
    input.write_all(items(512..1_100).as_bytes()).unwrap();
    let ended = import.wait();
    assert_eq!(code(&ended), Some(1), "{:#?}", ended.stderr);
    let told = ended.stderr.join("\n");
    assert!(
        told.contains("cannot write lines 513 to 768 of `-`: the feed service at http://"),
        "{told}"
    );
    assert!(told.contains("whether these rows are in is not known"), "{told}");
    assert!(told.contains("512 written, 0 unchanged, 0 skipped"), "{told}");
    assert!(told.contains("the same command again completes it"), "{told}");

    site.feed.restart();
    assert_eq!(
        count(site.feed.address, "Item"),
        Ok(512),
        "what was committed stays"
    );
    let file = site.file("items.jsonl", items(0..1_100));
    let ended = site.run(&format!("import Item {file}"));
    assert!(
        summary(&ended).ends_with("1100 rows read, 588 written, 512 unchanged, 0 skipped"),
        "{:#?}",
        ended.stderr
    );
    site.assert_written_once("Item", 1_100);
}

#[test]
fn an_import_goes_on_when_a_killed_service_comes_back_in_time() {
    let mut site = Site::start();
    let (mut import, mut input) = site.import_piped("import Item - --format jsonl --retry-for 1m");
    input.write_all(items(0..256).as_bytes()).unwrap();
    site.wait_for_count("Item", 256);
    site.feed.kill();
    input.write_all(items(256..600).as_bytes()).unwrap();
    import.wait_for_error("is away");
    site.feed.restart();
    drop(input);
    let ended = import.wait();
    assert_eq!(code(&ended), Some(0), "{:#?}", ended.stderr);
    assert!(
        summary(&ended).ends_with("600 rows read, 600 written, 0 unchanged, 0 skipped"),
        "{:#?}",
        ended.stderr
    );
    site.assert_written_once("Item", 600);
}

#[test]
fn an_import_that_is_interrupted_sums_up_and_a_second_run_completes_it() {
    for (signal, expected) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let site = Site::start();
        let (mut import, mut input) = site.import_piped("import Item - --format jsonl");
        input.write_all(items(0..300).as_bytes()).unwrap();
        site.wait_for_count("Item", 256);
        let ended = import.end_by(signal);
        assert_eq!(code(&ended), Some(expected), "{:#?}", ended.stderr);
        assert_eq!(
            summary(&ended),
            "import of - into data.Item stopped: 256 rows read, 256 written, 0 unchanged, 0 skipped"
        );
        drop(input);
        let file = site.file("items.jsonl", items(0..300));
        let ended = site.run(&format!("import Item {file}"));
        assert!(
            summary(&ended).ends_with("300 rows read, 44 written, 256 unchanged, 0 skipped"),
            "{:#?}",
            ended.stderr
        );
        site.assert_written_once("Item", 300);
    }
}

#[test]
fn a_bad_row_stops_an_import_behind_all_that_stands_before_it() {
    let site = Site::start();
    let file = site.file(
        "products.csv",
        "id,name,stock\na,\"two\nlines\",1\nb,x,many\nc,x,3\n",
    );
    let ended = site.run(&format!("import Product {file}"));
    assert_eq!(code(&ended), Some(1));
    assert_eq!(
        ended.stderr[0],
        format!(
            "feedsvc: {file}:4: column 3: attribute `stock` is the string \"many\"; allowed is an integer from -2147483648 to \
             2147483647 (Int); correct it, or leave such rows out with --skip-bad"
        )
    );
    assert!(
        summary(&ended).ends_with("stopped: 2 rows read, 1 written, 0 unchanged, 0 skipped"),
        "{:#?}",
        ended.stderr
    );
    assert_eq!(count(site.feed.address, "Product"), Ok(1));

    let ended = site.run(&format!("import Product {file} --skip-bad"));
    assert_eq!(code(&ended), Some(0));
    assert!(
        ended.stderr[0].starts_with(&format!("feedsvc: skipped {file}:4: column 3: ")),
        "{:#?}",
        ended.stderr
    );
    assert!(
        summary(&ended).ends_with("3 rows read, 1 written, 1 unchanged, 1 skipped"),
        "{:#?}",
        ended.stderr
    );
    assert_eq!(count(site.feed.address, "Product"), Ok(2));
}

#[test]
fn bad_rows_beyond_the_reported_ones_are_only_counted() {
    let site = Site::start();
    let rows: String = (0..30).map(|n| format!("{n},x\n")).collect();
    let file = site.file("products.csv", format!("id,stock,name\n{rows}"));
    let ended = site.run(&format!("import Product {file} --skip-bad --report 2"));
    assert_eq!(code(&ended), Some(0));
    assert_eq!(ended.stderr.len(), 4, "{:#?}", ended.stderr);
    assert!(ended.stderr[2].contains("only counted"), "{:#?}", ended.stderr);
    assert!(
        summary(&ended).ends_with("30 rows read, 0 written, 0 unchanged, 30 skipped"),
        "{:#?}",
        ended.stderr
    );
}

#[test]
fn a_record_that_only_the_service_refuses_is_found_in_its_batch() {
    let site = Site::start();
    let mut rows: Vec<String> = items(0..200).lines().map(str::to_owned).collect();
    // Over the service's limit of a record, below that of a row.
    rows[77] = format!("{{\"id\":\"k000077\",\"name\":\"{}\"}}", "x".repeat(1_500_000));
    let file = site.file("items.jsonl", rows.join("\n"));

    let ended = site.run(&format!("import Item {file}"));
    assert_eq!(code(&ended), Some(1));
    assert!(
        ended.stderr[0].starts_with(&format!(
            "feedsvc: {file}:78: the record is larger than 1048576 bytes"
        )),
        "{:#?}",
        ended.stderr
    );
    assert_eq!(
        count(site.feed.address, "Item"),
        Ok(77),
        "all that stands before it is in"
    );

    let ended = site.run(&format!("import Item {file} --skip-bad"));
    assert_eq!(code(&ended), Some(0));
    assert!(
        summary(&ended).ends_with("200 rows read, 122 written, 77 unchanged, 1 skipped"),
        "{:#?}",
        ended.stderr
    );
    site.assert_written_once("Item", 199);
}

/// An import that ends with a code and one line that names what is wrong.
fn check_refused(site: &Site, line: &str, expected_code: i32, named: &str) {
    let ended = site.run(line);
    assert_eq!(code(&ended), Some(expected_code), "{line}: {:#?}", ended.stderr);
    let naming = ended.stderr.iter().filter(|text| text.contains(named)).count();
    assert_eq!(naming, 1, "one line names {named}: {:#?}", ended.stderr);
    assert!(
        !ended.stderr.iter().any(|text| text.contains("panicked")),
        "{:#?}",
        ended.stderr
    );
}

#[test]
fn a_file_that_is_none_is_refused_with_what_is_wrong() {
    let site = Site::start();
    let utf16: Vec<u8> = "\u{feff}id,name\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for (name, bytes, expected_code, named) in [
        ("a.csv", &b""[..], 1, "the file is empty; expected a header row"),
        ("b.csv", b"id,name\n", 0, "0 rows read"),
        ("c.jsonl", b"", 0, "0 rows read"),
        ("d.csv", &utf16, 1, "encoded in UTF-16"),
        (
            "e.csv",
            b"id,name\n1,caf\xe9\n",
            1,
            "byte 0xe9 at byte 14 of the file",
        ),
        (
            "f.csv",
            b"id,name\n1,\"cut",
            1,
            "is not closed when the file ends",
        ),
        (
            "g.csv",
            b"id,name\n1,x\n2",
            1,
            "the row has 1 cells and the header 2",
        ),
        (
            "h.csv",
            b"id,nam,id\n",
            1,
            "column 2 `nam` is unknown; column 3 `id` stands in column 1 already; `name` (String!) has no column",
        ),
        ("i.csv", b"id,name\n1,x", 0, "does not end with a line end"),
        (
            "j.jsonl",
            b"{\"id\":\"1\",\"na",
            1,
            "j.jsonl:1: column 14: not valid JSON: unexpected end in a string",
        ),
        ("k.csv", b"id,name\n1,\0\n", 1, "a NUL at byte 11 of the file"),
        ("l.txt", b"id,name\n", 2, "--format"),
    ] {
        let file = site.file(name, bytes);
        check_refused(&site, &format!("import Product {file}"), expected_code, named);
    }
    check_refused(&site, "import Product -", 2, "--format");
    check_refused(&site, "import Product absent.csv", 1, "absent.csv");
    let file = site.file("m.csv", "id\n1\n");
    check_refused(
        &site,
        &format!("import Nothing {file}"),
        1,
        "there is no table `Nothing`",
    );
    check_refused(
        &site,
        &format!("import Unseen {file} --data d"),
        2,
        "cannot be used with",
    );
}

#[test]
fn a_service_that_is_not_there_is_told_at_once() {
    let site = Site::start();
    let file = site.file("a.csv", "id\n1\n");
    let line = format!("import Item {file} --feed http://127.0.0.1:1");
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let ended = Service::spawn(Program::Feedsvc, &words).wait();
    assert_eq!(code(&ended), Some(1));
    assert!(
        ended.stderr[0].contains("the feed service at http://127.0.0.1:1"),
        "{:#?}",
        ended.stderr
    );
    assert!(ended.stderr[0].contains("--data"), "{:#?}", ended.stderr);
}

/// The highest resident memory of a running process, in KiB.
#[cfg(target_os = "linux")]
fn peak_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the state of a child");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("its peak");
    line.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

#[test]
#[cfg(target_os = "linux")]
fn bounded_an_import_takes_no_more_memory_for_more_rows() {
    let site = Site::start();
    let peak_of = |rows: u32, offset: u32| {
        let (mut import, mut input) = site.import_piped("import Item - --format jsonl");
        for start in (0..rows).step_by(640) {
            input
                .write_all(items(offset + start..offset + start + 640).as_bytes())
                .unwrap();
        }
        // A multiple of a batch, so that everything is committed while the import still waits for more.
        site.wait_for_count("Item", u64::from(offset + rows) / 256 * 256);
        let peak = peak_kib(import.id());
        drop(input);
        assert_eq!(code(&import.wait()), Some(0));
        peak
    };
    let few = peak_of(6_400, 0);
    let many = peak_of(38_400, 6_400);
    assert!(
        many < few + 16 * 1024,
        "{few} KiB for 6,400 rows, {many} KiB for 38,400"
    );
}

/// Records of every type and shape, by table.
fn fill(truth: &Truth) {
    // As large as a record may be; with its key and times it is larger in the store.
    let largest = format!(
        r#"{{"name":"largest","description":"{}"}}"#,
        "x".repeat(1024 * 1024 - 35)
    );
    assert_eq!(largest.len(), 1024 * 1024);
    truth.commit(vec![truth::put("Product", "large", &largest)]);
    truth.commit(vec![
        truth::put(
            "Product",
            "1",
            r#"{"name":"","price":1.0,"stock":null,"tags":["a",",","\"\n"],"data":{"x":[1.10,null]}}"#,
        ),
        truth::put(
            "Product",
            "a,b",
            r#"{"data":"7","name":"two\r\nlines","description":"é😀\u0000"}"#,
        ),
        truth::put("Product", "ä", r#"{"tags":[],"name":" spaces ","id":"ä"}"#),
        truth::put(
            "Number",
            "n",
            r#"{"int":-1,"long":9007199254740993,"bigInt":18446744073709551615,"float":1.0e2,"any":0.10}"#,
        ),
        truth::put("Number", "7", r#"{"float":-0.0,"id":7}"#),
    ]);
    for start in (0..2_300).step_by(500) {
        let operations = (start..(start + 500).min(2_300)).map(|n| {
            truth::put(
                "Item",
                &format!("k{n}"),
                &format!(r#"{{"name":"n{n}","data":{{"n":{n}.0}}}}"#),
            )
        });
        truth.commit(operations.collect());
    }
}

/// Runs without a service address, on a store.
fn run_on_data(line: &str, data: &Path) -> Ended {
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    words.extend(["--data".to_owned(), data.display().to_string()]);
    Service::spawn(Program::Feedsvc, &words).wait()
}

#[test]
fn what_is_exported_and_imported_is_the_same_byte_for_byte() {
    let mut site = Site::start();
    fill(&site.truth());
    let schema = site.file("tables.graphql", SCHEMA);
    for format in ["csv", "jsonl"] {
        let data = site.directory.path().join(format!("data-{format}"));
        for table in ["Product", "Number", "Item"] {
            let first = site.directory.path().join(format!("{table}-1.{format}"));
            let ended = site.run(&format!("export {table} --output {}", first.display()));
            assert_eq!(code(&ended), Some(0), "{:#?}", ended.stderr);
            assert!(ended.stdout.is_empty());
            let first_text = std::fs::read(&first).expect("an export");

            let line = format!("import {table} {} --schema {schema}", first.display());
            let ended = run_on_data(&line, &data);
            assert_eq!(code(&ended), Some(0), "{:#?}", ended.stderr);
            let ended = run_on_data(&format!("export {table} --format {format}"), &data);
            assert_eq!(code(&ended), Some(0), "{:#?}", ended.stderr);
            let mut again = ended.stdout.join("\n").into_bytes();
            again.push(b'\n');
            assert_eq!(
                String::from_utf8_lossy(&again),
                String::from_utf8_lossy(&first_text),
                "{table} as {format}"
            );
        }
    }
    // By gRPC as well: a service on the new store has the very same bytes.
    let expected = get(site.feed.address, "Product", "a,b");
    assert!(expected.is_some());
    site.feed.kill();
    let imported = site.directory.path().join("data-csv");
    let line = format!("serve --listen 127.0.0.1:0 --data {}", imported.display());
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let service = Service::spawn(Program::Feedsvc, &words);
    let address = crate::harness::stack::address_in(&service.wait_for_line("feedsvc ready "), "listen");
    assert_eq!(get(address, "Product", "a,b"), expected);
}

#[test]
fn a_store_that_a_service_has_open_is_refused_with_the_way_that_works() {
    let site = Site::start();
    let data = site.directory.path().join("data");
    let file = site.file("a.jsonl", items(0..1));
    for line in [format!("import Item {file}"), "export Item".to_owned()] {
        let ended = run_on_data(&line, &data);
        assert_eq!(code(&ended), Some(1), "{:#?}", ended.stderr);
        assert!(
            ended.stderr[0].contains("a service has it open"),
            "{:#?}",
            ended.stderr
        );
        assert!(ended.stderr[0].contains("--feed"), "{:#?}", ended.stderr);
    }
    let absent = site.directory.path().join("absent");
    let ended = run_on_data("export Item", &absent);
    assert_eq!(code(&ended), Some(1));
    assert!(!absent.exists(), "a mistyped name makes nothing");
}

#[test]
fn an_export_is_one_row_for_each_record_by_rising_key_and_says_what_it_shows() {
    let site = Site::start();
    fill(&site.truth());
    let ended = site.run("export Item --format jsonl");
    assert_eq!(code(&ended), Some(0), "{:#?}", ended.stderr);
    assert_eq!(ended.stdout.len(), 2_300);
    let keys: Vec<&str> = ended
        .stdout
        .iter()
        .map(|line| line.split('"').nth(3).expect("a key"))
        .collect();
    assert!(keys.is_sorted_by(|a, b| a < b));
    let head = site.truth().log().len();
    assert_eq!(
        summary(&ended),
        format!("exported 2300 rows of data.Item (revision {head}) to the standard output")
    );
}

#[test]
fn an_export_to_a_reader_that_has_enough_ends_quietly() {
    let site = Site::start();
    fill(&site.truth());
    let arguments = site.arguments("export Item --format jsonl");
    let ended = Service::spawn_script(Program::Feedsvc, "\"$0\" \"$@\" | head -n 1", &arguments).wait();
    assert_eq!(ended.stdout.len(), 1);
    assert!(
        ended
            .stderr
            .iter()
            .all(|line| !line.contains("cannot") && !line.contains("panicked")),
        "{:#?}",
        ended.stderr
    );
}

#[test]
fn an_export_that_fails_leaves_no_file_behind() {
    let mut site = Site::start();
    fill(&site.truth());
    let output = site.directory.path().join("items.csv");
    std::fs::write(&output, "what was there").unwrap();
    let folder = site.directory.path().join("absent/items.csv");
    let ended = site.run(&format!("export Item --output {}", folder.display()));
    assert_eq!(code(&ended), Some(1), "{:#?}", ended.stderr);
    site.feed.kill();
    let ended = site.run(&format!("export Item --output {}", output.display()));
    assert_eq!(code(&ended), Some(1), "{:#?}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "what was there");
    let partial = std::fs::read_dir(site.directory.path()).unwrap();
    assert!(
        !partial
            .into_iter()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().contains("partial"))
    );
}
