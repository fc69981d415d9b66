//! `Accept` and `Content-Type` (RFC 9110, sections 8.3 and 12.5.1).

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

/// The media type of messages.
pub(super) const JSON: &str = "application/json";

/// The media type of streams.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// Says whether the client takes `media_type`; without any `Accept` it takes everything.
pub(super) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let mut absent = true;
    let mut best: Option<(u8, bool)> = None;
    for value in headers.get_all(ACCEPT) {
        let Ok(value) = value.to_str() else { continue };
        for range in value.split(',').map(str::trim).filter(|range| !range.is_empty()) {
            absent = false;
            let mut parts = range.split(';').map(str::trim);
            let specificity = specificity(parts.next().unwrap_or_default(), media_type);
            let refused = parts.any(is_zero_weight);
            // The most specific range that fits decides.
            if let Some(specificity) = specificity
                && best.is_none_or(|(other, _)| specificity >= other)
            {
                best = Some((specificity, !refused));
            }
        }
    }
    absent || best.is_some_and(|(_, accepted)| accepted)
}

/// Says whether the body is declared as JSON; its parameters do not matter.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let declared = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    declared
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case(JSON)
}

/// How closely a range fits a media type; `None` if it does not.
fn specificity(range: &str, media_type: &str) -> Option<u8> {
    if range.eq_ignore_ascii_case(media_type) {
        return Some(2);
    }
    let (kind, subtype) = range.split_once('/')?;
    let wanted = media_type.split_once('/')?.0;
    match (kind, subtype) {
        ("*", "*") => Some(0),
        (kind, "*") if kind.eq_ignore_ascii_case(wanted) => Some(1),
        _ => None,
    }
}

fn is_zero_weight(parameter: &str) -> bool {
    parameter.split_once('=').is_some_and(|(name, weight)| {
        name.trim().eq_ignore_ascii_case("q") && weight.trim().parse() == Ok(0.0)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(accept: Option<&'static str>, json: bool, event_stream: bool) {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        assert_eq!(accepts(&headers, JSON), json, "{accept:?} for JSON");
        assert_eq!(
            accepts(&headers, EVENT_STREAM),
            event_stream,
            "{accept:?} for a stream"
        );
    }

    #[test]
    fn accept_is_read_as_the_rfc_says() {
        check(None, true, true);
        check(Some(""), true, true);
        check(Some("*/*"), true, true);
        check(Some("application/json, text/event-stream"), true, true);
        check(Some("Application/JSON;q=0.5"), true, false);
        check(Some("text/*"), false, true);
        check(Some("text/html"), false, false);
        check(Some("*/*;q=0.1, text/event-stream;q=0"), true, false);
        check(Some("application/json;q=0, */*"), false, true);
    }

    #[test]
    fn content_type_is_read_without_its_parameters() {
        let is = |text| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(text));
            is_json(&headers)
        };
        assert!(is("application/json") && is("Application/Json; charset=utf-8"));
        assert!(!is("text/plain") && !is("application/json5") && !is_json(&HeaderMap::new()));
    }
}
