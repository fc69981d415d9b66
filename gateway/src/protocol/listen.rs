//! The parameters of `subscriptions/listen` and of the notification that cancels one (MCP 2026-07-28, Subscriptions).

use serde_json::value::RawValue;

use super::error::RpcError;
use super::frame::ListKind;
use super::json::Members;
use super::message::{Params, RequestId};

/// Which lists a listen wants to hear of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListFlags {
    /// `toolsListChanged`
    pub(crate) tools: bool,
    /// `promptsListChanged`
    pub(crate) prompts: bool,
    /// `resourcesListChanged`
    pub(crate) resources: bool,
}

impl ListFlags {
    /// Says whether changes of this list were asked for.
    pub(crate) fn has(self, kind: ListKind) -> bool {
        match kind {
            ListKind::Tools => self.tools,
            ListKind::Resources => self.resources,
            ListKind::Prompts => self.prompts,
        }
    }
}

/// What a client wants to hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenFilter {
    /// The lists.
    pub(crate) lists: ListFlags,
    /// `resourceSubscriptions`, as written, not empty; the same may stand there twice.
    pub(crate) uris: Vec<String>,
}

impl ListenFilter {
    /// Reads `params.notifications`. Members that are not known are passed over.
    ///
    /// # Errors
    /// -32602: it is missing or no object, a flag is no boolean, the subscriptions are no array of non-empty strings.
    pub(crate) fn read(params: &Params) -> Result<ListenFilter, RpcError> {
        let members = params.members()?;
        let filter = members
            .get("notifications")
            .and_then(|filter| Members::read(filter.get()).ok())
            .ok_or_else(|| {
                RpcError::invalid_params("subscriptions/listen requires params.notifications, an object")
            })?;
        Ok(ListenFilter {
            lists: ListFlags {
                tools: flag(&filter, "toolsListChanged")?,
                prompts: flag(&filter, "promptsListChanged")?,
                resources: flag(&filter, "resourcesListChanged")?,
            },
            uris: match filter.get("resourceSubscriptions") {
                Some(uris) => read_uris(uris)?,
                None => Vec::new(),
            },
        })
    }
}

fn flag(filter: &Members<'_>, name: &str) -> Result<bool, RpcError> {
    match filter.get(name).map(RawValue::get) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(RpcError::invalid_params(format!(
            "params.notifications.{name} must be a boolean"
        ))),
    }
}

fn read_uris(raw: &RawValue) -> Result<Vec<String>, RpcError> {
    serde_json::from_str::<Vec<String>>(raw.get())
        .ok()
        .filter(|uris| uris.iter().all(|uri| !uri.is_empty()))
        .ok_or_else(|| {
            RpcError::invalid_params(
                "params.notifications.resourceSubscriptions must be an array of non-empty strings",
            )
        })
}

/// Returns the request that a `notifications/cancelled` names; `None` if it names none.
pub(crate) fn cancelled_request(params: &Params) -> Option<RequestId> {
    RequestId::read(params.members().ok()?.get("requestId")?)
}

#[cfg(test)]
mod tests {
    use super::super::error::INVALID_PARAMS;
    use super::super::message::{Body, Message, parse};
    use super::{ListFlags, ListenFilter, Params, cancelled_request};

    fn params(params: &str) -> Params {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
        match parse(body.as_bytes()) {
            Ok(Body::Single(Message::Request(request))) => request.params,
            other => panic!("{body} is no request: {other:?}"),
        }
    }

    #[test]
    fn b_6_3_a_filter_is_an_object_of_flags_and_uris() {
        let check = |filter: &str, tools: bool, uris: &[&str]| {
            let expected = ListenFilter {
                lists: ListFlags {
                    tools,
                    ..ListFlags::default()
                },
                uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
            };
            let params = params(&format!(r#"{{"notifications":{filter}}}"#));
            assert_eq!(ListenFilter::read(&params), Ok(expected), "{filter}");
        };
        check("{}", false, &[]);
        check(
            r#"{"toolsListChanged":true,"promptsListChanged":false,"com.example/x":7}"#,
            true,
            &[],
        );
        check(r#"{"resourceSubscriptions":[]}"#, false, &[]);
        check(
            r#"{"resourceSubscriptions":["a","\u0061","b"]}"#,
            false,
            &["a", "a", "b"],
        );

        for refused in [
            "null",
            "{}",
            "[]",
            r#"{"notifications":null}"#,
            r#"{"notifications":[]}"#,
            r#"{"notifications":"all"}"#,
            r#"{"notifications":{"toolsListChanged":null}}"#,
            r#"{"notifications":{"promptsListChanged":1}}"#,
            r#"{"notifications":{"resourcesListChanged":"true"}}"#,
            r#"{"notifications":{"toolsListChanged":true,"toolsListChanged":false}}"#,
            r#"{"notifications":{"resourceSubscriptions":null}}"#,
            r#"{"notifications":{"resourceSubscriptions":"a"}}"#,
            r#"{"notifications":{"resourceSubscriptions":{}}}"#,
            r#"{"notifications":{"resourceSubscriptions":["a",7]}}"#,
            r#"{"notifications":{"resourceSubscriptions":["a",null]}}"#,
            r#"{"notifications":{"resourceSubscriptions":[""]}}"#,
        ] {
            let error = ListenFilter::read(&params(refused)).unwrap_err();
            assert_eq!(error.code, INVALID_PARAMS, "{refused}");
        }
    }

    #[test]
    fn a_cancellation_names_a_request() {
        let named = |text: &str| cancelled_request(&params(text)).map(|id| id.to_string());
        assert_eq!(
            named(r#"{"requestId":"1","reason":"x"}"#).as_deref(),
            Some("\"1\"")
        );
        assert_eq!(named(r#"{"requestId":1}"#).as_deref(), Some("1"));
        for nothing in [
            "null",
            "{}",
            "[]",
            r#"{"requestId":null}"#,
            r#"{"requestId":1.5}"#,
        ] {
            assert_eq!(named(nothing), None, "{nothing}");
        }
    }
}
