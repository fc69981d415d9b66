//! Writing values as TOML.

/// Returns the text as a basic string of TOML 1.0.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns an array of values that are TOML already.
pub(crate) fn array(values: impl IntoIterator<Item = String>) -> String {
    let values: Vec<String> = values.into_iter().collect();
    format!("[{}]", values.join(", "))
}

#[cfg(test)]
mod tests {
    use toml::de::{DeTable, DeValue};

    use super::quoted;

    #[test]
    fn every_text_comes_back() {
        for text in [
            "",
            "plain",
            "\"\\",
            "a\nb\tc\rd",
            "\u{0}\u{7f}\u{85}",
            "ä 🦀 #",
            "'''",
        ] {
            let line = format!("x = {}", quoted(text));
            let table = DeTable::parse(&line).unwrap();
            let DeValue::String(read) = table.get_ref().values().next().unwrap().get_ref().clone() else {
                panic!("{line}");
            };
            assert_eq!(read, text, "{line}");
        }
    }
}
