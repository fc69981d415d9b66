//! What the environment and `--set` give.

use std::ffi::{OsStr, OsString};

use crate::declaration::{Declaration, VARIABLE_PREFIX};
use crate::file::{not_a_value, unknown};
use crate::mistake::{Mistake, shown};
use crate::origin::{Given, Origin, Raw};
use crate::suggestion::closest;

/// The variable that names the configuration file.
pub(crate) const FILE_VARIABLE: &str = "TIDEGATE_CONFIG";

/// Sorts the variables of this product into values and mistakes; leaves all others alone.
pub(crate) fn environment(
    variables: impl Iterator<Item = (OsString, OsString)>,
    declarations: &[Declaration],
    given: &mut Vec<Given>,
    mistakes: &mut Vec<Mistake>,
) {
    for (name, value) in variables {
        let name = name.to_string_lossy().into_owned();
        if !name.starts_with(VARIABLE_PREFIX) || name == FILE_VARIABLE {
            continue;
        }
        let origin = Origin::Environment(name.clone());
        let Some(declaration) = declarations
            .iter()
            .find(|declaration| declaration.variable() == name)
        else {
            mistakes.push(Mistake::new(origin, "", no_variable(&name, declarations)));
            continue;
        };
        match plain(&value) {
            Ok((raw, shown)) => given.push(Given {
                key: declaration.key.clone(),
                raw,
                shown,
                origin,
            }),
            Err(reason) => mistakes.push(Mistake::new(origin, declaration.key.clone(), reason)),
        }
    }
}

fn no_variable(name: &str, declarations: &[Declaration]) -> String {
    let key = name[VARIABLE_PREFIX.len()..]
        .to_ascii_lowercase()
        .replace("__", ".");
    let group = format!("{key}.");
    if declarations
        .iter()
        .any(|declaration| declaration.key.starts_with(&group))
    {
        return not_a_value(&key, declarations);
    }
    let meant = closest(
        &key,
        declarations.iter().map(|declaration| declaration.key.as_str()),
    );
    let meant = declarations
        .iter()
        .find(|declaration| Some(declaration.key.as_str()) == meant);
    match meant {
        Some(declaration) => format!("there is no such key; did you mean {}?", declaration.variable()),
        None => "there is no such key".to_owned(),
    }
}

/// Reads a `KEY=VALUE` of `--set`.
pub(crate) fn set(
    pair: &OsStr,
    declarations: &[Declaration],
    given: &mut Vec<Given>,
    mistakes: &mut Vec<Mistake>,
) {
    let origin = Origin::Flag("--set".to_owned());
    let Some(pair) = pair.to_str() else {
        mistakes.push(Mistake::new(origin, "", NOT_UTF8));
        return;
    };
    let Some((key, value)) = pair.split_once('=') else {
        let reason = "it has no `=`, write --set KEY=VALUE";
        mistakes.push(Mistake::new(origin, shown(pair), reason));
        return;
    };
    let key = key.trim();
    let group = format!("{key}.");
    if declarations.iter().any(|declaration| declaration.key == key) {
        given.push(Given {
            key: key.to_owned(),
            raw: Raw::Plain(value.to_owned()),
            shown: value.to_owned(),
            origin,
        });
    } else if declarations
        .iter()
        .any(|declaration| declaration.key.starts_with(&group))
    {
        mistakes.push(Mistake::new(origin, shown(key), not_a_value(key, declarations)));
    } else {
        mistakes.push(Mistake::new(origin, shown(key), unknown(key, declarations)));
    }
}

const NOT_UTF8: &str = "it is not UTF-8";

/// Reads a value of the command line or the environment.
pub(crate) fn plain(value: &OsStr) -> Result<(Raw, String), String> {
    let text = value.to_str().ok_or(NOT_UTF8)?;
    Ok((Raw::Plain(text.to_owned()), text.to_owned()))
}
