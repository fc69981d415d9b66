//! Tests of the sources: module docs, the layer table, doors, names, and nothing that only one machine knows.

use std::path::{Path, PathBuf};

/// The workspace's folder.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is a folder of the workspace")
        .to_owned()
}

/// A text file of the workspace.
pub struct Source {
    /// Relative to the workspace, with `/`.
    pub path: String,
    pub text: String,
}

/// Returns every text file that is not ignored, in the order of their paths.
pub fn sources() -> Vec<Source> {
    let root = workspace();
    let ignored = std::fs::read_to_string(root.join(".gitignore")).expect("a list of what is not kept");
    let ignored: Vec<&str> = ignored.lines().map(|line| line.trim_matches('/')).collect();
    let (mut folders, mut sources) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder can be listed") {
            let entry = entry.expect("a folder can be listed");
            let path = entry.path();
            let name = path
                .strip_prefix(&root)
                .expect("below the root")
                .to_string_lossy()
                .replace('\\', "/");
            if name == ".git" || ignored.contains(&name.as_str()) {
                continue;
            }
            if entry.file_type().expect("an entry has a type").is_dir() {
                folders.push(path);
            } else if let Some(text) = std::fs::read(&path)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
            {
                sources.push(Source { path: name, text });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

fn rust_sources() -> Vec<Source> {
    sources()
        .into_iter()
        .filter(|source| source.path.ends_with(".rs"))
        .collect()
}

/// Collects what is wrong and panics with all of it.
fn report(rule: &str, violations: Vec<String>) {
    assert!(violations.is_empty(), "{rule}:\n  {}", violations.join("\n  "));
}

#[test]
fn every_source_begins_with_what_it_is() {
    let sources = rust_sources();
    assert!(sources.len() > 20, "the sources were found");
    let without = sources
        .into_iter()
        .filter(|source| !source.text.starts_with("//! "))
        .map(|source| source.path);
    report("a file starts with `//!`", without.collect());
}

/// One row of the layer table: what the files below a path must not mention.
struct Layer {
    /// A folder, or a module that is a file so far.
    path: &'static str,
    /// A part of it to which the row does not apply.
    except: Option<&'static str>,
    modules: &'static [&'static str],
    crates: &'static [&'static str],
}

/// The layers, told by what they do not know.
const LAYERS: &[Layer] = &[
    Layer {
        path: "gateway/src/http",
        except: None,
        modules: &["method", "feed", "peer"],
        crates: &["tonic", "prost", "proto"],
    },
    Layer {
        path: "gateway/src/dispatch",
        except: None,
        modules: &["http"],
        crates: &["axum", "hyper", "tonic", "prost", "proto"],
    },
    Layer {
        path: "gateway/src/session",
        except: None,
        modules: &["http", "method", "dispatch"],
        crates: &["axum", "hyper", "tonic", "prost", "proto"],
    },
    Layer {
        path: "gateway/src/method",
        except: None,
        modules: &["http", "session", "dispatch"],
        crates: &["axum", "hyper", "tonic", "prost", "proto"],
    },
    Layer {
        path: "gateway/src/feed",
        except: None,
        modules: &["http", "session", "dispatch", "method"],
        crates: &["axum", "hyper"],
    },
    Layer {
        path: "gateway/src/peer",
        except: None,
        modules: &["http", "session", "dispatch", "method"],
        crates: &["axum", "hyper"],
    },
    Layer {
        path: "gateway/src/protocol",
        except: None,
        modules: &[
            "http",
            "session",
            "dispatch",
            "method",
            "feed",
            "peer",
            "config",
            "dev",
            "telemetry",
        ],
        crates: &[
            "axum",
            "hyper",
            "http",
            "tonic",
            "prost",
            "proto",
            "tokio",
            "tokio_util",
            "feedsvc",
        ],
    },
    Layer {
        path: "feedsvc/src",
        except: Some("feedsvc/src/api"),
        modules: &[],
        crates: &["tonic", "tonic_health", "tonic_reflection"],
    },
];

impl Layer {
    fn holds(&self, path: &str) -> bool {
        let below = |folder: &str| {
            path.strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
        };
        below(self.path) && !self.except.is_some_and(below)
    }

    /// Returns the lines that mention what the layer must not know.
    fn violations(&self, source: &Source) -> Vec<String> {
        let mut found = Vec::new();
        for (index, line) in source.text.lines().enumerate() {
            // Prose may name what code must not.
            let code = line.split("//").next().unwrap_or_default();
            let module = self
                .modules
                .iter()
                .find(|module| mentions_path(code, "crate", module));
            let foreign = self.crates.iter().find(|name| mentions_crate(code, name));
            if let Some(name) = module.or(foreign) {
                found.push(format!(
                    "{}:{} mentions {name}: {}",
                    source.path,
                    index + 1,
                    line.trim()
                ));
            }
        }
        found
    }
}

/// Whether the code has `first::second`, each a whole word.
fn mentions_path(code: &str, first: &str, second: &str) -> bool {
    let path = format!("{first}::{second}");
    code.match_indices(&path).any(|(at, _)| is_word(code, at, path.len()))
        // In a group: `use crate::{…, second::…}`.
        || code.match_indices(&format!("{first}::{{")).any(|(at, _)| {
            code[at..].match_indices(second).any(|(inner, _)| is_word(code, at + inner, second.len()) && !follows_path(code, at + inner))
        })
}

/// Whether the code names a crate: `name::…`, or `use name`.
fn mentions_crate(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let used = code[at + name.len()..].starts_with("::") || code[..at].trim_end().ends_with("use");
        used && is_word(code, at, name.len()) && !follows_path(code, at)
    })
}

fn is_word(code: &str, at: usize, length: usize) -> bool {
    let part_of_name = |character: char| character.is_alphanumeric() || character == '_';
    !code[..at].ends_with(part_of_name) && !code[at + length..].starts_with(part_of_name)
}

/// Whether the name at this place is a part of a longer path, as `http` in `crate::http`.
fn follows_path(code: &str, at: usize) -> bool {
    code[..at].ends_with("::")
}

#[test]
fn the_layers_know_only_what_they_may() {
    let sources = rust_sources();
    for layer in LAYERS {
        let any = sources.iter().any(|source| layer.holds(&source.path));
        // The forwarding between gateways comes later; its row waits for it.
        assert!(
            any || layer.path.ends_with("/peer"),
            "a row of the table without a file: {}",
            layer.path
        );
    }
    let violations = sources.iter().flat_map(|source| {
        LAYERS
            .iter()
            .filter(|layer| layer.holds(&source.path))
            .flat_map(|layer| layer.violations(source))
    });
    report("a layer knows what it must not", violations.collect());
}

#[test]
fn the_layer_table_sees_what_it_should() {
    let row = &LAYERS[0];
    let check = |line: &str| {
        !row.violations(&Source {
            path: "x.rs".into(),
            text: line.into(),
        })
        .is_empty()
    };
    for bad in [
        "use crate::feed::Ring;",
        "let ring = crate::feed::ring();",
        "use crate::{dispatch, feed::Ring};",
        "use tonic::Status;",
        "fn f() -> tonic::Status {",
        "use proto::feed::v1::Entry;",
    ] {
        assert!(check(bad), "{bad}");
    }
    for good in [
        "use crate::feedback::Form;",
        "use crate::session::feed;",
        "use crate::{dispatch, protocol};",
        "// the layer below uses tonic::Status",
        "use crate::protocol::method;",
        "use super::tonic_like::Thing;",
    ] {
        assert!(!check(good), "{good}");
    }
    assert!(row.holds("gateway/src/http/mod.rs") && row.holds("gateway/src/http.rs"));
    assert!(!row.holds("gateway/src/httpx.rs"));
}

#[test]
fn a_door_is_short() {
    let doors = rust_sources()
        .into_iter()
        .filter(|source| source.path.ends_with("/mod.rs"));
    let long = doors
        .map(|door| (door.text.lines().count(), door.path))
        .filter(|(lines, _)| *lines > 150);
    report(
        "a `mod.rs` has at most 150 lines",
        long.map(|(lines, path)| format!("{path}: {lines}")).collect(),
    );
}

#[test]
fn files_are_named_after_what_they_hold() {
    let vague = ["util", "common", "helper", "manager", "misc", "types"];
    let named = rust_sources()
        .into_iter()
        .map(|source| source.path)
        .filter(|path| {
            let names = path.trim_end_matches(".rs").split(['/', '_', '-']);
            names
                .map(|name| name.trim_end_matches('s'))
                .any(|name| vague.iter().any(|vague| vague.trim_end_matches('s') == name))
        });
    report("a file's name says nothing", named.collect());
}

#[test]
fn nothing_names_a_place_on_one_machine() {
    // In two parts, so that this file does not find itself.
    let places = [
        ["/wo", "rk/"],
        ["/ho", "me/"],
        ["/ro", "ot/"],
        ["/Us", "ers/"],
        ["C:\\", "Users"],
    ]
    .map(|parts| parts.concat());
    let mut violations = Vec::new();
    for source in sources() {
        for (index, line) in source.text.lines().enumerate() {
            let named = places.iter().any(|place| {
                // A part of a longer path or of a URL is none.
                let continues = |before: char| before.is_alphanumeric() || "._-/}".contains(before);
                line.match_indices(place.as_str())
                    .any(|(at, _)| !line[..at].ends_with(continues))
            });
            if named {
                violations.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
            }
        }
    }
    report("a path of one machine", violations);
}

#[test]
fn a_todo_names_the_condition_that_removes_it() {
    let mark = ["TO", "DO"].concat();
    let mut violations = Vec::new();
    for source in rust_sources() {
        for (index, line) in source.text.lines().enumerate() {
            let Some((_, rest)) = line.split_once(&mark) else {
                continue;
            };
            let conditions = ["when ", "once ", "until ", "as soon as ", "after "];
            if !conditions.iter().any(|condition| rest.contains(condition)) {
                violations.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
            }
        }
    }
    report("a task without a condition", violations);
}
