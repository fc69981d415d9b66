//! `--print-config`: what counts for every key, and where it comes from.

use std::fmt::Write;

use crate::keys::Setting;
use crate::mistake::masked;

/// Writes the settings as TOML that can be fed back; a secret, an address with a password and what is not set stand in comments.
pub(crate) fn print(settings: &[Setting]) -> String {
    let mut text = String::new();
    for setting in settings {
        let (key, origin) = (&setting.declaration.key, &setting.origin);
        let origin = origin.to_string();
        let origin = crate::mistake::shown(&origin);
        // Writing to a String cannot fail.
        let _ = match &setting.value {
            Some(_) if setting.declaration.is_secret => writeln!(text, "# {key} = (secret)  # {origin}"),
            Some(value) if masked(value) != *value => {
                writeln!(
                    text,
                    "# {key} = {}  # {origin}, without its password",
                    masked(value)
                )
            }
            Some(value) => writeln!(text, "{key} = {value}  # {origin}"),
            None => writeln!(text, "# {key} is not set"),
        };
    }
    text
}
