//! Declaring keys and reading their values, in one statement each.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::codec;
use crate::declaration::{Declaration, Flag};
use crate::duration;
use crate::mistake::{Mistake, shown};
use crate::origin::{Given, Origin};
use crate::secret::Secret;
use crate::size;
use crate::toml_text::{array, quoted};

/// What a program is configured by.
pub trait Settings: Sized {
    /// Declares every key and makes the settings of their values.
    ///
    /// It is run more than once, the first time without values, so it must declare the same keys whatever they hold, and do
    /// nothing else.
    fn declare(keys: &mut Keys) -> Self;
}

/// The keys of a program while they are declared and read.
#[derive(Debug)]
pub struct Keys {
    group: Option<Group>,
    declarations: Vec<Declaration>,
    /// `None`: the keys are only declared, and every value is its default.
    reading: Option<Reading>,
}

/// A part of another program, with all its keys below one name.
#[derive(Clone, Copy, Debug)]
struct Group {
    name: &'static str,
    /// The keys that have a flag of their own here, by their name without the group's.
    flags: &'static [(&'static str, &'static str)],
}

/// What was given, as far as it was not read yet, and what came of the rest.
#[derive(Debug)]
struct Reading {
    /// For each key the strongest source first.
    given: BTreeMap<String, Vec<Given>>,
    settings: Vec<Setting>,
    mistakes: Vec<Mistake>,
}

/// The value that counts for a key.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) declaration: Declaration,
    /// As TOML; `None`: not set.
    pub(crate) value: Option<String>,
    pub(crate) origin: Origin,
    /// Something that was given for it is wrong, and was told.
    is_mistaken: bool,
}

impl Keys {
    /// Makes keys that are only declared.
    pub(crate) fn declaring() -> Keys {
        Keys {
            group: None,
            declarations: Vec::new(),
            reading: None,
        }
    }

    /// Makes keys that take what was given.
    pub(crate) fn reading(given: Vec<Given>) -> Keys {
        let mut mistakes = Vec::new();
        let mut by_key: BTreeMap<String, Vec<Given>> = BTreeMap::new();
        for given in given {
            let earlier = by_key.entry(given.key.clone()).or_default();
            // The parser of the file tells it of the file.
            match earlier
                .iter()
                .find(|other| other.origin.strength() == given.origin.strength())
            {
                Some(first) => mistakes.push(Mistake::new(
                    given.origin,
                    given.key,
                    format!("it is given twice, first by {}", first.origin),
                )),
                None => earlier.push(given),
            }
        }
        for given in by_key.values_mut() {
            given.sort_by_key(|given| u8::MAX - given.origin.strength());
        }
        Keys {
            group: None,
            declarations: Vec::new(),
            reading: Some(Reading {
                given: by_key,
                settings: Vec::new(),
                mistakes,
            }),
        }
    }

    pub(crate) fn into_declarations(self) -> Vec<Declaration> {
        self.declarations
    }

    /// Returns the settings that count, in the order of their declaration, and all mistakes.
    pub(crate) fn into_settings(self) -> (Vec<Setting>, Vec<Mistake>) {
        let reading = self.reading.map(|reading| (reading.settings, reading.mistakes));
        reading.unwrap_or_default()
    }

    /// Begins the declaration of a key. `name` is dotted: `session.idle_timeout`; `doc` is whole sentences in Markdown.
    pub fn key(&mut self, name: &'static str, doc: &'static str) -> Field<'_> {
        Field {
            name,
            doc,
            flag: None,
            example: None,
            keys: self,
        }
    }

    /// Declares the keys of another program below `group`. Of their flags only those in `flags` are kept, as pairs of the
    /// key's name there and the flag's name here.
    pub fn within<T>(
        &mut self,
        group: &'static str,
        flags: &'static [(&'static str, &'static str)],
        declare: impl FnOnce(&mut Keys) -> T,
    ) -> T {
        debug_assert!(self.group.is_none(), "groups are not nested");
        self.group = Some(Group { name: group, flags });
        let declared = declare(self);
        self.group = None;
        declared
    }

    /// Tells a mistake about the value of a key unless a condition holds: for what depends on more than the value alone.
    /// `reason` says what is wrong and what is allowed.
    pub fn check(&mut self, name: &str, holds: bool, reason: impl Into<String>) {
        let key = self.full_name(name);
        let Some(reading) = self.reading.as_mut().filter(|_| !holds) else {
            return;
        };
        let setting = reading
            .settings
            .iter_mut()
            .find(|setting| setting.declaration.key == key);
        debug_assert!(setting.is_some(), "{key} is declared before it is checked");
        if let Some(setting) = setting.filter(|setting| !setting.is_mistaken) {
            setting.is_mistaken = true;
            let value = match (&setting.value, setting.declaration.is_secret) {
                (Some(value), false) => format!("{key} = {}", shown(value)),
                (Some(_), true) | (None, _) => key,
            };
            let mistake = Mistake::new(setting.origin.clone(), value, reason);
            reading.mistakes.push(mistake);
        }
    }

    fn full_name(&self, name: &str) -> String {
        match &self.group {
            Some(group) => format!("{}.{name}", group.name),
            None => name.to_owned(),
        }
    }
}

/// A key whose kind is still to be said; the last call of the chain says it, declares the key and returns its value.
#[derive(Debug)]
pub struct Field<'a> {
    name: &'static str,
    doc: &'static str,
    flag: Option<Flag>,
    example: Option<String>,
    keys: &'a mut Keys,
}

/// What the last call of a chain says of a key.
struct Kind {
    allowed: String,
    /// As TOML.
    default: Option<String>,
    is_secret: bool,
    is_switch: bool,
    is_path: bool,
}

impl Kind {
    fn new(allowed: impl Into<String>, default: Option<String>) -> Kind {
        Kind {
            allowed: allowed.into(),
            default,
            is_secret: false,
            is_switch: false,
            is_path: false,
        }
    }
}

impl Field<'_> {
    /// Gives the key a flag of its own, `--name VALUE_NAME`.
    pub fn flag(mut self, name: &'static str, value_name: &'static str) -> Self {
        self.flag = Some(Flag { name, value_name });
        self
    }

    /// Gives the sample file something to show where there is no default.
    pub fn example(mut self, text: &str) -> Self {
        self.example = Some(quoted(text));
        self
    }

    /// A truth value; its flag may stand alone.
    pub fn switch(self, default: bool) -> bool {
        let kind = Kind {
            is_switch: true,
            ..Kind::new("true or false", Some(default.to_string()))
        };
        self.pick(kind, codec::switch).unwrap_or(default)
    }

    /// A number of things.
    pub fn count<T>(self, default: T, range: RangeInclusive<T>) -> T
    where
        T: Copy + PartialOrd + Display + TryFrom<i128>,
    {
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        let kind = Kind::new(allowed, Some(default.to_string()));
        self.pick(kind, |given| codec::count(given, &range))
            .unwrap_or(default)
    }

    /// A number of bytes, with or without a binary unit.
    pub fn bytes(self, default: usize, range: RangeInclusive<usize>) -> usize {
        let write = |bytes: &usize| size::write(*bytes as u64);
        let allowed = format!(
            "a size from {} to {}, as in 1048576 or \"64 MiB\"",
            write(range.start()),
            write(range.end())
        );
        let kind = Kind::new(allowed, Some(quoted(&write(&default))));
        self.pick(kind, |given| codec::bytes(given, &range))
            .unwrap_or(default)
    }

    /// A length of time, with its unit.
    pub fn duration(self, default: Duration, range: RangeInclusive<Duration>) -> Duration {
        let allowed = format!(
            "a duration from {} to {}, as in \"500ms\", \"30s\", \"5m\", \"1h\" or \"7d\"",
            duration::write(*range.start()),
            duration::write(*range.end())
        );
        let kind = Kind::new(allowed, Some(quoted(&duration::write(default))));
        self.pick(kind, |given| codec::duration(given, &range))
            .unwrap_or(default)
    }

    /// An address to listen on.
    pub fn address(self, default: SocketAddr) -> SocketAddr {
        let kind = Kind::new(codec::ADDRESS, Some(quoted(&default.to_string())));
        self.pick(kind, codec::address).unwrap_or(default)
    }

    /// A file or directory. A relative one is relative to the directory of the file that it stands in, or else to the
    /// working directory.
    pub fn path(self, default: &str) -> PathBuf {
        let kind = Kind {
            is_path: true,
            ..Kind::new(codec::PATH, Some(quoted(default)))
        };
        self.pick(kind, codec::path)
            .unwrap_or_else(|| PathBuf::from(default))
    }

    /// A file or directory that need not be named; see [`Field::path`].
    pub fn optional_path(self) -> Option<PathBuf> {
        self.pick(Kind::new(codec::PATH, None), codec::path)
    }

    /// Any text.
    pub fn text(self, default: &str) -> String {
        let kind = Kind::new(codec::TEXT, Some(quoted(default)));
        self.pick(kind, codec::text).unwrap_or_else(|| default.to_owned())
    }

    /// Any text, or none.
    pub fn optional_text(self) -> Option<String> {
        self.pick(Kind::new(codec::TEXT, None), codec::text)
    }

    /// One of a few words, each of which stands for a value.
    pub fn choice<T: Copy>(self, default: (&'static str, T), others: &[(&'static str, T)]) -> T {
        let all: Vec<(&str, T)> = std::iter::once(default).chain(others.iter().copied()).collect();
        let words: Vec<String> = all.iter().map(|(word, _)| quoted(word)).collect();
        let kind = Kind::new(words.join(" or "), Some(quoted(default.0)));
        self.pick(kind, |given| codec::choice(given, &all))
            .unwrap_or(default.1)
    }

    /// A text with a form of its own. `default` is a text and what it is read as, `allowed` says the form, `parse` what is
    /// wrong with a text.
    pub fn parsed<T>(
        self,
        default: (&str, T),
        allowed: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        let kind = Kind::new(allowed, Some(quoted(default.0)));
        self.pick(kind, |given| codec::parsed(given, &parse))
            .unwrap_or(default.1)
    }

    /// A text with a form of its own, or none; see [`Field::parsed`].
    pub fn optional_parsed<T>(self, allowed: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        self.pick(Kind::new(allowed, None), |given| codec::parsed(given, &parse))
    }

    /// A list of texts with a form of their own; see [`Field::parsed`].
    pub fn list<T>(
        self,
        default: Vec<T>,
        allowed_item: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T>
    where
        T: Display,
    {
        let allowed = format!(
            "a list of texts, each {allowed_item}; on the command line and in the environment with commas"
        );
        let written = array(default.iter().map(|item| quoted(&item.to_string())));
        let kind = Kind::new(allowed, Some(written));
        self.pick(kind, |given| codec::list(given, &parse))
            .unwrap_or(default)
    }

    /// A text that is never shown. It has no flag of its own: a command line can be read by others.
    pub fn secret(self) -> Option<Secret> {
        debug_assert!(self.flag.is_none(), "a secret has no flag");
        let kind = Kind {
            is_secret: true,
            ..Kind::new("a text that is not empty", None)
        };
        self.pick(kind, codec::secret)
    }

    /// Declares the key; returns its value if one was given that can be read.
    fn pick<T>(self, kind: Kind, read: impl Fn(&Given) -> Result<(T, String), String>) -> Option<T> {
        let (key, flag) = match self.keys.group {
            None => (self.name.to_owned(), self.flag),
            Some(group) => {
                let kept = group.flags.iter().find(|(name, _)| *name == self.name);
                let value_name = self.flag.map_or("VALUE", |flag| flag.value_name);
                let flag = kept.map(|(_, name)| Flag { name, value_name });
                (self.keys.full_name(self.name), flag)
            }
        };
        let declaration = Declaration {
            key,
            doc: self.doc,
            allowed: kind.allowed,
            default: kind.default,
            example: self.example,
            flag,
            is_secret: kind.is_secret,
            is_switch: kind.is_switch,
        };
        debug_assert!(
            self.keys
                .declarations
                .iter()
                .all(|other| other.key != declaration.key),
            "{} is declared twice",
            declaration.key
        );
        let value = match &mut self.keys.reading {
            Some(reading) => {
                let picked = reading.pick(&declaration, read);
                if kind.is_path {
                    reading.place_default();
                }
                picked
            }
            None => None,
        };
        self.keys.declarations.push(declaration);
        value
    }
}

impl Reading {
    /// Writes the default of the key that was read last as an absolute path: see [`codec::path`].
    fn place_default(&mut self) {
        if let Some(setting) = self.settings.last_mut()
            && setting.origin == Origin::Default
            && let Some(default) = &setting.value
            && let Ok(absolute) = std::path::absolute(default.trim_matches('"'))
        {
            setting.value = Some(quoted(&absolute.to_string_lossy()));
        }
    }

    /// Reads all that was given for a key, since a wrong value is a mistake also where a stronger one counts.
    fn pick<T>(
        &mut self,
        declaration: &Declaration,
        read: impl Fn(&Given) -> Result<(T, String), String>,
    ) -> Option<T> {
        let mut setting = Setting {
            declaration: declaration.clone(),
            value: declaration.default.clone(),
            origin: Origin::Default,
            is_mistaken: false,
        };
        let mut strongest = None;
        for given in self.given.remove(&declaration.key).unwrap_or_default() {
            match read(&given) {
                Ok((value, written)) if strongest.is_none() => {
                    strongest = Some(value);
                    setting.value = Some(written);
                    setting.origin = given.origin;
                }
                Ok(_weaker) => {}
                Err(reason) => {
                    setting.is_mistaken = true;
                    let subject = if declaration.is_secret {
                        declaration.key.clone()
                    } else {
                        format!("{} = {}", declaration.key, shown(&given.shown))
                    };
                    let reason = format!("{reason}; allowed: {}", declaration.allowed);
                    self.mistakes.push(Mistake::new(given.origin, subject, reason));
                }
            }
        }
        self.settings.push(setting);
        strongest
    }
}
