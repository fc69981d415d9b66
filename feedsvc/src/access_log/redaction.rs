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
];
/// So does one that is exactly one of these; inside of longer words they mean other things.
const WHOLE: &[&str] = &[
    "pwd", "pass", "auth", "pin", "otp", "jwt", "cvv", "cvc", "ssn", "key", "creds",
];

/// Returns the arguments with the value under each such key replaced, at any depth.
pub(super) fn redacted(arguments: JsonObject) -> JsonObject {
    let redact = |(name, value): (String, Json)| {
        let value = if is_secret(&name) {
            Json::String(REDACTED.to_owned())
        } else {
            redacted_value(value)
        };
        (name, value)
    };
    arguments.into_iter().map(redact).collect()
}

/// The depth is bounded by the parser of the arguments.
fn redacted_value(value: Json) -> Json {
    match value {
        Json::Object(object) => Json::Object(redacted(object)),
        Json::Array(items) => Json::Array(items.into_iter().map(redacted_value).collect()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value,
    }
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
    fn what_is_no_secret_stays_digit_for_digit() {
        let arguments = r#"{"id":"password","author":"x","keyboard":1.0,"pinned":true,"compass":[],"passenger":null,"n":1e400}"#;
        check(arguments, arguments);
    }
}
