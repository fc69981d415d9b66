//! Reading what was given as a value of a kind: the value and how it is written as TOML, or what is wrong.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::duration;
use crate::file;
use crate::origin::{Given, Origin, Raw};
use crate::secret::Secret;
use crate::size;
use crate::toml_text::{array, quoted};

pub(crate) const ADDRESS: &str =
    "an IP address and a port, as in \"127.0.0.1:9926\" or \"[::1]:9926\"; port 0 takes a free one";
pub(crate) const PATH: &str = "a path";
pub(crate) const TEXT: &str = "a text";

type Read<T> = Result<(T, String), String>;

/// Returns the text of a value that is written as one.
fn text_of(raw: &Raw) -> Result<&str, String> {
    match raw {
        Raw::Plain(text) | Raw::Text(text) => Ok(text),
        Raw::Integer(_) | Raw::Boolean(_) | Raw::List(_) | Raw::Other(_) => {
            Err(format!("it is {}, not a text in quotes", raw.name()))
        }
    }
}

/// Returns the text of a value that must not be empty.
fn filled(raw: &Raw) -> Result<&str, String> {
    let text = text_of(raw)?;
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(text)
}

fn within<T: PartialOrd>(
    value: T,
    range: &RangeInclusive<T>,
    write: impl Fn(&T) -> String,
) -> Result<T, String> {
    if value < *range.start() {
        Err(format!("it is less than {}", write(range.start())))
    } else if value > *range.end() {
        Err(format!("it is more than {}", write(range.end())))
    } else {
        Ok(value)
    }
}

pub(crate) fn switch(given: &Given) -> Read<bool> {
    let value = match &given.raw {
        Raw::Boolean(value) => *value,
        Raw::Plain(text) => text
            .trim()
            .parse()
            .map_err(|_| "it is no truth value".to_owned())?,
        Raw::Text(_) => return Err("a truth value is written without quotes".to_owned()),
        Raw::Integer(_) | Raw::List(_) | Raw::Other(_) => return Err(format!("it is {}", given.raw.name())),
    };
    Ok((value, value.to_string()))
}

pub(crate) fn count<T>(given: &Given, range: &RangeInclusive<T>) -> Read<T>
where
    T: Copy + PartialOrd + Display + TryFrom<i128>,
{
    let number = match &given.raw {
        Raw::Integer(number) => *number,
        Raw::Plain(text) => whole_number(text)?,
        Raw::Text(_) => return Err("a number is written without quotes".to_owned()),
        Raw::Boolean(_) | Raw::List(_) | Raw::Other(_) => {
            return Err(format!("it is {}, not a whole number", given.raw.name()));
        }
    };
    let value = T::try_from(number).map_err(|_| {
        if number < 0 {
            format!("it is less than {}", range.start())
        } else {
            format!("it is more than {}", range.end())
        }
    })?;
    let value = within(value, range, T::to_string)?;
    Ok((value, value.to_string()))
}

fn whole_number(text: &str) -> Result<i128, String> {
    let text = text.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("it is not a whole number".to_owned());
    }
    // Digits only, so what does not parse is beyond every range.
    Ok(text.parse().unwrap_or(if digits.len() < text.len() {
        i128::MIN
    } else {
        i128::MAX
    }))
}

pub(crate) fn bytes(given: &Given, range: &RangeInclusive<usize>) -> Read<usize> {
    let write = |bytes: &usize| size::write(*bytes as u64);
    let bytes = match &given.raw {
        Raw::Integer(number) if *number < 0 => {
            return Err(format!("it is less than {}", write(range.start())));
        }
        Raw::Integer(number) => usize::try_from(*number).unwrap_or(usize::MAX),
        raw => usize::try_from(size::parse(filled(raw)?)?).unwrap_or(usize::MAX),
    };
    let bytes = within(bytes, range, write)?;
    Ok((bytes, quoted(&write(&bytes))))
}

pub(crate) fn duration(given: &Given, range: &RangeInclusive<Duration>) -> Read<Duration> {
    if let Raw::Integer(number) = given.raw {
        return Err(format!(
            "it has no unit, write \"{number}ms\", \"{number}s\", \"{number}m\", …"
        ));
    }
    let value = duration::parse(filled(&given.raw)?)?;
    let value = within(value, range, |value| duration::write(*value))?;
    Ok((value, quoted(&duration::write(value))))
}

pub(crate) fn address(given: &Given) -> Read<SocketAddr> {
    let text = filled(&given.raw)?;
    let address: SocketAddr = text
        .trim()
        .parse()
        .map_err(|_| "it is no IP address with a port".to_owned())?;
    Ok((address, quoted(&address.to_string())))
}

pub(crate) fn path(given: &Given) -> Read<PathBuf> {
    let text = filled(&given.raw)?;
    if text.contains('\0') {
        return Err("a path has no NUL character".to_owned());
    }
    let path = match &given.origin {
        Origin::File { path: file, .. } => file.parent().unwrap_or(Path::new("")).join(text),
        Origin::Default | Origin::Environment(_) | Origin::Flag(_) => PathBuf::from(text),
    };
    // Written absolute: it may be fed back from a file in another directory.
    let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
    let written = quoted(&absolute.to_string_lossy());
    Ok((path, written))
}

pub(crate) fn text(given: &Given) -> Read<String> {
    let text = text_of(&given.raw)?;
    Ok((text.to_owned(), quoted(text)))
}

pub(crate) fn choice<T: Copy>(given: &Given, all: &[(&'static str, T)]) -> Read<T> {
    let text = filled(&given.raw)?.trim();
    match all.iter().find(|(word, _)| *word == text) {
        Some((word, value)) => Ok((*value, quoted(word))),
        None => Err("it is none of the words".to_owned()),
    }
}

pub(crate) fn parsed<T>(given: &Given, parse: impl Fn(&str) -> Result<T, String>) -> Read<T> {
    let text = filled(&given.raw)?.trim();
    Ok((parse(text)?, quoted(text)))
}

pub(crate) fn list<T>(given: &Given, parse: impl Fn(&str) -> Result<T, String>) -> Read<Vec<T>> {
    let items = match &given.raw {
        Raw::List(items) => items.clone(),
        // As in the file, for texts with commas.
        Raw::Plain(text) if text.trim_start().starts_with('[') => match file::read_value(text.trim())? {
            Raw::List(items) => items,
            raw => return Err(format!("it is {}, not a list", raw.name())),
        },
        Raw::Plain(text) if text.trim().is_empty() => Vec::new(),
        Raw::Plain(text) => text
            .split(',')
            .map(|item| Raw::Text(item.trim().to_owned()))
            .collect(),
        Raw::Text(_) | Raw::Integer(_) | Raw::Boolean(_) | Raw::Other(_) => {
            return Err(format!("it is {}, not a list in brackets", given.raw.name()));
        }
    };
    let mut values = Vec::with_capacity(items.len());
    let mut written = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let of_item = |reason: String| format!("item {}: {reason}", index + 1);
        let text = filled(item).map_err(of_item)?.trim();
        values.push(parse(text).map_err(of_item)?);
        written.push(quoted(text));
    }
    Ok((values, array(written)))
}

pub(crate) fn secret(given: &Given) -> Read<Secret> {
    let text = filled(&given.raw)?;
    Ok((Secret::new(text.to_owned()), String::new()))
}
