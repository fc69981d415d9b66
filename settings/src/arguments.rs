//! The command line of a program that is configured, and its way from there to the settings.

use std::ffi::{OsStr, OsString};
use std::marker::PhantomData;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use crate::declaration::{Declaration, declarations};
use crate::effective;
use crate::file;
use crate::keys::{Keys, Settings};
use crate::mistake::{Mistake, Mistakes};
use crate::origin::{Given, Origin};
use crate::reference;
use crate::sources::{self, FILE_VARIABLE};

const CONFIG: &str = "config";
const SET: &str = "set";
const PRINT: &str = "print-config";

/// The arguments of a command that is configured by `S`: the keys' own flags, `--set`, `--config`, `--print-config`.
#[derive(Clone, Debug)]
pub struct Arguments<S> {
    /// By the names of the flags, as often as they were given.
    flags: Vec<(Declaration, OsString)>,
    set: Vec<OsString>,
    config: Vec<OsString>,
    print: bool,
    settings: PhantomData<fn() -> S>,
}

/// What the command is to do.
#[derive(Debug)]
pub enum Start<S> {
    /// Work, with these settings.
    Run(S),
    /// Print this text and end: what counts, and where it comes from.
    Print(String),
}

impl<S: Settings> Arguments<S> {
    /// Reads the settings from these arguments, the environment of this process and the configuration file.
    ///
    /// # Errors
    /// All mistakes, from whichever source.
    pub fn read(self) -> Result<Start<S>, Mistakes> {
        self.read_with(std::env::vars_os())
    }

    pub(crate) fn read_with(
        self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Start<S>, Mistakes> {
        let declarations = declarations::<S>();
        let (mut given, mut mistakes) = (Vec::new(), Vec::new());
        for (declaration, value) in self.flags {
            let origin = Origin::Flag(flag_text(&declaration));
            match sources::plain(&value) {
                Ok((raw, shown)) => given.push(Given {
                    key: declaration.key,
                    raw,
                    shown,
                    origin,
                }),
                Err(reason) => mistakes.push(Mistake::new(origin, declaration.key, reason)),
            }
        }
        for pair in &self.set {
            sources::set(pair, &declarations, &mut given, &mut mistakes);
        }
        let variables: Vec<(OsString, OsString)> = variables.into_iter().collect();
        let file = config_file(&self.config, &variables, &mut mistakes);
        sources::environment(variables.into_iter(), &declarations, &mut given, &mut mistakes);
        if let Some(path) = &file {
            let contents = file::read(Path::new(path), &declarations);
            given.extend(contents.given);
            mistakes.extend(contents.mistakes);
        }
        let mut keys = Keys::reading(given);
        let settings = S::declare(&mut keys);
        let (effective, wrong) = keys.into_settings();
        mistakes.extend(wrong);
        match Mistakes::of(mistakes) {
            Some(mistakes) => Err(mistakes),
            None if self.print => Ok(Start::Print(effective::print(&effective))),
            None => Ok(Start::Run(settings)),
        }
    }
}

/// Finds the configuration file, if one is named.
fn config_file(
    flags: &[OsString],
    variables: &[(OsString, OsString)],
    mistakes: &mut Vec<Mistake>,
) -> Option<OsString> {
    let variable = variables
        .iter()
        .find(|(name, _)| name == OsStr::new(FILE_VARIABLE));
    let (path, origin) = match (flags, variable) {
        ([], None) => return None,
        ([], Some((_, path))) => (path, Origin::Environment(FILE_VARIABLE.to_owned())),
        ([path, more @ ..], _) => {
            let origin = Origin::Flag("--config".to_owned());
            if !more.is_empty() {
                let reason = "it is given twice; there is one configuration file";
                mistakes.push(Mistake::new(origin.clone(), "", reason));
            }
            (path, origin)
        }
    };
    if path.is_empty() {
        mistakes.push(Mistake::new(origin, "", "it is empty; name a file"));
        return None;
    }
    Some(path.clone())
}

fn flag_text(declaration: &Declaration) -> String {
    let name = declaration.flag.map_or("", |flag| flag.name);
    format!("--{name}")
}

impl<S: Settings> clap::Args for Arguments<S> {
    fn augment_args(command: Command) -> Command {
        let declarations = declarations::<S>();
        let mut command = command.after_long_help(reference::help(&declarations));
        for declaration in &declarations {
            let Some(flag) = declaration.flag else {
                continue;
            };
            // Repeated flags are a mistake, but told with the others.
            let mut argument = Arg::new(flag.name)
                .long(flag.name)
                .value_name(flag.value_name)
                .value_parser(clap::value_parser!(OsString))
                .action(ArgAction::Append)
                .help(flag_help(declaration));
            if declaration.is_switch {
                argument = argument
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true");
            }
            command = command.arg(argument);
        }
        let files = |argument: Arg| {
            argument
                .value_parser(clap::value_parser!(OsString))
                .action(ArgAction::Append)
        };
        command
            .arg(
                files(Arg::new(CONFIG).long("config").value_name("FILE"))
                    .value_hint(clap::ValueHint::FilePath)
                    .help(format!(
                        "Read the configuration from this TOML file [env: {FILE_VARIABLE}]"
                    )),
            )
            .arg(
                files(Arg::new(SET).long("set").value_name("KEY=VALUE"))
                    .help("Set any key, as in --set session.idle_timeout=10m; may be given many times"),
            )
            .arg(
                Arg::new(PRINT)
                    .long("print-config")
                    .action(ArgAction::SetTrue)
                    .help("Print the configuration that counts and where it comes from, and end"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The first sentence of the documentation, and the default.
fn flag_help(declaration: &Declaration) -> String {
    let first = declaration.doc.split_inclusive(". ").next().unwrap_or_default();
    let first = first.trim().trim_end_matches('.').replace('`', "");
    match &declaration.default {
        Some(_) if declaration.is_switch => first,
        Some(default) => format!("{first} [default: {}]", default.trim_matches('"')),
        None => first,
    }
}

impl<S: Settings> FromArgMatches for Arguments<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let all = |name: &str| -> Vec<OsString> {
            let values = matches.get_many::<OsString>(name);
            values.map(|values| values.cloned().collect()).unwrap_or_default()
        };
        let mut flags = Vec::new();
        for declaration in declarations::<S>() {
            if let Some(flag) = declaration.flag {
                let values = all(flag.name);
                flags.extend(values.into_iter().map(|value| (declaration.clone(), value)));
            }
        }
        Ok(Arguments {
            flags,
            set: all(SET),
            config: all(CONFIG),
            print: matches.get_flag(PRINT),
            settings: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
