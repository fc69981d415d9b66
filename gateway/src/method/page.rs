//! Pages of sorted lists, with cursors that name where the next page begins.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::protocol::error::RpcError;
use crate::protocol::message::Params;

/// How many entries a page has at most.
const PAGE_LEN: usize = 200;

/// One page of a list.
pub(super) struct Page<T> {
    /// Its entries.
    pub(super) entries: Vec<T>,
    /// Where the next page begins; `None` on the last one.
    pub(super) next_cursor: Option<String>,
}

/// Cuts the page that `params.cursor` asks for out of `entries`, which are sorted by `key`.
///
/// The cursor holds the list's name and the key of the last entry that was shown, so that a page goes on at the right
/// place when entries came or went in between.
///
/// # Errors
/// -32602 for a cursor that this list never gave.
pub(super) fn cut<T>(
    list: &str,
    params: &Params,
    entries: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> &str,
) -> Result<Page<T>, RpcError> {
    let after = match params.string("cursor")? {
        Some(cursor) => Some(read_cursor(list, &cursor)?),
        None => None,
    };
    let mut rest = entries
        .into_iter()
        .skip_while(|entry| after.as_deref().is_some_and(|after| key(entry) <= after));
    let entries: Vec<T> = rest.by_ref().take(PAGE_LEN).collect();
    let more = rest.next().is_some();
    let next_cursor = entries
        .last()
        .filter(|_| more)
        .map(|last| write_cursor(list, key(last)));
    Ok(Page { entries, next_cursor })
}

fn write_cursor(list: &str, last: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}\n{last}"))
}

fn read_cursor(list: &str, cursor: &str) -> Result<String, RpcError> {
    URL_SAFE_NO_PAD
        .decode(cursor)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| text.strip_prefix(list)?.strip_prefix('\n').map(str::to_owned))
        .ok_or_else(|| {
            let shown: String = cursor.chars().take(64).collect();
            RpcError::invalid_params(format!(
                "invalid cursor {shown:?}: use the nextCursor of an earlier {list}"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{self, Body, Message};

    fn params(json: &str) -> Params {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{json}}}"#);
        match message::parse(body.as_bytes()) {
            Ok(Body::Single(Message::Request(request))) => request.params,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pages_show_every_entry_once() {
        let names: Vec<String> = (0..450).map(|n| format!("{n:04}")).collect();
        let mut shown = Vec::new();
        let mut cursor = "{}".to_owned();
        loop {
            let page = cut("list", &params(&cursor), names.clone(), |name| name).unwrap();
            shown.extend(page.entries);
            match page.next_cursor {
                Some(next) => cursor = format!(r#"{{"cursor":"{next}"}}"#),
                None => break,
            }
        }
        assert_eq!(shown, names);
    }

    #[test]
    fn a_cursor_of_another_list_or_of_nobody_is_refused() {
        let foreign = write_cursor("other", "x");
        for cursor in ["bogus", "", "AAAA", foreign.as_str()] {
            let json = format!(r#"{{"cursor":"{cursor}"}}"#);
            assert!(
                cut("list", &params(&json), ["a"], |name| name).is_err(),
                "{cursor:?}"
            );
        }
        assert!(cut("list", &params(r#"{"cursor":7}"#), ["a"], |name| name).is_err());
        assert!(cut("list", &params(r#"{"cursor":null}"#), ["a"], |name| name).is_ok());
    }
}
