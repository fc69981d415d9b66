//! Takes secrets out of the arguments of a call before they are stored (rule B-15.3).

use crate::catalog::json::{Json, JsonObject};

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// A key that holds one of these, in lower case and without what is neither letter nor digit, looks like a secret's. A key too many is
/// redacted rather than one too few.
const PARTS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "credential",
    "authorization",
    "cookie",
    "sessionid",
    "bearer",
    "signature",
    "assertion",
    "connectionstring",
    "connstr",
    "mnemonic",
];
/// So does one that is exactly one of these; inside of longer words they mean other things.
const WHOLE: &[&str] = &[
    "pwd", "pass", "auth", "pin", "otp", "totp", "jwt", "cvv", "cvc", "ssn", "key", "creds", "dsn", "hmac",
    "sig",
];

/// Members that say what a value beside them is, and those that hold it: `{"name": "Authorization", "value": …}`.
const NAMING: &[&str] = &["name", "key", "header", "field"];
const VALUES: &[&str] = &["value", "values", "val"];
/// Schemes of the header Authorization, as which a text is a secret as a whole.
const SCHEMES: &[&str] = &["bearer ", "basic "];
/// What stands between the parts of a text that may be `name=value`.
const SEPARATORS: &[char] = &[';', '&', '?', ',', ' ', '\n', '\t', '"', '\''];
/// How deep JSON in texts is looked into; what is deeper is redacted as a whole.
const TEXTS_DEEP_MAX: usize = 4;

/// Returns the arguments without secrets: the value under each key that looks like a secret's at any depth, also in lists, beside a member or
/// an element that names it, and in JSON or `name=value` inside of a text.
pub(super) fn redacted(arguments: JsonObject) -> JsonObject {
    redacted_object(arguments, TEXTS_DEEP_MAX)
}

fn redacted_object(object: JsonObject, texts_deep: usize) -> JsonObject {
    let is_named_secret = NAMING
        .iter()
        .any(|member| matches!(object.get(*member), Some(Json::String(name)) if is_secret(name)));
    let redact = |(name, value): (String, Json)| {
        // `key` names something here, and is no key.
        let names_secret = is_named_secret && NAMING.contains(&name.as_str());
        let holds_secret = is_named_secret && VALUES.contains(&name.as_str());
        let value = if holds_secret || (is_secret(&name) && !names_secret) {
            Json::String(REDACTED.to_owned())
        } else {
            redacted_value(value, texts_deep)
        };
        (name, value)
    };
    object.into_iter().map(redact).collect()
}

/// The depth is bounded by the parser of the arguments.
fn redacted_value(value: Json, texts_deep: usize) -> Json {
    match value {
        Json::Object(object) => Json::Object(redacted_object(object, texts_deep)),
        Json::Array(items) => Json::Array(redacted_items(items, texts_deep)),
        Json::String(text) => Json::String(redacted_text(text, texts_deep)),
        Json::Null | Json::Bool(_) | Json::Number(_) => value,
    }
}

/// An element behind one that is a secret's name is the secret: a pair, or a flag with its value.
fn redacted_items(items: Vec<Json>, texts_deep: usize) -> Vec<Json> {
    let mut is_secret_next = false;
    let redact = |item: Json| {
        let is_value = std::mem::replace(
            &mut is_secret_next,
            matches!(&item, Json::String(name) if is_secret(name)),
        );
        if is_value {
            Json::String(REDACTED.to_owned())
        } else {
            redacted_value(item, texts_deep)
        }
    };
    items.into_iter().map(redact).collect()
}

fn redacted_text(text: String, texts_deep: usize) -> String {
    let is_scheme = |scheme: &&str| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    if SCHEMES.iter().any(is_scheme) {
        return REDACTED.to_owned();
    }
    if text.trim_start().starts_with(['{', '[']) {
        let parsed = Json::parse(text.as_bytes());
        if let Ok(inner @ (Json::Object(_) | Json::Array(_))) = parsed {
            return match texts_deep.checked_sub(1) {
                Some(texts_deep) => match redacted_value(inner.clone(), texts_deep) {
                    // A text without a secret stays as it was written.
                    same if same == inner => text,
                    redacted => redacted.to_text(),
                },
                None => REDACTED.to_owned(),
            };
        }
    }
    redacted_parts(&text)
}

/// Takes out what stands behind `name=` of a secret, and between `://` and `@` of an address.
fn redacted_parts(text: &str) -> String {
    text.split_inclusive(SEPARATORS)
        .map(|part| {
            let end = part.trim_end_matches(SEPARATORS).len();
            let (part, separator) = part.split_at(end);
            let redacted = match (part.split_once("://"), part.split_once('=')) {
                (Some((scheme, rest)), _) if user_end(rest).is_some() => {
                    let host = user_end(rest).and_then(|end| rest.get(end..)).unwrap_or_default();
                    format!("{scheme}://{REDACTED}{host}")
                }
                (_, Some((name, value))) if !value.is_empty() && is_secret(name) => {
                    format!("{name}={REDACTED}")
                }
                (_, _) => part.to_owned(),
            };
            redacted + separator
        })
        .collect()
}

/// Returns where the `@` stands that ends the user of an address.
fn user_end(authority: &str) -> Option<usize> {
    let end = authority.find('/').unwrap_or(authority.len());
    authority.get(..end)?.rfind('@')
}

fn is_secret(key: &str) -> bool {
    let key: String = key
        .chars()
        .filter(|character| character.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    WHOLE.contains(&key.as_str()) || PARTS.iter().any(|part| key.contains(part))
}

#[cfg(test)]
mod tests {
    use super::redacted;
    use crate::catalog::json::{Json, object_to_text};

    fn check(arguments: &str, expected: &str) {
        let Ok(Json::Object(arguments)) = Json::parse(arguments.as_bytes()) else {
            panic!("no object: {arguments}")
        };
        assert_eq!(object_to_text(&redacted(arguments)), expected);
    }

    #[test]
    fn b_15_3_values_under_keys_that_look_like_secrets_are_redacted_at_any_depth() {
        for key in [
            "password",
            "Password",
            "user_password",
            "API-Key",
            "apiKey",
            "X-Auth-Token",
            "client_secret",
            "pin",
            "PRIVATE KEY",
        ] {
            check(
                &format!(r#"{{"{key}":"hunter2"}}"#),
                &format!(r#"{{"{key}":"[redacted]"}}"#),
            );
            check(
                &format!(r#"{{"{key}":{{"a":[1]}}}}"#),
                &format!(r#"{{"{key}":"[redacted]"}}"#),
            );
            check(
                &format!(r#"{{"a":[{{"b":{{"{key}":1}}}}]}}"#),
                &format!(r#"{{"a":[{{"b":{{"{key}":"[redacted]"}}}}]}}"#),
            );
        }
    }

    #[test]
    fn b_15_3_secrets_are_found_wherever_they_stand() {
        for key in [
            "signature",
            "X-Hub-Signature",
            "dsn",
            "DSN",
            "connectionString",
            "connection_string",
            "hmac",
            "client_assertion",
        ] {
            check(
                &format!(r#"{{"{key}":"hunter2"}}"#),
                &format!(r#"{{"{key}":"[redacted]"}}"#),
            );
        }
        for (arguments, expected) in [
            // Lists in lists, names beside their values, and flags.
            (
                r#"{"a":[[[{"token":"hunter2"}]]]}"#,
                r#"{"a":[[[{"token":"[redacted]"}]]]}"#,
            ),
            (
                r#"{"headers":[["Authorization","hunter2"],["Accept","x"]]}"#,
                r#"{"headers":[["Authorization","[redacted]"],["Accept","x"]]}"#,
            ),
            (
                r#"{"headers":[{"name":"Cookie","value":"hunter2"},{"name":"Accept","value":"x"}]}"#,
                r#"{"headers":[{"name":"Cookie","value":"[redacted]"},{"name":"Accept","value":"x"}]}"#,
            ),
            (
                r#"{"env":[{"value":["hunter2"],"key":"API_KEY"}]}"#,
                r#"{"env":[{"value":"[redacted]","key":"API_KEY"}]}"#,
            ),
            (
                r#"{"args":["--user","x","--password","hunter2","--token=hunter2"]}"#,
                r#"{"args":["--user","x","--password","[redacted]","--token=[redacted]"]}"#,
            ),
            // JSON in a text, and in a text in it.
            (
                r#"{"body":"{\"password\": \"hunter2\", \"n\": 1.0}"}"#,
                r#"{"body":"{\"password\":\"[redacted]\",\"n\":1.0}"}"#,
            ),
            (
                r#"{"body":"[{\"inner\":\"{\\\"pin\\\":1}\"}]"}"#,
                r#"{"body":"[{\"inner\":\"{\\\"pin\\\":\\\"[redacted]\\\"}\"}]"}"#,
            ),
            // Texts that are or hold a secret whatever their key.
            (
                r#"{"h":"Bearer hunter2","i":"basic aHVudGVyMg=="}"#,
                r#"{"h":"[redacted]","i":"[redacted]"}"#,
            ),
            (
                r#"{"url":"see postgres://me:hunter2@db:5432/x?password=hunter2&n=1 and http://db/x"}"#,
                r#"{"url":"see postgres://[redacted]@db:5432/x?password=[redacted]&n=1 and http://db/x"}"#,
            ),
            (
                r#"{"server":"Server=db;Uid=me;Pwd=hunter2;Port=1"}"#,
                r#"{"server":"Server=db;Uid=me;Pwd=[redacted];Port=1"}"#,
            ),
        ] {
            check(arguments, expected);
        }
    }

    #[test]
    fn texts_that_are_deep_in_each_other_end() {
        let mut text = r#"{"password":"hunter2"}"#.to_owned();
        for _ in 0..8 {
            text = object_to_text(&[("a".to_owned(), Json::String(text))].into_iter().collect());
        }
        let Ok(Json::Object(arguments)) = Json::parse(text.as_bytes()) else {
            panic!("no object")
        };
        assert!(!object_to_text(&redacted(arguments)).contains("hunter2"));
    }

    #[test]
    fn what_is_no_secret_stays_digit_for_digit() {
        let arguments = r#"{"id":"password","mail":"me@example.org, you@example.org","text":"{not json","json":"{ \"n\": 1.0 }","sum":"a=b;c=d","list":["x","y"],"author":"x","keyboard":1.0,"pinned":true,"compass":[],"passenger":null,"n":1e400}"#;
        check(arguments, arguments);
    }
}
