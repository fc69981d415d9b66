//! What a key is: everything that help, reference page and sample file say of it.

use crate::keys::{Keys, Settings};

/// One key, as its program declared it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Dotted, for example `session.idle_timeout`.
    pub key: String,
    /// One sentence or more on what it does.
    pub doc: &'static str,
    /// What a value may be, in words.
    pub allowed: String,
    /// As TOML; `None`: not set.
    pub default: Option<String>,
    /// As TOML, for the sample file where there is no default.
    pub example: Option<String>,
    /// The flag of its own, where it has one.
    pub flag: Option<Flag>,
    /// Its value is never shown.
    pub is_secret: bool,
    /// Its flag may stand without a value, which means `true`.
    pub is_switch: bool,
}

/// A flag of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Without the dashes.
    pub name: &'static str,
    /// What stands for the value in the help, for example `ADDRESS`.
    pub value_name: &'static str,
}

/// What the names of all environment variables begin with.
pub(crate) const VARIABLE_PREFIX: &str = "TIDEGATE_";

impl Declaration {
    /// Returns the name of the environment variable.
    pub fn variable(&self) -> String {
        format!(
            "{VARIABLE_PREFIX}{}",
            self.key.replace('.', "__").to_ascii_uppercase()
        )
    }

    /// Returns the value that the sample file shows.
    pub(crate) fn sample_value(&self) -> &str {
        let given = self.default.as_deref().or(self.example.as_deref());
        given.unwrap_or(if self.is_secret { "\"change me\"" } else { "\"\"" })
    }
}

/// Returns the keys of a program in the order of their declaration.
pub fn declarations<S: Settings>() -> Vec<Declaration> {
    let mut keys = Keys::declaring();
    // The settings themselves are those of a start with nothing given.
    let _ = S::declare(&mut keys);
    keys.into_declarations()
}
