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
            subject: subject.into(),
            reason: reason.into(),
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

/// Returns a text that a message repeats: on one line, without control characters, not too long.
pub(crate) fn shown(text: &str) -> String {
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
