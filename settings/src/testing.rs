//! What the tests of this crate share: a program with a key of every kind, and a way to start it with anything given.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};

use crate::arguments::{Arguments, Start};
use crate::keys::{Keys, Settings};
use crate::secret::Secret;
use crate::size::{gibibytes, kibibytes, mebibytes};

/// Settings with a key of every kind.
#[derive(Debug, PartialEq)]
pub(crate) struct Everything {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) schema: Option<PathBuf>,
    pub(crate) ring_bytes: usize,
    pub(crate) reads: u16,
    pub(crate) idle_timeout: Duration,
    pub(crate) strict: bool,
    pub(crate) title: String,
    pub(crate) motto: Option<String>,
    pub(crate) level: u8,
    pub(crate) origins: Vec<String>,
    pub(crate) token: Option<Secret>,
}

impl Settings for Everything {
    fn declare(keys: &mut Keys) -> Everything {
        let everything = Everything {
            listen: keys
                .key("listen", "The address to listen on.")
                .flag("listen", "ADDRESS")
                .address(SocketAddr::from(([127, 0, 0, 1], 80))),
            data: keys.key("data", "The data.").flag("data", "DIR").path("data"),
            schema: keys
                .key("schema", "The schema.")
                .example("schema.graphql")
                .optional_path(),
            ring_bytes: keys
                .key("ring.bytes", "How much the ring may take.")
                .flag("ring-bytes", "SIZE")
                .bytes(mebibytes(64), kibibytes(64)..=gibibytes(4)),
            reads: keys
                .key("reads", "How many reads run at a time.")
                .count(8, 1..=1_000),
            idle_timeout: keys
                .key("session.idle_timeout", "How long a session may be idle.")
                .duration(
                    Duration::from_secs(1_800),
                    Duration::from_secs(1)..=Duration::from_secs(86_400),
                ),
            strict: keys
                .key("strict", "Whether it is strict.")
                .flag("strict", "BOOLEAN")
                .switch(false),
            title: keys.key("server.title", "The title.").text("Title"),
            motto: keys.key("server.motto", "The motto.").optional_text(),
            level: keys
                .key("log.level", "How much is logged.")
                .choice(("info", 1), &[("debug", 2), ("warn", 0)]),
            origins: keys.key("origins", "Which origins are allowed.").list(
                Vec::new(),
                "an origin, as in https://example.org",
                |text| match text.starts_with("https://") {
                    true => Ok(text.to_owned()),
                    false => Err("it is no origin".to_owned()),
                },
            ),
            token: keys.key("auth.token", "Who has it may do everything.").secret(),
        };
        let is_strict = everything.strict;
        keys.check(
            "strict",
            !is_strict || everything.schema.is_some(),
            "it needs a schema; name one or leave it out",
        );
        everything
    }
}

/// Starts the program with what is given; `Err` is the text of the mistakes.
pub(crate) fn start(
    flags: &[&str],
    variables: &[(&str, &str)],
    file: Option<&Path>,
) -> Result<Start<Everything>, String> {
    let command = Arguments::<Everything>::augment_args(Command::new("serve").no_binary_name(true));
    let mut words: Vec<OsString> = flags.iter().map(OsString::from).collect();
    if let Some(file) = file {
        words.extend(["--config".into(), file.into()]);
    }
    let matches = command
        .try_get_matches_from(words)
        .map_err(|error| error.to_string())?;
    let arguments = Arguments::<Everything>::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    let variables: Vec<(OsString, OsString)> = variables
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    arguments
        .read_with(variables)
        .map_err(|mistakes| mistakes.to_string())
}

/// Starts the program as [`start`] does, for its settings.
pub(crate) fn run(
    flags: &[&str],
    variables: &[(&str, &str)],
    file: Option<&Path>,
) -> Result<Everything, String> {
    match start(flags, variables, file)? {
        Start::Run(everything) => Ok(everything),
        Start::Print(text) => Err(text),
    }
}

/// Starts the program for what it prints.
pub(crate) fn print(
    flags: &[&str],
    variables: &[(&str, &str)],
    file: Option<&Path>,
) -> Result<String, String> {
    match start(&[flags, &["--print-config"]].concat(), variables, file)? {
        Start::Run(everything) => Err(format!("{everything:?}")),
        Start::Print(text) => Ok(text),
    }
}
