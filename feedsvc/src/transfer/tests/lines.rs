//! Tests of JSON Lines and of what both formats have in common.

use std::io::{Cursor, Read};
use std::sync::Arc;

use proptest::prelude::*;
use proto::feed::v1::record_operation::Action;

use super::arbitrary::sample;
use super::table_of;
use crate::catalog::GivenTimes;
use crate::transfer::jsonl::{JsonlRows, write_record};
use crate::transfer::source::Source;

const TABLE: &str = "type Product @table { id: ID @primaryKey  name: String!  price: Float  tags: [Int!] }";
const LINE_LIMIT_BYTES: usize = 200;

/// Imports a text and shows keys with records, or faults.
fn import(text: &[u8]) -> String {
    let source = match Source::open(Box::new(Cursor::new(text.to_vec())), Arc::default()) {
        Ok(source) => source,
        Err(error) => return error.to_string(),
    };
    let mut rows = JsonlRows::new(source, LINE_LIMIT_BYTES, table_of(TABLE), GivenTimes::Kept);
    let mut shown = Vec::new();
    while let Some(row) = rows.read().unwrap() {
        shown.push(match row {
            Ok(row) => match row.operation.action {
                Some(Action::Put(put)) => format!(
                    "{} {}={}",
                    row.line,
                    row.operation.key,
                    String::from_utf8(put.value.to_vec()).unwrap()
                ),
                other => panic!("{other:?}"),
            },
            Err(fault) => fault.to_string(),
        });
    }
    shown.join("\n")
}

fn check(text: &str, expected: &str) {
    assert_eq!(import(text.as_bytes()), expected, "{text:?}");
}

#[test]
fn lines_are_records_as_they_are_written() {
    check("", "");
    check(
        "\u{feff}{\"id\":\"a\",\"name\":\"x\"}\r\n\n  \t\r\n {\"name\": \"y\", \"id\": 7, \"price\": 1.0e2 } ",
        "1 a={\"id\":\"a\",\"name\":\"x\"}\n4 7={\"name\": \"y\", \"id\": 7, \"price\": 1.0e2 }",
    );
    check(
        "{\"id\":\"a\",\"name\":\"x\"}\r{\"id\":\"b\",\"name\":\"x\"}\r",
        "1 a={\"id\":\"a\",\"name\":\"x\"}\n2 b={\"id\":\"b\",\"name\":\"x\"}",
    );
}

#[test]
fn a_bad_line_is_told_with_its_place_and_the_next_one_goes_on() {
    for (line, expected) in [
        ("[1]", "1: the line is an array; allowed is a JSON object"),
        ("7", "1: the line is the number 7; allowed is a JSON object"),
        (
            r#"{"id":"é",}"#,
            "1: column 11 (byte 12): not valid JSON: expected an attribute name; allowed is a JSON object",
        ),
        (
            r#"{"id":"1","name":"x""#,
            "1: column 21: not valid JSON: expected a comma or the end of the object; allowed is a JSON object",
        ),
        (
            r#"{"id":"1","name":"x"} {}"#,
            "1: column 23: not valid JSON: unexpected text after the value; allowed is a JSON object",
        ),
        (
            r#"{"name":"x"}"#,
            "1: attribute `id` is missing; allowed is the record's key",
        ),
        (
            r#"{"name":"x","id":true}"#,
            "1: column 18: attribute `id` is true; allowed is a string or an integer",
        ),
        (
            r#"{"id":"1"}"#,
            "1: attribute `name` is missing; allowed is String!",
        ),
        (
            r#"{"id":"1","name":"x","tags":[1,2.5]}"#,
            "1: column 29: attribute `tags[1]` is the number 2.5; allowed is an integer from -2147483648 to 2147483647 (Int!)",
        ),
        (
            r#"{"id":"1","name":"x","colour":1}"#,
            "1: column 31: attribute `colour` is not declared; allowed is one of id, name, price, tags",
        ),
        (
            "{\"id\":\"1\",\"name\":\"x\0\"}",
            "1: column 20: not valid JSON: control character in a string; allowed is a JSON object",
        ),
    ] {
        check(
            &format!("{line}\n{{\"id\":\"z\",\"name\":\"\"}}\n"),
            &format!("{expected}\n2 z={{\"id\":\"z\",\"name\":\"\"}}"),
        );
    }
    let long_key = "k".repeat(LINE_LIMIT_BYTES);
    check(
        &format!("{{\"id\":\"{long_key}\"}}\n{{\"id\":\"z\",\"name\":\"\"}}\n"),
        "1: the line is larger than 200 bytes, the limit\n2 z={\"id\":\"z\",\"name\":\"\"}",
    );
}

#[test]
fn other_encodings_are_told() {
    let utf16: Vec<u8> = "\u{feff}id,name\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let advice = "as its first bytes tell; convert it to UTF-8, for example with iconv";
    assert_eq!(
        import(&utf16),
        format!("byte 1: the file is encoded in UTF-16, {advice}")
    );
    assert_eq!(
        import(b"\xfe\xff\0{"),
        format!("byte 1: the file is encoded in UTF-16, {advice}")
    );
    assert_eq!(
        import(b"\xff\xfe\0\0{\0\0\0"),
        format!("byte 1: the file is encoded in UTF-32, {advice}")
    );
    assert_eq!(
        import(b"\n{\"id\":\"caf\xe9\"}"),
        "2: column 11: no UTF-8: byte 0xe9 at byte 12 of the file; convert the file to UTF-8, for example with iconv -f latin1 -t utf-8"
    );
}

#[test]
fn a_character_that_is_cut_at_the_end_is_told() {
    assert_eq!(
        import("{\"id\":\"é".as_bytes().split_last().unwrap().1),
        "1: column 8: no UTF-8: byte 0xc3 at byte 8 of the file; convert the file to UTF-8, for example with iconv -f latin1 -t utf-8"
    );
}

/// A file of one line that never ends.
struct Endless;

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        buffer.fill(b'[');
        Ok(buffer.len())
    }
}

#[test]
fn a_line_of_100_mib_is_refused_without_being_kept() {
    let file = Endless
        .take(100 * 1024 * 1024)
        .chain(Cursor::new(b"\n{\"id\":\"z\",\"name\":\"\"}\n".to_vec()));
    let source = Source::open(Box::new(file), Arc::default()).unwrap();
    let mut rows = JsonlRows::new(source, LINE_LIMIT_BYTES, table_of(TABLE), GivenTimes::Kept);
    let fault = rows.read().unwrap().unwrap().unwrap_err();
    assert_eq!(
        fault.to_string(),
        "1: the line is larger than 200 bytes, the limit"
    );
    assert!(rows.kept_bytes() < 1024 * 1024, "{}", rows.kept_bytes());
    assert_eq!(rows.read().unwrap().unwrap().unwrap().line, 2);
}

proptest! {
    #[test]
    fn any_record_comes_back_from_json_lines_byte_for_byte(sample in sample()) {
        let mut text = Vec::new();
        for record in &sample.records {
            write_record(record.as_bytes(), &mut text).unwrap();
        }
        let source = Source::open(Box::new(Cursor::new(text)), Arc::default()).unwrap();
        let mut rows = JsonlRows::new(source, usize::MAX, Arc::clone(&sample.table), GivenTimes::Kept);
        for expected in &sample.records {
            let row = rows.read().unwrap().unwrap().unwrap_or_else(|fault| panic!("{fault}"));
            let Some(Action::Put(put)) = row.operation.action else {
                panic!("an import puts");
            };
            prop_assert_eq!(std::str::from_utf8(&put.value).unwrap(), expected);
        }
        prop_assert!(rows.read().unwrap().is_none());
    }
}
