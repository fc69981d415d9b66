//! Requests at and beyond the limits, over real gRPC: right, or refused with a reason, and the service lives on.

use proto::Reason;
use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::{CommitRequest, GetRequest, RecordOperation};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use tonic_types::StatusExt;

use super::replay::Replay;
use crate::harness::RUNTIME;
use crate::harness::stack::Feed;
use crate::harness::truth::{Truth, delete, put};

/// What a commit must lead to.
enum Expected {
    Taken,
    Refused(Reason),
    /// By the transport, before the service saw it.
    TooLargeToSend,
}
use Expected::{Refused, Taken, TooLargeToSend};

struct Case {
    what: String,
    operations: Vec<RecordOperation>,
    expected: Expected,
}

fn case(what: impl Into<String>, operations: Vec<RecordOperation>, expected: Expected) -> Case {
    Case {
        what: what.into(),
        operations,
        expected,
    }
}

/// A record of exactly so many bytes.
fn record_of(bytes: usize) -> String {
    // Without its key, which does not count.
    let frame = r#"{"data":""}"#.len();
    format!(r#"{{"data":"{}"}}"#, "x".repeat(bytes - frame))
}

fn nested(depth: usize) -> String {
    // The record itself is the outermost level.
    format!(
        r#"{{"id":"k","data":{}{}}}"#,
        "[".repeat(depth - 1),
        "]".repeat(depth - 1)
    )
}

fn cases() -> Vec<Case> {
    const MIB: usize = 1024 * 1024;
    let one = |key: &str, record: &str| vec![put("Item", key, record)];
    let many = |count: usize| {
        (0..count)
            .map(|number| put("Unseen", &(number % 1_000).to_string(), "{}"))
            .collect()
    };
    let mut cases = vec![
        case("no operation", vec![], Refused(Reason::InvalidArgument)),
        case("100,000 operations", many(100_000), Taken),
        case(
            "one operation more",
            many(100_001),
            Refused(Reason::InvalidArgument),
        ),
        case(
            "100,000 deletes of nothing",
            (0..100_000)
                .map(|number| delete("Unseen", &format!("never-{number}")))
                .collect(),
            Taken,
        ),
        case("a record of 1 MiB", one("k", &record_of(MIB)), Taken),
        case(
            "a record of a byte more",
            one("k", &record_of(MIB + 1)),
            Refused(Reason::TooLarge),
        ),
        case(
            "16 MiB together",
            (0..16).map(|_| put("Item", "k", &record_of(MIB))).collect(),
            Taken,
        ),
        case(
            "somewhat more together",
            (0..17).map(|_| put("Item", "k", &record_of(MIB))).collect(),
            Refused(Reason::TooLarge),
        ),
        case(
            "a message of 65 MiB",
            (0..65).map(|_| put("Item", "k", &record_of(MIB))).collect(),
            TooLargeToSend,
        ),
        case("an empty key", one("", "{}"), Refused(Reason::InvalidArgument)),
        case("a key of 1,024 bytes", one(&"k".repeat(1_024), "{}"), Taken),
        case(
            "a key of a byte more",
            one(&"k".repeat(1_025), "{}"),
            Refused(Reason::TooLarge),
        ),
        case(
            "a key of 1,024 bytes in 256 characters",
            one(&"🌊".repeat(256), "{}"),
            Taken,
        ),
        case(
            "a key of 257 such characters",
            one(&"🌊".repeat(257), "{}"),
            Refused(Reason::TooLarge),
        ),
        case("128 levels", one("k", &nested(128)), Taken),
        case(
            "129 levels",
            one("k", &nested(129)),
            Refused(Reason::InvalidRecord),
        ),
        case(
            "500,000 levels",
            one("k", &"[".repeat(500_000)),
            Refused(Reason::InvalidRecord),
        ),
        case("no JSON", one("k", "{"), Refused(Reason::InvalidRecord)),
        case("no object", one("k", "7"), Refused(Reason::InvalidRecord)),
        case("nothing at all", one("k", ""), Refused(Reason::InvalidRecord)),
        case(
            "a lone surrogate",
            one("k", r#"{"name":"\ud800"}"#),
            Refused(Reason::InvalidRecord),
        ),
        case(
            "an unknown table",
            vec![put("Nowhere", "k", "{}")],
            Refused(Reason::UnknownTable),
        ),
        case(
            "a table with a quote in its name",
            vec![put("x\"; DROP TABLE log; --", "k", "{}")],
            Refused(Reason::UnknownTable),
        ),
        case("100,000 attributes", one("k", &attributes(50_000)), Taken),
    ];
    for key in [
        "\0",
        "a\0b",
        "\u{1}",
        " ",
        ".",
        "..",
        "a/b",
        "%2F",
        "\u{feff}",
        "\u{202e}right to left",
        "e\u{301}",
        "é",
        "ﬁ",
        "\u{10ffff}",
        "\u{fffd}",
        "'",
        "\"",
        "`;--",
        "\r\n",
        "𝕂",
        "नमस्ते",
        "👩‍👩‍👧",
    ] {
        cases.push(case(format!("the key {key:?}"), one(key, "{}"), Taken));
    }
    for number in [
        "0",
        "-0",
        "1.0",
        "1e400",
        "-1e-400",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827021181583404541015625",
        "1E+2",
        &"9".repeat(100_000),
        &format!("0.{}1", "0".repeat(100_000)),
        "1e99999999999999999999",
    ] {
        let record = format!(r#"{{"data":{{"n":{number},"list":[{number}]}}}}"#);
        cases.push(case(format!("the number {number:.30}"), one("n", &record), Taken));
    }
    for text in ["01", "1.", ".5", "+1", "0x10", "NaN", "Infinity", "1e", "--1"] {
        let record = format!(r#"{{"data":{text}}}"#);
        cases.push(case(
            format!("no number {text}"),
            one("n", &record),
            Refused(Reason::InvalidRecord),
        ));
    }
    for (attribute, number, expected) in [
        ("int", "2147483648", Refused(Reason::InvalidRecord)),
        ("long", "9223372036854775807", Taken),
        ("long", "9223372036854775808", Refused(Reason::InvalidRecord)),
        ("bigInt", "9223372036854775808", Taken),
        ("float", "1e400", Refused(Reason::InvalidRecord)),
        ("any", "1e400", Taken),
    ] {
        let operations = vec![put("Number", "n", &format!(r#"{{"{attribute}":{number}}}"#))];
        cases.push(case(format!("{attribute} {number}"), operations, expected));
    }
    cases
}

/// `Item.data` takes any JSON.
fn attributes(count: usize) -> String {
    let attributes: Vec<String> = (0..count).map(|number| format!(r#""a{number}":1"#)).collect();
    format!(r#"{{"data":{{{}}}}}"#, attributes.join(","))
}

#[test]
fn what_goes_to_a_limit_is_right_or_refused_with_a_reason() {
    let directory = TempDir::new().expect("a temporary directory");
    let mut feed = Feed::start(directory.path());
    let truth = Truth::of(feed.address);
    // Without a deadline of its own: the largest take their time in a build that is not optimised.
    let endpoint =
        Endpoint::from_shared(format!("http://{}", feed.address)).expect("an address is an endpoint");
    let mut client = {
        let _runtime = RUNTIME.enter();
        FeedClient::new(endpoint.connect_lazy()).max_decoding_message_size(64 * 1024 * 1024)
    };
    for case in cases() {
        check(&mut client, case);
    }
    let log = feed.service().stderr();
    assert!(!log.iter().any(|line| line.contains("panicked")), "{log:#?}");
    feed.kill();
    feed.restart();
    let replay = Replay::of(&mut truth.client());
    replay.check_tables(&mut truth.client());
}

fn check(client: &mut FeedClient<Channel>, case: Case) {
    let Case {
        what,
        operations,
        expected,
    } = case;
    let last = operations.last().cloned();
    let request = CommitRequest {
        operations,
        ..Default::default()
    };
    let answer = RUNTIME.block_on(client.commit(request));
    match (expected, answer) {
        (Taken, Ok(_)) => {
            let last = last.expect("an operation");
            let Some(proto::feed::v1::record_operation::Action::Put(put)) = last.action else {
                return;
            };
            let request = GetRequest {
                database: last.database,
                table: last.table,
                key: last.key,
                ..Default::default()
            };
            let found = RUNTIME
                .block_on(client.get(request))
                .expect("it can be read")
                .into_inner();
            let value = String::from_utf8(found.record.expect("a record").value.to_vec()).expect("UTF-8");
            let sent = std::str::from_utf8(&put.value)
                .expect("UTF-8")
                .trim_start_matches('{');
            // The primary key may have been filled in; nothing else differs, no digit and no byte.
            assert!(value.ends_with(sent), "{what}: {value:.200}");
        }
        (Refused(reason), Err(status)) => {
            let info = status.get_details_error_info();
            let found = info.map(|info| info.reason);
            assert_eq!(found.as_deref(), Some(reason.as_str()), "{what}: {status}");
            assert!(status.message().len() < 2_000, "{what}: a long message");
        }
        (TooLargeToSend, Err(status)) => {
            assert_eq!(status.code(), tonic::Code::OutOfRange, "{what}: {status}")
        }
        (Taken, Err(status)) => panic!("{what} is refused: {status}"),
        (Refused(_) | TooLargeToSend, Ok(_)) => panic!("{what} is taken"),
    }
}
