//! JSON-RPC 2.0 responses as they go to a client, each one line of JSON.

use serde::Serialize;

use super::error::RpcError;
use super::line;
use super::message::RequestId;

/// A result that cannot be written as JSON.
#[derive(Debug, thiserror::Error)]
#[error("cannot encode the result of request {id}")]
pub(crate) struct EncodeError {
    /// The request that has no answer now.
    pub(crate) id: RequestId,
    /// What the result's own `Serialize` said.
    pub(crate) source: serde_json::Error,
}

/// Encodes the answer of a request that succeeded; the id is written as it was received.
///
/// # Errors
/// Only those of `result`'s own `Serialize`: a map whose keys are not strings, or what it refuses itself.
pub(crate) fn result(id: &RequestId, result: &impl Serialize) -> Result<Vec<u8>, EncodeError> {
    let mut out = begin(Some(id));
    out.extend_from_slice(b"\"result\":");
    line::push(&mut out, result).map_err(|source| EncodeError {
        id: id.clone(),
        source,
    })?;
    out.push(b'}');
    Ok(out)
}

/// Encodes the answer of a request that succeeded, with members put before those of `result`, which must be an object.
///
/// # Errors
/// As [`result`].
pub(super) fn result_with(
    id: &RequestId,
    before: &[u8],
    result: &impl Serialize,
) -> Result<Vec<u8>, EncodeError> {
    let mut out = begin(Some(id));
    out.extend_from_slice(b"\"result\":{");
    out.extend_from_slice(before);
    let start = out.len();
    line::push(&mut out, result).map_err(|source| EncodeError {
        id: id.clone(),
        source,
    })?;
    // The object's own brace becomes the comma between the two, or goes when it has no members.
    match out.get_mut(start..) {
        Some([b'{', b'}']) => out.truncate(start),
        Some([brace @ b'{', ..]) => {
            *brace = b',';
            out.pop();
        }
        Some(_) | None => debug_assert!(false, "a result is an object"),
    }
    out.extend_from_slice(b"}}");
    Ok(out)
}

/// Encodes the answer of a request that failed. Without a known id there is no `id` member (MCP 2025-11-25, Overview,
/// Error Responses), neither null nor one that was made up.
pub(crate) fn error(id: Option<&RequestId>, error: &RpcError) -> Vec<u8> {
    let mut out = begin(id);
    out.extend_from_slice(b"\"error\":{\"code\":");
    out.extend_from_slice(error.code.to_string().as_bytes());
    out.extend_from_slice(b",\"message\":");
    line::push_string(&mut out, &error.message);
    if let Some(data) = &error.data {
        out.extend_from_slice(b",\"data\":");
        line::push_json(&mut out, &data.to_string());
    }
    out.extend_from_slice(b"}}");
    out
}

/// Joins the answers of a batch to an array; the caller has at least one (notifications alone have no answer).
pub(crate) fn batch(answers: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![b'['];
    out.extend_from_slice(&answers.join(&b','));
    out.push(b']');
    out
}

/// Writes everything up to the outcome.
fn begin(id: Option<&RequestId>) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
    if let Some(id) = id {
        out.extend_from_slice(b"\"id\":");
        line::push_json(&mut out, id.as_raw());
        out.push(b',');
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::super::error::RpcError;
    use super::super::message::RequestId;
    use super::{batch, error, result};

    fn id(raw: &str) -> RequestId {
        RequestId::read(&serde_json::from_str::<Box<RawValue>>(raw).unwrap()).unwrap()
    }

    fn check(answer: &[u8], expected: &str) {
        assert_eq!(std::str::from_utf8(answer), Ok(expected));
    }

    #[test]
    fn field_case_a09_a_result_goes_out_under_the_id_as_received() {
        for raw in [
            "1",
            "\"1\"",
            "-0",
            "\"\\u0031\"",
            "\"req-ä\"",
            "18446744073709551615",
        ] {
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{raw},"result":{{}}}}"#);
            check(&result(&id(raw), &json!({})).unwrap(), &expected);
        }
        let raw = "\"a\u{2028}b\"";
        check(
            &result(&id(raw), &json!({})).unwrap(),
            r#"{"jsonrpc":"2.0","id":"a\u2028b","result":{}}"#,
        );
    }

    #[test]
    fn field_case_a10_digits_of_a_record_are_kept() {
        let record = r#"{"id":"7","a":9007199254740993,"b":-9223372036854775808,"c":18446744073709551615,"d":1e400,"e":0.1,"f":1.0}"#;
        let expected = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{record}}}"#);
        let raw: Box<RawValue> = serde_json::from_str(record).unwrap();
        check(&result(&id("1"), &raw).unwrap(), &expected);
        let value: Value = serde_json::from_str(&record.replace("\"d\":1e400,", "")).unwrap();
        check(
            &result(&id("1"), &value).unwrap(),
            &expected.replace("\"d\":1e400,", ""),
        );
    }

    #[test]
    fn a_result_that_cannot_be_encoded_names_its_request() {
        let failure = result(&id("7"), &std::collections::BTreeMap::from([((1, 2), 3)])).unwrap_err();
        assert_eq!(failure.to_string(), "cannot encode the result of request 7");
    }

    #[test]
    fn an_unknown_id_is_left_out() {
        let refusal = RpcError::parse_error("invalid \"json\"\n");
        check(
            &error(None, &refusal),
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"invalid \"json\"\u000a"}}"#,
        );
        let refusal = RpcError::new(1, "a").with_data(json!({"uri": "b\u{85}"}));
        check(
            &error(Some(&id("\"1\"")), &refusal),
            r#"{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":"a","data":{"uri":"b\u0085"}}}"#,
        );
    }

    #[test]
    fn answers_of_a_batch_are_one_array() {
        check(&batch(&[b"{}".to_vec()]), "[{}]");
        check(&batch(&[b"{}".to_vec(), b"{\"a\":1}".to_vec()]), "[{},{\"a\":1}]");
    }

    proptest! {
        #[test]
        fn any_answer_is_one_line_of_json(id_text: String, text: String) {
            let id = id(&Value::from(id_text.as_str()).to_string());
            let failure = RpcError::new(-1, text.clone()).with_data(json!([text]));
            let outcomes = [
                (result(&id, &json!([text])).unwrap(), "result", json!([text])),
                (error(Some(&id), &failure), "error", json!({"code": -1, "message": text, "data": [text]})),
            ];
            for (answer, member, outcome) in outcomes {
                assert!(!std::str::from_utf8(&answer).unwrap().contains(char::is_control));
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                assert_eq!(answer, json!({"jsonrpc": "2.0", "id": id_text, member: outcome}));
            }
        }
    }
}
