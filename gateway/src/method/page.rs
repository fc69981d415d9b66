//! Pages of sorted lists, with cursors that name where the next page begins.

use super::seal::{self, Binding};
use super::{Call, Failure};
use crate::protocol::error::RpcError;
use crate::protocol::message::Params;

/// How many entries a page has at most.
const PAGE_LEN: usize = 200;

/// The beginning of a row's URI, up to the host and port by which an instance is reached; these differ between instances unless
/// one public name is configured, so a cursor does not hold them.
const ROW_SCHEME: &str = "feed+rest://";

/// One page of a list.
pub(super) struct Page<T> {
    /// Its entries.
    pub(super) entries: Vec<T>,
    /// Where the next page begins; `None` on the last one.
    pub(super) next_cursor: Option<String>,
}

/// Cuts the page that `params.cursor` asks for out of `entries`, which are sorted by `key`.
///
/// The cursor holds the key of the last entry that was shown, so that a page goes on at the right place when entries came or
/// went in between. It is sealed for the list and the principal, and any instance takes it.
///
/// # Errors
/// -32602 for a cursor that this principal never got for this list, or that is older than a day.
pub(super) async fn cut<T>(
    call: &Call<'_>,
    list: &str,
    params: &Params,
    entries: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> &str,
) -> Result<Page<T>, Failure> {
    let binding = Binding {
        purpose: list,
        principal: call.principal,
    };
    let after = match params.string("cursor")? {
        Some(cursor) => {
            let opened = seal::open(call.keyring, binding, &cursor).await?;
            let opened = opened.ok_or_else(|| refuse(list, &cursor))?;
            Some(with_authority(call.authority, opened))
        }
        None => None,
    };
    let (entries, next) = select(after.as_deref(), entries, &key);
    let next_cursor = match next {
        Some(last) => {
            Some(seal::seal(call.keyring, binding, &without_authority(call.authority, last)).await?)
        }
        None => None,
    };
    Ok(Page { entries, next_cursor })
}

/// Returns a page's entries, and the key of its last one if there are more.
fn select<T>(
    after: Option<&str>,
    entries: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> &str,
) -> (Vec<T>, Option<String>) {
    let mut rest = entries
        .into_iter()
        .skip_while(|entry| after.is_some_and(|after| key(entry) <= after));
    let entries: Vec<T> = rest.by_ref().take(PAGE_LEN).collect();
    let more = rest.next().is_some();
    let next = entries.last().filter(|_| more).map(|last| key(last).to_owned());
    (entries, next)
}

/// Takes an instance's own host and port out of a key.
fn without_authority(authority: &str, key: String) -> String {
    let rest = key
        .strip_prefix(ROW_SCHEME)
        .and_then(|rest| rest.strip_prefix(authority)?.strip_prefix('/'));
    rest.map(|rest| format!("{ROW_SCHEME}/{rest}")).unwrap_or(key)
}

/// Puts them in again where [`without_authority`] took them out.
fn with_authority(authority: &str, key: String) -> String {
    let rest = key
        .strip_prefix(ROW_SCHEME)
        .and_then(|rest| rest.strip_prefix('/'));
    rest.map(|rest| format!("{ROW_SCHEME}{authority}/{rest}"))
        .unwrap_or(key)
}

fn refuse(list: &str, cursor: &str) -> RpcError {
    let shown: String = cursor.chars().take(64).collect();
    RpcError::invalid_params(format!(
        "invalid cursor {shown:?}: use the nextCursor of an earlier {list}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_that_of_the_same_entry_on_every_instance() {
        for (key, elsewhere) in [
            ("feed+rest://a:1/Item", "feed+rest://b:2/Item"),
            ("feed+rest://a:1/Item/{key}", "feed+rest://b:2/Item/{key}"),
            ("feed+rest://a:12/Item", "feed+rest://a:12/Item"),
            (
                "feed://schema/{database}/{table}",
                "feed://schema/{database}/{table}",
            ),
            ("", ""),
        ] {
            let kept = without_authority("a:1", key.to_owned());
            assert_eq!(with_authority("b:2", kept.clone()), elsewhere);
            assert_eq!(with_authority("a:1", kept), key);
        }
    }

    #[test]
    fn pages_show_every_entry_once() {
        let names: Vec<String> = (0..450).map(|n| format!("{n:04}")).collect();
        let mut shown = Vec::new();
        let mut after = None;
        loop {
            let (entries, next) = select(after.as_deref(), names.clone(), |name| name);
            shown.extend(entries);
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(shown, names);
    }
}
