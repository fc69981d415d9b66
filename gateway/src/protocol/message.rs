//! JSON-RPC 2.0 messages as they come from a client.
//!
//! The rules are those of MCP 2025-11-25, Overview, Messages, and of the rules B-2.4 and B-2.5: an id is a string or an
//! integer and never null, and a duplicate key in the envelope, `params` or `params._meta` refuses the message. What
//! lies deeper stays raw text for whoever reads it.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde_json::Value;
use serde_json::value::RawValue;

use super::error::RpcError;
use super::json::{self, Elements, JsonRefusal, Kind, Members, MembersError};

/// The body of one POST.
#[derive(Debug)]
pub(crate) enum Body {
    /// One message.
    Single(Message),
    /// An array of 1 to 100 entries, in order; whether the era has batches is decided elsewhere.
    Batch(Vec<Result<Message, Refusal>>),
}

/// One message of a client.
#[derive(Debug)]
pub(crate) enum Message {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification(Notification),
    /// Answers a request of this server.
    Response(Response),
}

impl Message {
    /// Returns the arguments; a response has none.
    pub(crate) fn params(&self) -> Option<&Params> {
        match self {
            Message::Request(request) => Some(&request.params),
            Message::Notification(notification) => Some(&notification.params),
            Message::Response(_) => None,
        }
    }
}

/// A method call that is to be answered under its id.
#[derive(Debug)]
pub(crate) struct Request {
    /// The client's own number for it.
    pub(crate) id: RequestId,
    /// Any text; whether it is served is decided elsewhere.
    pub(crate) method: String,
    /// Its arguments.
    pub(crate) params: Params,
}

/// A method call without an answer.
#[derive(Debug)]
pub(crate) struct Notification {
    /// Any text; whether it is known is decided elsewhere.
    pub(crate) method: String,
    /// Its arguments.
    pub(crate) params: Params,
}

/// A client's answer to a request of this server.
#[derive(Debug)]
pub(crate) struct Response {
    /// Absent only where the client could not read the id of what it refuses.
    pub(crate) id: Option<RequestId>,
    /// What it answers.
    pub(crate) outcome: Result<Box<RawValue>, RpcError>,
}

/// Why a body or an entry of a batch is no message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    /// What to answer.
    pub(crate) error: RpcError,
    /// The id to answer under, where one could be read.
    pub(crate) id: Option<RequestId>,
}

/// Reads the body of a POST.
///
/// # Errors
/// -32700 without an id: not JSON, not UTF-8, or nested too deeply. -32600: no JSON-RPC message, an empty batch, or
/// one with more than 100 entries. A refused entry of a batch does not refuse the batch.
pub(crate) fn parse(bytes: &[u8]) -> Result<Body, Refusal> {
    let text = json::check(bytes).map_err(Refusal::from)?;
    match Kind::of(text) {
        Kind::Array => parse_batch(text).map(Body::Batch),
        _ => parse_message(text).map(Body::Single),
    }
}

fn parse_batch(text: &str) -> Result<Vec<Result<Message, Refusal>>, Refusal> {
    let Elements { kept, count } = Elements::read(text).map_err(Refusal::from)?;
    if count == 0 {
        return Err(Refusal::invalid("a batch must not be empty"));
    }
    if count > Elements::MAX_KEPT {
        return Err(Refusal::invalid(format!(
            "a batch has at most {} entries",
            Elements::MAX_KEPT
        )));
    }
    Ok(kept.into_iter().map(|entry| parse_message(entry.get())).collect())
}

fn parse_message(text: &str) -> Result<Message, Refusal> {
    let envelope = Members::read_with_duplicates(text).map_err(Refusal::from)?;
    let id = read_id(&envelope);
    read_envelope(&envelope, &id).map_err(|error| Refusal {
        error,
        id: id.readable(),
    })
}

/// Reads the message whose id was read before, so that every refusal can carry it.
fn read_envelope(envelope: &Members<'_>, id: &Id) -> Result<Message, RpcError> {
    if let Some(name) = envelope.find_duplicate() {
        return Err(RpcError::invalid_request(format!("duplicate key {name:?}")));
    }
    if envelope.string("jsonrpc") != Ok(Some("2.0".to_owned())) {
        return Err(RpcError::invalid_request("jsonrpc must be \"2.0\""));
    }
    match (
        envelope.get("method"),
        envelope.get("result"),
        envelope.get("error"),
    ) {
        (Some(method), None, None) => read_call(method, envelope.get("params"), id),
        (None, Some(result), None) => match id {
            Id::Read(id) => {
                let outcome = Ok(result.to_owned());
                Ok(Message::Response(Response {
                    id: Some(id.clone()),
                    outcome,
                }))
            }
            Id::Absent | Id::Null | Id::Unusable => Err(RpcError::invalid_request(ID_FORM)),
        },
        (None, None, Some(error)) => {
            // JSON-RPC 2.0, section 5, wants a null id where that of the request could not be read; MCP leaves it out.
            let id = match id {
                Id::Read(id) => Some(id.clone()),
                Id::Absent | Id::Null => None,
                Id::Unusable => return Err(RpcError::invalid_request(ID_FORM)),
            };
            Ok(Message::Response(Response {
                id,
                outcome: Err(read_error(error)?),
            }))
        }
        _ => Err(RpcError::invalid_request(
            "a message has one of method, result and error",
        )),
    }
}

fn read_call(method: &RawValue, params: Option<&RawValue>, id: &Id) -> Result<Message, RpcError> {
    let method =
        json::decode_string(method).map_err(|_| RpcError::invalid_request("method must be a string"))?;
    match id {
        Id::Read(id) => Ok(Message::Request(Request {
            id: id.clone(),
            method,
            params: Params::read(params)?,
        })),
        Id::Absent => Ok(Message::Notification(Notification {
            method,
            params: Params::read(params)?,
        })),
        Id::Null | Id::Unusable => Err(RpcError::invalid_request(ID_FORM)),
    }
}

/// Reads the error that a client answers with.
fn read_error(error: &RawValue) -> Result<RpcError, RpcError> {
    let refusal = || RpcError::invalid_request("error must be an object with an integer code and a message");
    let members = Members::read(error.get()).map_err(|_| refusal())?;
    let code = members
        .get("code")
        .and_then(|code| code.get().parse().ok())
        .ok_or_else(refusal)?;
    let message = members.string("message").ok().flatten().ok_or_else(refusal)?;
    let data = members
        .get("data")
        .map(|data| serde_json::from_str::<Box<Value>>(data.get()))
        .transpose()
        .map_err(|_| refusal())?;
    Ok(RpcError { code, message, data })
}

impl Refusal {
    fn invalid(message: impl Into<String>) -> Refusal {
        Refusal {
            error: RpcError::invalid_request(message),
            id: None,
        }
    }
}

impl From<JsonRefusal> for Refusal {
    fn from(refusal: JsonRefusal) -> Refusal {
        Refusal {
            error: RpcError::parse_error(refusal.to_string()),
            id: None,
        }
    }
}

impl From<MembersError> for Refusal {
    fn from(error: MembersError) -> Refusal {
        let error = match error {
            MembersError::Syntax { .. } => RpcError::parse_error(error.to_string()),
            MembersError::NotAnObject => RpcError::invalid_request("a message must be an object"),
            MembersError::DuplicateKey(_) => RpcError::invalid_request(error.to_string()),
        };
        Refusal { error, id: None }
    }
}

/// The arguments of a request or notification.
///
/// Invariant: if they are an object, neither its names nor those of its `_meta` repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(Option<Box<RawValue>>);

impl Params {
    /// Refuses duplicate keys only: what is no object is refused when it is used, as wrong parameters.
    fn read(raw: Option<&RawValue>) -> Result<Params, RpcError> {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else {
            return Ok(Params(None));
        };
        if let Some(members) = read_unique(raw, "params")?
            && let Some(meta) = members.get("_meta")
        {
            read_unique(meta, "params._meta")?;
        }
        Ok(Params(Some(raw.to_owned())))
    }

    /// Reads the members; none if `params` is absent or null. Each call reads anew.
    ///
    /// # Errors
    /// -32602 if `params` is not an object.
    pub(crate) fn members(&self) -> Result<Members<'_>, RpcError> {
        match &self.0 {
            None => Ok(Members::default()),
            Some(raw) => {
                Members::read(raw.get()).map_err(|_| RpcError::invalid_params("params must be an object"))
            }
        }
    }

    /// Returns the members of `_meta`; none if there is no such object.
    pub(crate) fn meta(&self) -> Members<'_> {
        let members = self.members().unwrap_or_default();
        members
            .get("_meta")
            .and_then(|meta| Members::read(meta.get()).ok())
            .unwrap_or_default()
    }

    /// Returns the string member `name`; `None` if it is absent or null.
    ///
    /// # Errors
    /// -32602 if it is something else, or `params` is not an object.
    pub(crate) fn string(&self, name: &str) -> Result<Option<String>, RpcError> {
        self.members()?
            .string(name)
            .map_err(|_| RpcError::invalid_params(format!("params.{name} must be a string")))
    }
}

/// Reads the members of an object; `None` for any other value.
fn read_unique<'a>(raw: &'a RawValue, place: &str) -> Result<Option<Members<'a>>, RpcError> {
    match Members::read(raw.get()) {
        Ok(members) => Ok(Some(members)),
        Err(MembersError::NotAnObject) => Ok(None),
        Err(MembersError::DuplicateKey(name)) => Err(RpcError::invalid_request(format!(
            "duplicate key {name:?} in {place}"
        ))),
        Err(MembersError::Syntax { .. }) => Err(RpcError::invalid_request(format!(
            "a key in {place} is no unicode text"
        ))),
    }
}

const ID_FORM: &str = "id must be a string or an integer of at most 64 bits";

/// What stands in the `id` of an envelope.
enum Id {
    Absent,
    /// `null`, which only an error response may have.
    Null,
    /// No form that an id may have, or several of them.
    Unusable,
    Read(RequestId),
}

impl Id {
    fn readable(self) -> Option<RequestId> {
        match self {
            Id::Read(id) => Some(id),
            Id::Absent | Id::Null | Id::Unusable => None,
        }
    }
}

fn read_id(envelope: &Members<'_>) -> Id {
    match envelope.get("id") {
        None => Id::Absent,
        Some(_) if envelope.count("id") > 1 => Id::Unusable,
        Some(raw) if raw.get() == "null" => Id::Null,
        Some(raw) => RequestId::read(raw).map_or(Id::Unusable, Id::Read),
    }
}

/// The id of a request, kept as it was written; equal by type and value, so `"1"` and `1` differ and `"a"` and
/// `"\u0061"` do not.
#[derive(Clone, Debug)]
pub(crate) struct RequestId {
    raw: Box<str>,
    value: IdValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum IdValue {
    Text(Box<str>),
    Unsigned(u64),
    /// Invariant: below zero, so that each integer has one variant.
    Negative(i64),
}

impl RequestId {
    /// Reads a string or an integer; `None` for anything else: null, a fraction, an exponent, more than 64 bits, a
    /// string whose escapes form no Unicode text.
    pub(crate) fn read(raw: &RawValue) -> Option<RequestId> {
        let value = match Kind::of(raw.get()) {
            Kind::String => IdValue::Text(json::decode_string(raw).ok()?.into()),
            Kind::Number => read_integer(raw.get())?,
            Kind::Object | Kind::Array | Kind::Other => return None,
        };
        Some(RequestId {
            raw: raw.get().into(),
            value,
        })
    }

    /// Reads what [`RequestId::as_raw`] gave.
    pub(crate) fn from_raw(raw: &str) -> Option<RequestId> {
        RequestId::read(&RawValue::from_string(raw.to_owned()).ok()?)
    }

    /// Returns the id as the client wrote it, quotes and escapes included: JSON to put into an answer.
    pub(crate) fn as_raw(&self) -> &str {
        &self.raw
    }
}

/// Parsing refuses a fraction and an exponent; JSON has no plus sign and no leading zeros, but it has -0.
fn read_integer(digits: &str) -> Option<IdValue> {
    if let Ok(unsigned) = digits.parse() {
        return Some(IdValue::Unsigned(unsigned));
    }
    let signed: i64 = digits.parse().ok()?;
    Some(u64::try_from(signed).map_or(IdValue::Negative(signed), IdValue::Unsigned))
}

impl PartialEq for RequestId {
    fn eq(&self, other: &RequestId) -> bool {
        self.value == other.value
    }
}

impl Eq for RequestId {}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.raw)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::{any, proptest};
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::super::error::{INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR};
    use super::{Body, Message, Params, Refusal, RequestId, parse};

    /// Tells a message in one line: its kind, its id, its method or outcome, its parameters.
    fn describe(message: &Message) -> String {
        let params = |params: &Params| params.0.as_ref().map_or(String::new(), |raw| format!(" {raw}"));
        match message {
            Message::Request(request) => {
                format!(
                    "request {} {}{}",
                    request.id,
                    request.method,
                    params(&request.params)
                )
            }
            Message::Notification(notification) => {
                format!(
                    "notification {}{}",
                    notification.method,
                    params(&notification.params)
                )
            }
            Message::Response(response) => {
                let id = response.id.as_ref().map_or("?", RequestId::as_raw);
                match &response.outcome {
                    Ok(result) => format!("result {id} {result}"),
                    Err(error) => format!("error {id} {error}"),
                }
            }
        }
    }

    fn describe_refusal(refusal: &Refusal) -> String {
        format!(
            "{} {}",
            refusal.error.code,
            refusal.id.as_ref().map_or("?", RequestId::as_raw)
        )
    }

    /// `expected` is a message in the words of `describe`, or the code and the id (`?`: none) of a refusal.
    fn check(bytes: impl AsRef<[u8]>, expected: &str) {
        let bytes = bytes.as_ref();
        let actual = match parse(bytes) {
            Ok(Body::Single(message)) => describe(&message),
            Ok(Body::Batch(entries)) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|entry| entry.as_ref().map_or_else(describe_refusal, describe))
                    .collect();
                format!("batch: {}", entries.join("; "))
            }
            Err(refusal) => describe_refusal(&refusal),
        };
        assert_eq!(actual, expected, "{}", String::from_utf8_lossy(bytes));
    }

    fn check_params(params: &str, expected: &str) {
        check(
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#),
            expected,
        );
    }

    #[test]
    fn messages_are_told_apart_by_their_members() {
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping");
        check(
            r#" {"method":"p","params":{"a":1.0},"id":"x","jsonrpc":"2.0"} "#,
            r#"request "x" p {"a":1.0}"#,
        );
        check(
            "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":null}",
            "notification n",
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#,
            "request 1 m [1]",
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","extra":{"a":1,"a":2}}"#,
            "request 1 m",
        );
        check(
            r#"{"jsonrpc":"\u0032.0","id":1,"method":"\u0070ing"}"#,
            "request 1 ping",
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#,
            r#"result 1 {"a":1}"#,
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":1}}"#,
            "error 1 no (-1)",
        );
        check(
            r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"no"}}"#,
            "error ? no (-1)",
        );
        check(
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#,
            "error ? no (-1)",
        );
    }

    #[test]
    fn what_is_not_json_has_no_id() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}1{}}}"#,
            "[".repeat(128),
            "]".repeat(128)
        );
        for text in [
            "",
            " ",
            "{",
            "[",
            "[1,",
            "{}x",
            "{\"id\":1,}",
            "nope",
            "{'id':1}",
            "{\"id\":01}",
            "\u{feff}\u{feff}{}",
            &deep,
        ] {
            check(text, "-32700 ?");
        }
        check(
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xC3\x28\"}",
            "-32700 ?",
        );
        check(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\0b\"}", "-32700 ?");
    }

    #[test]
    fn what_is_no_message_is_refused_under_its_id() {
        for text in ["1", "\"a\"", "null", "true", "{}"] {
            check(text, "-32600 ?");
        }
        check(r#"{"id":1,"method":"m"}"#, "-32600 1");
        check(r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, "-32600 1");
        check(r#"{"jsonrpc":2.0,"id":"a","method":"m"}"#, "-32600 \"a\"");
        check(r#"{"jsonrpc":"2.0","id":1}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":null}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#, "-32600 1");
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"no"}}"#,
            "-32600 1",
        );
        check(r#"{"jsonrpc":"2.0","result":{}}"#, "-32600 ?");
        check(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, "-32600 ?");
        for error in [
            "1",
            "{}",
            r#"{"code":1}"#,
            r#"{"code":1.5,"message":"a"}"#,
            r#"{"code":1,"code":1,"message":"a"}"#,
        ] {
            check(
                format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#),
                "-32600 1",
            );
        }
    }

    #[test]
    fn field_case_a09_ids_are_echoed_as_they_were_written() {
        let echoed = [
            "\"1\"",
            "1",
            "\"req-ä\"",
            "\"\"",
            "\"\\u0041\\/\"",
            "0",
            "-0",
            "-1",
            "9007199254740993",
            "-9223372036854775808",
            "18446744073709551615",
        ];
        for id in echoed {
            check(
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#),
                &format!("request {id} ping"),
            );
        }
        let refused = [
            "null",
            "1.0",
            "1.5",
            "1e2",
            "1E0",
            "{}",
            "[1]",
            "true",
            "18446744073709551616",
            "-9223372036854775809",
            "1000000000000000000000000000000000000000000",
            "\"\\ud800\"",
        ];
        for id in refused {
            check(
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#),
                "-32600 ?",
            );
        }
        check(r#"{"jsonrpc":"2.0","method":"ping"}"#, "notification ping");
    }

    #[test]
    fn field_case_a11_a_key_has_one_reading() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"resources/read"}"#,
            "-32600 1",
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"ping"}"#,
            "-32600 1",
        );
        check(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, "-32600 ?");
        check(r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, "-32600 ?");
        check(
            r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}"#,
            "-32600 1",
        );
        check(r#"{"jsonrpc":"2.0","id":1,"Method":"ping"}"#, "-32600 1");
        check(r#"{"JSONRPC":"2.0","id":1,"method":"ping"}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","ID":1,"method":"ping"}"#, "notification ping");
        check_params(r#"{"uri":"a","uri":"b"}"#, "-32600 1");
        check_params(r#"{"uri":"a","ur\u0069":"b"}"#, "-32600 1");
        check_params(r#"{"_meta":{"progressToken":1,"progressToken":2}}"#, "-32600 1");
        check_params(r#"{"\u005fmeta":{"a":1,"a":2}}"#, "-32600 1");
        check_params(r#"{"\ud800":1}"#, "-32600 1");
        for params in [
            r#"{"arguments":{"a":1,"a":2}}"#,
            r#"{"uri":"a","URI":"b"}"#,
            r#"{"_meta":1}"#,
        ] {
            check_params(params, &format!("request 1 m {params}"));
        }
    }

    #[test]
    fn field_case_a12_an_array_has_1_to_100_entries() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let pings = |count| vec![ping; count].join(",");
        check("[]", "-32600 ?");
        check(format!("[{}]", pings(2)), "batch: request 1 ping; request 1 ping");
        check(r#"[{"jsonrpc":"2.0","method":"n"}]"#, "batch: notification n");
        check(
            format!("[1,[],{{}},{ping}]"),
            "batch: -32600 ?; -32600 ?; -32600 ?; request 1 ping",
        );
        check(
            format!("[{}]", pings(100)),
            &format!("batch: {}", vec!["request 1 ping"; 100].join("; ")),
        );
        check(format!("[{}]", pings(101)), "-32600 ?");
        check(format!("[{}", pings(101)), "-32700 ?");
    }

    fn check_string(params: &str, expected: Result<Option<&str>, i64>) {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m"{params}}}"#);
        let Ok(Body::Single(Message::Request(request))) = parse(body.as_bytes()) else {
            panic!("{body} is no request");
        };
        let read = request.params.string("uri").map_err(|error| error.code);
        assert_eq!(read, expected.map(|text| text.map(str::to_owned)), "{body}");
    }

    #[test]
    fn parameters_are_checked_when_they_are_used() {
        check_string("", Ok(None));
        check_string(r#","params":null"#, Ok(None));
        check_string(r#","params":{}"#, Ok(None));
        check_string(r#","params":{"uri":null}"#, Ok(None));
        check_string(r#","params":{"URI":"a"}"#, Ok(None));
        check_string(r#","params":{"uri":"a\u002fb"}"#, Ok(Some("a/b")));
        for params in [
            "[]",
            "\"uri\"",
            "1",
            r#"{"uri":1}"#,
            r#"{"uri":["a"]}"#,
            r#"{"uri":"\ud800"}"#,
        ] {
            check_string(&format!(r#","params":{params}"#), Err(INVALID_PARAMS));
        }
    }

    fn id(raw: &str) -> RequestId {
        RequestId::read(&serde_json::from_str::<Box<RawValue>>(raw).unwrap()).unwrap()
    }

    #[test]
    fn ids_are_equal_by_type_and_value() {
        for (first, second) in [("1", "1"), ("0", "-0"), ("\"a\"", "\"\\u0061\""), ("-7", "-7")] {
            assert_eq!(id(first), id(second));
            assert_eq!(
                HashSet::from([id(first), id(second)]).len(),
                1,
                "{first} {second}"
            );
        }
        let distinct = ["1", "\"1\"", "-1", "18446744073709551615", "\"\"", "\" 1\""];
        assert_eq!(HashSet::from(distinct.map(id)).len(), distinct.len());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            if let Err(refusal) = parse(&bytes) {
                assert!([PARSE_ERROR, INVALID_REQUEST].contains(&refusal.error.code));
            }
        }

        #[test]
        fn a_cut_message_is_no_message(cut in 0usize..70) {
            let whole = r#"{"jsonrpc":"2.0","id":123,"method":"m","params":{"_meta":{"a":"b\\"}}}"#;
            assert_eq!(whole.len(), 70);
            check(&whole[..cut], "-32700 ?");
        }

        #[test]
        fn requests_come_back(text: String, number in any::<i64>(), method: String) {
            for id in [Value::from(text), Value::from(number)] {
                let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{}}}"#, Value::from(method.as_str()));
                check(body, &format!("request {id} {method}"));
            }
        }
    }
}
