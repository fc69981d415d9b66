//! The MCP types that are served, as far as they are ours (MCP 2025-11-25, schema).

use serde::Serialize;
use serde_json::json;

use super::era::{self, Version};
use super::error::RpcError;
use super::json::{Kind, Members};
use super::message::Params;

/// The name of this server.
const NAME: &str = "tidegate";

/// What a client says about itself in `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InitializeParams {
    /// As requested; see [`Version::negotiate`].
    pub(crate) protocol_version: String,
    /// `clientInfo` as a JSON object, `{}` if it is absent.
    pub(crate) client_info: String,
    /// `capabilities` as a JSON object, `{}` if it is absent.
    pub(crate) client_capabilities: String,
}

impl InitializeParams {
    /// Reads the parameters.
    ///
    /// # Errors
    /// -32602, with `data.supported` where it is about the version: it is missing or no string, or `clientInfo` or
    /// `capabilities` is no object or has more than 64 KiB.
    pub(crate) fn read(params: &Params) -> Result<InitializeParams, RpcError> {
        let members = params.members().map_err(with_supported)?;
        let protocol_version = members.string("protocolVersion").ok().flatten().ok_or_else(|| {
            with_supported(RpcError::invalid_params(
                "initialize requires params.protocolVersion",
            ))
        })?;
        Ok(InitializeParams {
            protocol_version,
            client_info: object(&members, "clientInfo")?,
            client_capabilities: object(&members, "capabilities")?,
        })
    }
}

fn with_supported(error: RpcError) -> RpcError {
    error.with_data(json!({ "supported": era::supported() }))
}

/// Returns an object as it was written.
fn object(members: &Members<'_>, name: &str) -> Result<String, RpcError> {
    match members.get(name).map(|value| value.get()) {
        None | Some("null") => Ok("{}".to_owned()),
        Some(text) if text.len() > ABOUT_CLIENT_LIMIT_BYTES => Err(RpcError::invalid_params(format!(
            "params.{name} has {} bytes, it may have at most {ABOUT_CLIENT_LIMIT_BYTES}",
            text.len()
        ))),
        Some(text) if Kind::of(text) == Kind::Object => Ok(text.to_owned()),
        Some(_) => Err(RpcError::invalid_params(format!(
            "params.{name} must be an object"
        ))),
    }
}

/// How much of each a session's record takes (session.proto, `CreateSessionRequest`).
const ABOUT_CLIENT_LIMIT_BYTES: usize = 64 * 1024;

/// The result of `initialize`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InitializeResult {
    protocol_version: &'static str,
    capabilities: ServerCapabilities,
    server_info: Implementation,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
}

/// What the server says about itself, as far as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    /// By which clients show it.
    pub(crate) title: String,
    /// For the models that work with it.
    pub(crate) instructions: Option<String>,
}

impl Default for About {
    fn default() -> About {
        About {
            title: "Tidegate".to_owned(),
            instructions: None,
        }
    }
}

impl About {
    /// Returns who the server is as JSON, for the results of the modern era (MCP 2026-07-28, schema, `Implementation`).
    pub(crate) fn server_info(&self) -> String {
        json!({"name": NAME, "title": self.title, "version": env!("CARGO_PKG_VERSION")}).to_string()
    }
}

impl InitializeResult {
    /// Makes the result; what the server can do is the same for everyone.
    pub(crate) fn new(version: Version, about: &About) -> InitializeResult {
        InitializeResult {
            protocol_version: version.as_str(),
            capabilities: ServerCapabilities::default(),
            server_info: Implementation {
                name: NAME,
                title: about.title.clone(),
                version: env!("CARGO_PKG_VERSION"),
            },
            instructions: about.instructions.clone(),
        }
    }
}

/// The result of `server/discover` (MCP 2026-07-28, Discovery).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DiscoverResult {
    supported_versions: &'static [&'static str],
    capabilities: ServerCapabilities,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
}

impl DiscoverResult {
    /// Makes the result; `supported` are the versions of the modern era.
    pub(crate) fn new(supported: &'static [&'static str], about: &About) -> DiscoverResult {
        DiscoverResult {
            supported_versions: supported,
            capabilities: ServerCapabilities {
                extensions: Some(Extensions::default()),
                ..ServerCapabilities::default()
            },
            instructions: about.instructions.clone(),
        }
    }
}

/// The extensions that are served (MCP 2026-07-28, Versioning, Extension Negotiation).
#[derive(Clone, Debug, Default, Serialize)]
struct Extensions {
    #[serde(rename = "dev.tidegate/resume")]
    resume: EmptyResult,
}

/// What the server can do: all of it, always (rule B-3.2).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerCapabilities {
    tools: ListCapability,
    resources: ResourcesCapability,
    prompts: ListCapability,
    completions: EmptyResult,
    logging: EmptyResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<Extensions>,
}

impl Default for ServerCapabilities {
    fn default() -> ServerCapabilities {
        ServerCapabilities {
            tools: ListCapability { list_changed: true },
            resources: ResourcesCapability {
                subscribe: true,
                list_changed: true,
            },
            prompts: ListCapability { list_changed: true },
            completions: EmptyResult {},
            logging: EmptyResult {},
            extensions: None,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListCapability {
    list_changed: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourcesCapability {
    subscribe: bool,
    list_changed: bool,
}

/// Who the server is.
#[derive(Clone, Debug, Serialize)]
struct Implementation {
    name: &'static str,
    title: String,
    version: &'static str,
}

/// One page of `resources/list`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourcesListResult {
    /// Sorted by URI.
    pub(crate) resources: Vec<Resource>,
    /// Where the next page begins; `None` on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

/// One entry of `resources/list`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    /// What to read it by.
    pub(crate) uri: String,
    /// Its name for programs.
    pub(crate) name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// What it is, for a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// What a read gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<String>,
}

/// The result of `resources/read`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReadResourceResult {
    /// One entry for a resource of ours.
    pub(crate) contents: Vec<TextContents>,
}

/// The text of a resource.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextContents {
    /// In the spelling of the request.
    pub(crate) uri: String,
    /// What the text is.
    pub(crate) mime_type: &'static str,
    /// The text itself.
    pub(crate) text: String,
}

/// `{}`
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct EmptyResult {}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::{Value, json};

    use super::super::era::{Version, supported};
    use super::super::error::{INVALID_PARAMS, RpcError};
    use super::super::message::{Body, Message, parse};
    use super::{
        About, DiscoverResult, EmptyResult, InitializeParams, InitializeResult, ReadResourceResult, Resource,
        ResourcesListResult, TextContents,
    };

    fn read(params: &str) -> Result<InitializeParams, RpcError> {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
        let Ok(Body::Single(Message::Request(request))) = parse(body.as_bytes()) else {
            panic!("{body} is no request");
        };
        InitializeParams::read(&request.params)
    }

    #[test]
    fn a_client_says_who_it_is() {
        let params = r#"{"protocolVersion":"1.0","clientInfo":{"name":"a", "version":"1"},"capabilities":{"roots":{}}}"#;
        let expected = InitializeParams {
            protocol_version: "1.0".to_owned(),
            client_info: r#"{"name":"a", "version":"1"}"#.to_owned(),
            client_capabilities: r#"{"roots":{}}"#.to_owned(),
        };
        assert_eq!(read(params), Ok(expected));
        let bare = read(r#"{"protocolVersion":"","clientInfo":null}"#).unwrap();
        assert_eq!(
            (bare.client_info.as_str(), bare.client_capabilities.as_str()),
            ("{}", "{}")
        );
    }

    #[test]
    fn who_names_no_version_is_told_which_there_are() {
        for params in [
            "null",
            "{}",
            "[]",
            "\"2025-11-25\"",
            r#"{"protocolVersion":null}"#,
            r#"{"protocolVersion":20251125}"#,
        ] {
            let error = read(params).unwrap_err();
            assert_eq!(error.code, INVALID_PARAMS, "{params}");
            assert_eq!(
                *error.data.unwrap(),
                json!({"supported": supported()}),
                "{params}"
            );
        }
        for params in [
            r#"{"protocolVersion":"a","clientInfo":[]}"#,
            r#"{"protocolVersion":"a","capabilities":"x"}"#,
        ] {
            assert_eq!(read(params).unwrap_err().code, INVALID_PARAMS, "{params}");
        }
    }

    fn check(result: &impl Serialize, expected: Value) {
        assert_eq!(serde_json::to_value(result).unwrap(), expected);
    }

    #[test]
    fn results_have_the_names_of_the_specification() {
        let mut initialized = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {
                "tools": {"listChanged": true},
                "resources": {"subscribe": true, "listChanged": true},
                "prompts": {"listChanged": true},
                "completions": {},
                "logging": {},
            },
            "serverInfo": {"name": "tidegate", "title": "Tidegate", "version": env!("CARGO_PKG_VERSION")},
        });
        check(
            &InitializeResult::new(Version::V2025_06_18, &About::default()),
            initialized.clone(),
        );
        let mut capabilities = initialized["capabilities"].clone();
        capabilities["extensions"] = json!({"dev.tidegate/resume": {}});
        check(
            &DiscoverResult::new(&["2026-07-28"], &About::default()),
            json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}),
        );
        initialized["instructions"] = "read first".into();
        initialized["serverInfo"]["title"] = "Shop".into();
        let about = About {
            title: "Shop".to_owned(),
            instructions: Some("read first".to_owned()),
        };
        check(&InitializeResult::new(Version::V2025_06_18, &about), initialized);

        let bare = Resource {
            uri: "a:b".to_owned(),
            name: "b".to_owned(),
            title: None,
            description: None,
            mime_type: None,
        };
        let full = Resource {
            title: Some("B".to_owned()),
            description: Some("d".to_owned()),
            mime_type: Some("application/json".to_owned()),
            ..bare.clone()
        };
        check(
            &ResourcesListResult {
                resources: vec![bare, full],
                next_cursor: Some("c".to_owned()),
            },
            json!({"resources": [
                {"uri": "a:b", "name": "b"},
                {"uri": "a:b", "name": "b", "title": "B", "description": "d", "mimeType": "application/json"},
            ], "nextCursor": "c"}),
        );
        check(&ResourcesListResult::default(), json!({"resources": []}));

        let contents = TextContents {
            uri: "a:b".to_owned(),
            mime_type: "application/json",
            text: "{}".to_owned(),
        };
        check(
            &ReadResourceResult {
                contents: vec![contents],
            },
            json!({"contents": [{"uri": "a:b", "mimeType": "application/json", "text": "{}"}]}),
        );
        check(&EmptyResult {}, json!({}));
    }
}
