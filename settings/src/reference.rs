//! What is written about the keys from their declarations: the reference page, the sample file, the long help.

use std::fmt::Write;

use crate::declaration::{Declaration, declarations};
use crate::keys::Settings;

/// How wide prose in comments of the sample file is, in characters.
const COMMENT_WIDTH: usize = 100;

/// Returns keys as a part of the reference page, in Markdown.
pub fn reference(declarations: &[Declaration]) -> String {
    let mut text = String::new();
    for declaration in declarations {
        // Writing to a String cannot fail.
        let _ = write!(text, "### `{}`\n\n{}\n\n", declaration.key, declaration.doc);
        let default = match &declaration.default {
            Some(default) => format!("`{default}`"),
            None => "not set".to_owned(),
        };
        let _ = writeln!(text, "- Default: {default}");
        let _ = writeln!(text, "- Allowed: {}", declaration.allowed);
        let _ = write!(text, "- Environment: `{}`", declaration.variable());
        if let Some(flag) = declaration.flag {
            let value = if declaration.is_switch {
                String::new()
            } else {
                format!(" {}", flag.value_name)
            };
            let _ = write!(text, ", flag: `--{}{value}`", flag.name);
        }
        if declaration.is_secret {
            text.push_str("\n- Secret: it is never shown");
        }
        text.push_str("\n\n");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Returns a sample file with every key, its value commented out. `head` is its first comment.
pub fn sample<S: Settings>(head: &str) -> String {
    let mut text = String::new();
    for (index, paragraph) in head.split("\n\n").enumerate() {
        if index > 0 {
            text.push_str("#\n");
        }
        comment(&mut text, paragraph);
    }
    for declaration in declarations::<S>() {
        text.push('\n');
        comment(&mut text, &declaration.doc.replace('`', ""));
        comment(&mut text, &format!("Allowed: {}.", declaration.allowed));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "#{} = {}", declaration.key, declaration.sample_value());
    }
    text
}

/// Writes prose as comment lines.
fn comment(text: &mut String, prose: &str) {
    let mut line = String::from("#");
    for word in prose.split_whitespace() {
        if line.len() > 1 && line.chars().count() + word.chars().count() >= COMMENT_WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

/// Returns what the long help and the man page say of the keys.
pub(crate) fn help(declarations: &[Declaration]) -> String {
    let mut text = String::from(
        "Every key can be set by --set KEY=VALUE, by an environment variable (TIDEGATE_SESSION__IDLE_TIMEOUT for \
         session.idle_timeout) or in the file; a flag counts more than the environment, that more than the file.\n\nKeys:\n",
    );
    for declaration in declarations {
        let default = declaration.default.as_deref().unwrap_or("(not set)");
        let _ = writeln!(text, "  {} = {default}", declaration.key);
    }
    text.truncate(text.trim_end().len());
    text
}
