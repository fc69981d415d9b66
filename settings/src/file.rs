//! The configuration file: TOML, read with the place of every key, and all its mistakes at once.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::declaration::Declaration;
use crate::mistake::Mistake;
use crate::origin::{Given, Origin, Raw};
use crate::suggestion::closest;
use crate::toml_text::quoted;

/// The largest file; every key with its documentation takes a hundredth of it.
const LIMIT_BYTES: u64 = 1024 * 1024;

/// What a file holds for the keys of a program.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) given: Vec<Given>,
    pub(crate) mistakes: Vec<Mistake>,
}

/// Reads a file; what is wrong with it is in the contents.
pub(crate) fn read(path: &Path, declarations: &[Declaration]) -> Contents {
    let path: Arc<Path> = path.into();
    let origin = |line| Origin::File {
        path: Arc::clone(&path),
        line,
    };
    match read_text(&path) {
        Ok(text) => parse(&text, declarations, origin),
        Err((line, reason)) => Contents {
            given: Vec::new(),
            mistakes: vec![Mistake::new(origin(line), "", reason)],
        },
    }
}

/// Reads the text; an error is a line, 0 for the whole file, and a reason.
fn read_text(path: &Path) -> Result<String, (usize, String)> {
    let unreadable = |error: std::io::Error| {
        let advice = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path",
            std::io::ErrorKind::PermissionDenied => "let this user read it",
            std::io::ErrorKind::IsADirectory => "name a file in it",
            _ => "check the path and its permissions",
        };
        (0, format!("cannot read the file: {error}; {advice}"))
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(LIMIT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > LIMIT_BYTES {
        return Err((
            0,
            "the file has more than 1 MiB, a configuration has less".to_owned(),
        ));
    }
    decode(bytes)
}

fn decode(bytes: Vec<u8>) -> Result<String, (usize, String)> {
    // Before the check for UTF-8, which UTF-16 without other letters than ASCII passes.
    if bytes.starts_with(&[0xff, 0xfe])
        || bytes.starts_with(&[0xfe, 0xff])
        || bytes.iter().take(4).any(|byte| *byte == 0)
    {
        return Err((
            0,
            "the file is not UTF-8 but seems to be UTF-16; save it as UTF-8".to_owned(),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        (line, "the line is not UTF-8; save the file as UTF-8".to_owned())
    })
}

/// Reads the text of a file.
fn parse(text: &str, declarations: &[Declaration], origin: impl Fn(usize) -> Origin) -> Contents {
    // Allowed at the beginning of a text, and some editors write it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = Lines::of(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut contents = Contents::default();
    let mut broken_lines: Vec<usize> = Vec::new();
    for error in errors {
        let (line, column) = lines.place(error.span().map_or(text.len(), |span| span.start));
        // One slip often breaks several rules; the first is the one to mend.
        if broken_lines.last() != Some(&line) {
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            contents.mistakes.push(Mistake::new(
                origin(line),
                format!("column {column}"),
                format!("this is not TOML: {message}"),
            ));
        }
        broken_lines.push(line);
    }
    let mut walk = Walk {
        text,
        declarations,
        found: Vec::new(),
    };
    walk.run(table.get_ref());
    for found in walk.found {
        let line = lines.place(found.place).0;
        if broken_lines.iter().any(|broken| lines.spoils(*broken, line)) {
            continue;
        }
        match found.what {
            What::Value { raw, shown } => contents.given.push(Given {
                key: found.key,
                raw,
                shown,
                origin: origin(line),
            }),
            What::Mistake(reason) => {
                contents
                    .mistakes
                    .push(Mistake::new(origin(line), found.key, reason));
            }
        }
    }
    contents
}

/// Goes through a document and sorts what it finds by what is declared.
struct Walk<'a> {
    text: &'a str,
    declarations: &'a [Declaration],
    found: Vec<Found>,
}

/// A key of the document.
struct Found {
    key: String,
    /// Where the key stands, in bytes.
    place: usize,
    what: What,
}

enum What {
    Value { raw: Raw, shown: String },
    Mistake(String),
}

impl Walk<'_> {
    fn run(&mut self, root: &DeTable<'_>) {
        let mut open = vec![(String::new(), root)];
        while let Some((prefix, table)) = open.pop() {
            for (name, value) in table {
                let key = format!("{prefix}{}", segment(name.get_ref()));
                let group = format!("{key}.");
                let is_group = self
                    .declarations
                    .iter()
                    .any(|declaration| declaration.key.starts_with(&group));
                let is_key = self.declarations.iter().any(|declaration| declaration.key == key);
                let what = match value.get_ref() {
                    known if is_key => What::Value {
                        raw: raw(known),
                        shown: self.written(known, value.span()),
                    },
                    DeValue::Table(inner) if is_group || !inner.is_empty() => {
                        open.push((group, inner));
                        continue;
                    }
                    _ if is_group => What::Mistake(not_a_value(&key, self.declarations)),
                    _ => What::Mistake(unknown(&key, self.declarations)),
                };
                self.found.push(Found {
                    key,
                    place: name.span().start,
                    what,
                });
            }
        }
    }

    /// Returns a value as it stands in the file.
    fn written(&self, value: &DeValue<'_>, span: Range<usize>) -> String {
        match value {
            // Its span is that of its header, or of its first key.
            DeValue::Table(_) => "{…}".to_owned(),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => self.text.get(span).unwrap_or_default().to_owned(),
        }
    }
}

/// Returns a part of a dotted key as it has to be written; one in quotes is never part of a declared key.
fn segment(name: &str) -> String {
    let is_bare = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// Says that a key does not exist, and which may have been meant.
pub(crate) fn unknown(key: &str, declarations: &[Declaration]) -> String {
    let keys = declarations.iter().map(|declaration| declaration.key.as_str());
    match closest(key, keys) {
        Some(meant) => format!("there is no such key; did you mean {meant}?"),
        None => "there is no such key".to_owned(),
    }
}

/// Says that a key is a group of keys.
pub(crate) fn not_a_value(key: &str, declarations: &[Declaration]) -> String {
    let members: Vec<&str> = declarations
        .iter()
        .map(|declaration| declaration.key.as_str())
        .filter(|member| member.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
        .collect();
    format!(
        "this is a group of keys, not a value; allowed: {}",
        members.join(", ")
    )
}

/// Reads one value as it would stand in a file.
pub(crate) fn read_value(text: &str) -> Result<Raw, String> {
    let (value, errors) = DeValue::parse_recoverable(text);
    match errors.first() {
        Some(error) => Err(format!("this is not TOML: {}", error.message())),
        None => Ok(raw(value.get_ref())),
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => {
            let digits = number.as_str();
            // The parser has checked the digits, so what does not fit is too large or too small.
            let beyond = if digits.starts_with('-') {
                i128::MIN
            } else {
                i128::MAX
            };
            Raw::Integer(i128::from_str_radix(digits, number.radix()).unwrap_or(beyond))
        }
        DeValue::Boolean(value) => Raw::Boolean(*value),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Float(_) => Raw::Other("a number with a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date or time"),
        DeValue::Table(_) => Raw::Other("a group of keys"),
    }
}

/// Where the lines of a text begin.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Lines<'a> {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines {
            text,
            starts: std::iter::once(0).chain(starts).collect(),
        }
    }

    /// Says whether what stands in `line` is a guess, since `broken` cannot be read: it is the same line, or it is below that
    /// heading of a table.
    fn spoils(&self, broken: usize, line: usize) -> bool {
        let is_heading = |line: usize| self.line(line).trim_start().starts_with('[');
        line == broken || (line > broken && is_heading(broken) && !(broken + 1..=line).any(is_heading))
    }

    fn line(&self, line: usize) -> &str {
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let end = self.starts.get(line).copied().unwrap_or(self.text.len());
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns line and column of a place, from 1; the column counts characters.
    fn place(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(start..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}
