//! Tests of CSV: what the reader takes and refuses, what a header means, and that a record comes back byte for byte.

use std::io::Cursor;
use std::sync::Arc;

use proptest::prelude::*;

use super::columns::Columns;
use super::reader::{CsvReader, RawRow};
use super::{CsvRows, CsvWriter};
use crate::catalog::json::{Json, JsonObject, object_to_text};
use crate::catalog::{CatalogTable, GivenTimes};
use crate::transfer::source::Source;
use crate::transfer::tests::arbitrary::{Sample, sample};
use crate::transfer::tests::table_of;

const ROW_LIMIT_BYTES: usize = 1_000;

fn source(text: &[u8]) -> Source {
    Source::open(Box::new(Cursor::new(text.to_vec())), Arc::default()).unwrap()
}

/// Reads a text and shows its rows, one in brackets each behind its line, quoted cells in quotes.
fn rows(text: &[u8]) -> String {
    let mut reader = CsvReader::new(source(text), ROW_LIMIT_BYTES);
    let mut row = RawRow::new(5);
    let mut shown = String::new();
    loop {
        match reader.read(&mut row) {
            Ok(None) => {
                if reader.has_open_end() {
                    shown.push('…');
                }
                return shown;
            }
            Ok(Some(Err(fault))) => {
                shown.push_str(&format!("!{}:{} {};", fault.line, fault.column, fault.reason));
            }
            Err(error) => return format!("{shown}!!{error}"),
            Ok(Some(Ok(()))) => {
                let cells: Vec<String> = (0..row.cell_count)
                    .map_while(|index| row.cell(index))
                    .map(|cell| {
                        let text = String::from_utf8_lossy(cell.text).into_owned();
                        if cell.is_quoted { format!("{text:?}") } else { text }
                    })
                    .collect();
                shown.push_str(&format!("{}[{}]", row.place.line, cells.join("|")));
            }
        }
    }
}

fn check(text: &str, expected: &str) {
    assert_eq!(rows(text.as_bytes()), expected, "{text:?}");
}

#[test]
fn rows_end_with_any_line_end_and_know_their_line() {
    check("", "");
    check("a,b\n1,2\n", "1[a|b]2[1|2]");
    check("a,b\r\n1,2\r\n3,4", "1[a|b]2[1|2]3[3|4]…");
    check("a\rb\r\rc\r", "1[a]2[b]4[c]");
    check("a\n\r\n\n b \n", "1[a]4[ b ]");
    check("\u{feff}a,b\n", "1[a|b]");
    check("a,\n,\n\"\"\n", "1[a|]2[|]3[\"\"]");
    check("a,", "1[a|]…");
    check("a,b,c,d,e,f\n", "1[a|b|c|d|e]");
}

#[test]
fn quoted_cells_hold_everything_and_lines_are_counted_in_them() {
    check(
        "\"a\nb\r\nc\rd\",\"\"\"\"\nx\n",
        "1[\"a\\nb\\r\\nc\\rd\"|\"\\\"\"]5[x]",
    );
    check("\"a,b\",\"\",c\n", "1[\"a,b\"|\"\"|c]");
    check("\"a\"", "1[\"a\"]…");
    check("\"a\"\"\"\r\nb", "1[\"a\\\"\"]2[b]…");
}

#[test]
fn what_is_damaged_is_told_with_its_place_and_the_next_line_goes_on() {
    let inside = "a quote inside a cell that does not begin with one; quote the cell and double its quotes;";
    let behind = "text behind the closing quote; double the quotes inside a quoted cell;";
    check("a\nb,c\"d\"\ne\n", &format!("1[a]!2:2 {inside}3[e]"));
    check("a\n\"b\"c,d\ne\n", &format!("1[a]!2:1 {behind}3[e]"));
    check("a\n\"b\n\"c,d\ne\n", &format!("1[a]!3:1 {behind}4[e]"));
    check(
        "a\nb,\"c\nd",
        "1[a]!!line 2: column 2: the quoted cell that begins here (byte 6 of the file) is not closed when the file ends; \
         the file was cut, or a quote in it is not doubled",
    );
}

#[test]
fn a_row_over_the_limit_is_refused_and_passed_over() {
    let long = "x".repeat(3 * ROW_LIMIT_BYTES);
    check(
        &format!("a\nb,{long},c\nd\n"),
        "1[a]!2:2 the row is larger than 1000 bytes, the limit;3[d]",
    );
    check(
        &format!("a\nb,\"{long}\",c\nd\n"),
        "1[a]!!line 2: column 2: the quoted cell that begins here (byte 6 of the file) makes the row larger than 1000 bytes, \
         the limit; correct the file if a quote in it is not doubled, or raise --row-bytes",
    );
}

const TABLE: &str = r#"
    type Product @table {
        id: ID @primaryKey
        name: String!
        price: Float
        tags: [String]
        any: Any
        made: Date @createdTime
        raw: Bytes
        is: Boolean
    }
"#;
const OPEN_TABLE: &str = "type Product @table(open: true) { id: ID @primaryKey  n: Int }";

fn header(sdl: &str, text: &str) -> String {
    let mut row = RawRow::new(100);
    CsvReader::new(source(text.as_bytes()), ROW_LIMIT_BYTES)
        .read(&mut row)
        .unwrap()
        .unwrap()
        .unwrap();
    match Columns::of_header(&table_of(sdl).definition, &row) {
        Ok(columns) => format!("{} columns", columns.columns.len()),
        Err(problems) => problems.join("; "),
    }
}

#[test]
fn all_that_is_wrong_with_a_header_is_told_at_once() {
    let allowed = "allowed are id, name, price, tags, any, made, raw, is, $more, $attributes";
    for (text, expected) in [
        ("id,name", "2 columns".to_owned()),
        ("\"name\",id,$attributes", "3 columns".to_owned()),
        ("$more", "1 columns".to_owned()),
        (
            "price,pric,,price",
            format!(
                "column 2 `pric` is unknown; column 3 has no name; column 4 `price` stands in column 1 already; \
                 the key `id` (ID) has no column; `name` (String!) has no column; {allowed}"
            ),
        ),
        (
            "id;name",
            format!(
                "column 1 `id;name` is unknown; the key `id` (ID) has no column; `name` (String!) has no column; \
                 columns are separated by commas, not by ';'; {allowed}"
            ),
        ),
    ] {
        assert_eq!(header(TABLE, text), expected, "{text}");
    }
    assert_eq!(header(OPEN_TABLE, "id,colour"), "2 columns");
}

/// Imports a text and shows the records, or the faults.
fn import(table: &Arc<CatalogTable>, text: &[u8]) -> String {
    let opened = CsvRows::open(source(text), ROW_LIMIT_BYTES, Arc::clone(table), GivenTimes::Kept);
    let mut rows = match opened {
        Ok(rows) => rows,
        Err(error) => return error.to_string(),
    };
    let mut shown = Vec::new();
    loop {
        match rows.read() {
            Ok(None) => return shown.join("\n"),
            Ok(Some(Ok(row))) => {
                let Some(proto::feed::v1::record_operation::Action::Put(put)) = row.operation.action else {
                    panic!("an import puts");
                };
                shown.push(String::from_utf8(put.value.to_vec()).unwrap());
            }
            Ok(Some(Err(fault))) => shown.push(fault.to_string()),
            Err(error) => {
                shown.push(error.to_string());
                return shown.join("\n");
            }
        }
    }
}

fn check_row(header: &str, row: &str, expected: &str) {
    let text = format!("{header}\n{row}\n");
    assert_eq!(import(&table_of(TABLE), text.as_bytes()), expected, "{text}");
}

#[test]
fn cells_are_values_of_their_type() {
    check_row("id,name", "1,x", r#"{"id":"1","name":"x"}"#);
    check_row("id,name", "1,\"\"", r#"{"id":"1","name":""}"#);
    check_row(
        "id,name,price,tags,any,made,raw,is",
        "1,x,1.0e2,\"[\"\"a\"\",null]\",\"{\"\"b\"\": 1.10}\",5,,TRUE",
        r#"{"id":"1","name":"x","price":1.0e2,"tags":["a",null],"any":{"b":1.10},"made":5,"raw":null,"is":true}"#,
    );
    check_row(
        "id,name,price,tags,any,made,raw,is",
        "1,x,\"\",\"\",\"\",2024-02-29,\"\",\"\"",
        r#"{"id":"1","name":"x","price":null,"tags":null,"any":null,"made":"2024-02-29","raw":"","is":null}"#,
    );
    check_row(
        "id,name,any,$more,$attributes",
        "1,x,,\"{\"\"price\"\":2,\"\"any\"\":\"\"q\"\"}\",price id",
        r#"{"price":2,"id":"1","name":"x","any":"q"}"#,
    );
    check_row(
        "id,name,price,$attributes",
        "1,x,,name id",
        r#"{"name":"x","id":"1"}"#,
    );
}

#[test]
fn what_breaks_a_type_or_a_rule_is_told_with_line_and_column() {
    check_row(
        "id,name,price",
        "1,x,abc",
        r#"2: column 3: attribute `price` is the string "abc"; allowed is a finite number (Float)"#,
    );
    check_row(
        "price,id,name",
        "1,1,",
        "2: column 3: attribute `name` is null; allowed is a string (String!)",
    );
    check_row(
        "id,name",
        ",x",
        "2: column 1: attribute `id` is null; allowed is a string or an integer",
    );
    check_row(
        "id,name",
        "\"\",x",
        "2: column 1: attribute `id` is empty; allowed is a key of at least one byte",
    );
    check_row(
        "id,name,tags",
        "1,\"a\n\n\nb\",\"[1]\"",
        "5: column 3: attribute `tags[0]` is the number 1; allowed is a string (String)",
    );
    check_row(
        "id,name,any",
        "1,x,red",
        "2: column 3: attribute `any` is not valid JSON: unexpected character at byte 0; \
         allowed is a value as JSON, a string so in quotes of its own",
    );
    check_row(
        "id,name",
        "1,x,y",
        "2: the row has 3 cells and the header 2; allowed is a cell for each column, and quotes around one with a comma or a \
         line end in it",
    );
    check_row(
        "id,name,$attributes",
        "1,x,id nam",
        "2: column 3: attribute `nam` has no column and does not stand in $more",
    );
    check_row(
        "id,name,$more",
        "1,x,\"{\"\"name\"\":\"\"y\"\"}\"",
        "2: column 3: attribute `name` stands in $more and in a cell of its own; empty one of them",
    );
    check_row(
        "id,name",
        "1,x\0y",
        "2: column 2: a NUL at byte 12 of the file; allowed is text in UTF-8 without it",
    );
}

#[test]
fn a_byte_that_is_no_utf8_is_told_with_its_place_in_the_file() {
    let shown = import(&table_of(TABLE), b"id,name\n1,caf\xe9\n2,\"a\"\"\n\xff\"\n3,y\n");
    assert_eq!(
        shown,
        "2: column 2: no UTF-8: byte 0xe9 at byte 14 of the file; convert the file to UTF-8, for example with iconv -f latin1 -t utf-8\n\
         4: column 2: no UTF-8: byte 0xff at byte 23 of the file; convert the file to UTF-8, for example with iconv -f latin1 -t utf-8\n\
         {\"id\":\"3\",\"name\":\"y\"}"
    );
}

fn export(table: &Arc<CatalogTable>, records: &[&str]) -> Vec<u8> {
    let (writer, mut out) = (CsvWriter::new(Arc::clone(table), false), Vec::new());
    writer.begin(&mut out).unwrap();
    for record in records {
        writer.write(record.as_bytes(), &mut out).unwrap();
    }
    out
}

#[test]
fn only_what_cells_cannot_say_goes_into_the_columns_of_this_program() {
    for (sdl, record, expected) in [
        (
            TABLE,
            r#"{"id":"1","name":"x","price":1.0,"tags":["a"],"any":"s","raw":"","is":false,"made":"2024-02-29"}"#,
            "id,name,price,tags,any,raw,is,made,$more,$attributes\n1,x,1.0,\"[\"\"a\"\"]\",\"\"\"s\"\"\",\"\",false,2024-02-29,,\n",
        ),
        (
            TABLE,
            r#"{"name":"","id":"1","price":null}"#,
            "id,name,price,tags,any,raw,is,made,$more,$attributes\n1,\"\",,,,,,,,name id price\n",
        ),
        (
            OPEN_TABLE,
            r#"{"id":7,"n":1,"odd name":[]}"#,
            "id,n,$more,$attributes\n,1,\"{\"\"id\"\":7,\"\"odd name\"\":[]}\",\n",
        ),
        (
            OPEN_TABLE,
            r#"{"odd name":"\u0000","id":"a b"}"#,
            "id,n,$more,$attributes\na b,,\"{\"\"odd name\"\":\"\"\\u0000\"\"}\",\"\"\"odd\\u0020name\"\" id\"\n",
        ),
    ] {
        let table = table_of(sdl);
        let text = export(&table, &[record]);
        assert_eq!(String::from_utf8(text.clone()).unwrap(), expected, "{record}");
        assert_eq!(import(&table, &text), record, "{record}");
    }
}

proptest! {
    #[test]
    fn any_record_comes_back_from_csv_byte_for_byte(sample in sample()) {
        let Sample { table, records, .. } = sample;
        let texts: Vec<&str> = records.iter().map(String::as_str).collect();
        let text = export(&table, &texts);
        let opened = CsvRows::open(source(&text), usize::MAX, Arc::clone(&table), GivenTimes::Kept);
        let mut rows = opened.unwrap();
        for expected in &records {
            let row = rows.read().unwrap().unwrap().unwrap_or_else(|fault| panic!("{fault}\n{}", String::from_utf8_lossy(&text)));
            let Some(proto::feed::v1::record_operation::Action::Put(put)) = row.operation.action else {
                panic!("an import puts");
            };
            prop_assert_eq!(std::str::from_utf8(&put.value).unwrap(), expected);
        }
        prop_assert!(rows.read().unwrap().is_none());
    }

    #[test]
    fn what_is_written_is_what_the_csv_crate_reads(sample in sample()) {
        let texts: Vec<&str> = sample.records.iter().map(String::as_str).collect();
        let text = export(&sample.table, &texts);
        let mut theirs = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_slice());
        let mut ours = CsvReader::new(source(&text), usize::MAX);
        let mut row = RawRow::new(100);
        for record in theirs.byte_records() {
            let record = record.unwrap();
            ours.read(&mut row).unwrap().unwrap().unwrap();
            let cells: Vec<&[u8]> = (0..row.cell_count).map_while(|index| row.cell(index)).map(|cell| cell.text).collect();
            prop_assert_eq!(cells, record.iter().collect::<Vec<_>>());
        }
        prop_assert!(ours.read(&mut row).unwrap().is_none());
    }

    #[test]
    fn any_bytes_are_rows_or_faults_and_never_more_lines_than_there_are(text in any_file()) {
        let shown = rows(&text);
        let lines = text.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
        let faults = shown.matches('!').count();
        prop_assert!(faults <= lines + 1, "{}", shown);
        let _ = import(&table_of(TABLE), &text);
        let mut behind_header = b"id,name,price,$more,$attributes\n".to_vec();
        behind_header.extend(&text);
        let _ = import(&table_of(TABLE), &behind_header);
    }
}

fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\"".to_vec()),
        Just(b",".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"id,name".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        Just(b"\xe9".to_vec()),
        Just(b"{}".to_vec()),
        "[a-z0-9 ]{0,4}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

#[test]
fn an_order_survives_any_name() {
    let table = table_of(OPEN_TABLE);
    for name in ["a b", "\"", "ä", "$more", "\u{a0}", ""] {
        let mut record = JsonObject::new();
        record.insert(name.to_owned(), Json::Null);
        record.insert("id".to_owned(), Json::String("1".to_owned()));
        let record = object_to_text(&record);
        assert_eq!(import(&table, &export(&table, &[&record])), record, "{name:?}");
    }
}
