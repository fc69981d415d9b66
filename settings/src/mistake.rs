//! What is wrong with what was given: one line each, told all together.

use std::fmt;

use crate::origin::Origin;

/// How many mistakes are told one by one; who has more begins with these.
const TOLD_MAX: usize = 50;

/// The longest text of a value that a message repeats, in characters.
const SHOWN_CHARS: usize = 60;

/// One thing that is wrong; its text is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it was given.
    pub origin: Origin,
    /// The key with its value, or what else it is about.
    pub subject: String,
    /// What is wrong, and what is allowed.
    pub reason: String,
}

impl Mistake {
    pub(crate) fn new(origin: Origin, subject: impl Into<String>, reason: impl Into<String>) -> Mistake {
        Mistake {
            origin,
            subject: masked(&subject.into()),
            reason: masked(&reason.into()),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.subject.is_empty() {
            write!(formatter, "{}: {}", self.origin, self.reason)
        } else {
            write!(formatter, "{}: {}: {}", self.origin, self.subject, self.reason)
        }
    }
}

/// All mistakes of a start, in the order of their sources: flags, environment, file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// Returns the mistakes in order, `None` if there are none.
    pub(crate) fn of(mut mistakes: Vec<Mistake>) -> Option<Mistakes> {
        let line = |mistake: &Mistake| match mistake.origin {
            Origin::File { line, .. } => line,
            Origin::Default | Origin::Environment(_) | Origin::Flag(_) => 0,
        };
        // Stable, so those of one line and those of the command line stay as they were found.
        mistakes.sort_by_key(|mistake| (u8::MAX - mistake.origin.strength(), line(mistake)));
        (!mistakes.is_empty()).then_some(Mistakes(mistakes))
    }

    /// Returns them.
    pub fn as_slice(&self) -> &[Mistake] {
        &self.0
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(formatter, "cannot read the configuration: {only}");
        }
        write!(
            formatter,
            "cannot read the configuration, it has {} mistakes:",
            self.0.len()
        )?;
        for mistake in self.0.iter().take(TOLD_MAX) {
            write!(formatter, "\n  {mistake}")?;
        }
        match self.0.len().saturating_sub(TOLD_MAX) {
            0 => Ok(()),
            more => write!(formatter, "\n  … and {more} more"),
        }
    }
}

impl std::error::Error for Mistakes {}

/// Returns a text without what may be the user and password of an address in it: whatever stands between `://` and the last `@`, or before an
/// `@` with a `:` in it. Too much rather than too little.
pub fn masked(text: &str) -> String {
    let Some((before, host)) = text.rsplit_once('@') else {
        return text.to_owned();
    };
    let kept = match before.find("://") {
        Some(scheme) => before.get(..scheme + "://".len()),
        None => {
            let is_outside = |character: char| character.is_whitespace() || "\"'`=,".contains(character);
            let kept = before.trim_end_matches(|character| !is_outside(character));
            before
                .get(kept.len()..)
                .is_some_and(|user| user.contains(':'))
                .then_some(kept)
        }
    };
    match kept {
        Some(kept) => format!("{kept}…@{host}"),
        None => text.to_owned(),
    }
}

/// Returns a text that a message repeats: on one line, without control characters and passwords of addresses, not too long.
pub(crate) fn shown(text: &str) -> String {
    // Before it is cut: what is cut off may be what tells an address from another text.
    let text = masked(text);
    let mut shown = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == SHOWN_CHARS {
            shown.push('…');
            break;
        }
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(number: usize) -> Mistake {
        Mistake::new(Origin::Flag("--set".into()), format!("key{number}"), "wrong")
    }

    #[test]
    fn one_mistake_is_one_line_and_more_are_a_block() {
        let one = Mistakes::of(vec![mistake(1)]).unwrap().to_string();
        assert_eq!(one, "cannot read the configuration: --set: key1: wrong");
        let two = Mistakes::of(vec![mistake(1), mistake(2)]).unwrap().to_string();
        assert_eq!(
            two,
            "cannot read the configuration, it has 2 mistakes:\n  --set: key1: wrong\n  --set: key2: wrong"
        );
        assert!(Mistakes::of(Vec::new()).is_none());
    }

    #[test]
    fn a_password_in_an_address_is_not_told() {
        for (text, expected) in [
            ("http://127.0.0.1:9928", "http://127.0.0.1:9928"),
            ("http://user:hunter2@host:1/x", "http://…@host:1/x"),
            ("http://hunter2@host", "http://…@host"),
            (
                "feed.url = \"http://u:hunter2@host\"",
                "feed.url = \"http://…@host\"",
            ),
            // No right address, and a secret all the same.
            ("http://user:hunter2/@?#@host", "http://…@host"),
            ("http://user:hun ter2@host", "http://…@host"),
            ("user:hunter2@host:1", "…@host:1"),
            ("a = \"user:hunter2@host:1\"", "a = \"…@host:1\""),
            ("http://u:hunter2@a, http://u:hunter2@b", "http://…@b"),
            ("me@example.org", "me@example.org"),
            ("10:30 me@example.org", "10:30 me@example.org"),
        ] {
            assert_eq!(masked(text), expected);
            assert_eq!(masked(&masked(text)), expected);
            assert!(!shown(text).contains("hunter2"));
        }
        let long = format!("http://user:hunter2{}@host", "x".repeat(SHOWN_CHARS));
        assert_eq!(shown(&long), "http://…@host");
        let told = Mistake::new(Origin::Default, "k", "`u:hunter2@h` is wrong").to_string();
        assert!(!told.contains("hunter2"), "{told}");
    }

    #[test]
    fn what_is_told_is_bounded() {
        let many = Mistakes::of((0..1_000).map(mistake).collect())
            .unwrap()
            .to_string();
        assert_eq!(many.lines().count(), 52);
        assert!(many.ends_with("… and 950 more"), "{many}");
        let long = shown(&"x\n".repeat(10_000));
        assert!(long.chars().count() < 100 && !long.contains('\n'), "{long}");
    }
}
