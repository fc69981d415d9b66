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
            Some(value) if has_password(value) => {
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

/// Whether a value has an address with a password in it. Any other is printed as it is, whatever signs it has, since it is to be read
/// back.
fn has_password(value: &str) -> bool {
    value.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '"', '\'', ' ']).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.is_some_and(|user| user.contains(':'))
    })
}

#[cfg(test)]
mod tests {
    use super::has_password;

    #[test]
    fn only_an_address_with_a_password_is_not_printed() {
        for value in [
            "\"http://u:p@host\"",
            "[\"a\", \"http://u:p@host:1/x\"]",
            "x http://:p@h",
        ] {
            assert!(has_password(value), "{value}");
        }
        for value in [
            "\":@\"",
            "\"a: b@c\"",
            "\"http://host:1/a@b\"",
            "\"http://u@host:1\"",
            "\"mail a:b@c\"",
            "",
        ] {
            assert!(!has_password(value), "{value}");
        }
    }
}
