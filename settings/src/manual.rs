//! Shell completions and man pages, from the same declarations as the command line.

use std::io::{Error, ErrorKind, Write};
use std::path::PathBuf;

use clap::Command;

/// Prints a script that completes the command line.
#[derive(Clone, Debug, clap::Args)]
pub struct Completions {
    /// The shell that it is for
    shell: clap_complete::Shell,
}

impl Completions {
    /// Writes the script for `command`.
    ///
    /// # Errors
    /// The output is closed.
    pub fn write(&self, mut command: Command, output: &mut dyn Write) -> std::io::Result<()> {
        let name = command.get_name().to_owned();
        // The generator does not return errors of its output, so it writes to memory.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        print(&script, output)
    }
}

/// Prints or writes the man pages.
#[derive(Clone, Debug, clap::Args)]
pub struct Manual {
    /// Print the page of this command; without it that of the program
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Option<String>,
    /// Write the pages of the program and of all its commands into this directory, which is made if it is missing
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,
}

impl Manual {
    /// Prints the page of `command` or writes all pages.
    ///
    /// # Errors
    /// There is no such command, or the output or the directory cannot be written; the text says what to do.
    pub fn write(&self, command: Command, output: &mut dyn Write) -> std::io::Result<()> {
        let mut command = command.disable_help_subcommand(true);
        command.build();
        if let Some(directory) = &self.out {
            let failed = |error: Error| {
                let reason = format!("cannot write man pages to `{}`: {error}", directory.display());
                Error::new(error.kind(), reason)
            };
            std::fs::create_dir_all(directory).map_err(failed)?;
            return clap_mangen::generate_to(command, directory).map_err(failed);
        }
        let page = match &self.command {
            None => command,
            Some(name) => match command.find_subcommand(name) {
                Some(found) => found.clone(),
                None => {
                    let reason = format!("there is no command `{name}`, so no page of it; see --help");
                    return Err(Error::new(ErrorKind::NotFound, reason));
                }
            },
        };
        let mut text = Vec::new();
        clap_mangen::Man::new(page).render(&mut text)?;
        print(&text, output)
    }
}

fn print(text: &[u8], output: &mut dyn Write) -> std::io::Result<()> {
    let printed = output.write_all(text).and_then(|()| output.flush());
    printed.map_err(|error| {
        let reason = format!("cannot write to the standard output: {error}");
        Error::new(error.kind(), reason)
    })
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;
    use crate::arguments::Arguments;
    use crate::testing::Everything;

    fn program() -> Command {
        let serve = Arguments::<Everything>::augment_args(Command::new("serve").about("Serves."));
        Command::new("app").about("An app.").subcommand(serve)
    }

    #[test]
    fn the_command_line_is_consistent() {
        program().debug_assert();
    }

    /// The man command with these words prints the text, or says what is wrong.
    fn manual(words: &[&str]) -> Result<String, String> {
        let command = Manual::augment_args(Command::new("man").no_binary_name(true));
        let matches = command.try_get_matches_from(words).unwrap();
        let manual = Manual::from_arg_matches(&matches).unwrap();
        let mut output = Vec::new();
        let written = manual.write(program(), &mut output);
        written.map_err(|error| error.to_string())?;
        Ok(String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_page_is_printed() {
        let page = manual(&[]).unwrap();
        assert!(page.contains(".TH app 1") && page.contains("An app."), "{page}");
        let page = manual(&["serve"]).unwrap();
        assert!(
            page.contains("app\\-serve") && page.contains("session.idle_timeout"),
            "{page}"
        );
        assert!(manual(&["sing"]).unwrap_err().contains("no command `sing`"));
    }

    #[test]
    fn all_pages_are_written_into_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("a/b");
        assert_eq!(manual(&["--out", &out.display().to_string()]), Ok(String::new()));
        for (name, text) in [("app.1", "An app."), ("app-serve.1", "print\\-config")] {
            let page = std::fs::read_to_string(out.join(name)).unwrap();
            assert!(page.contains(text), "{page}");
        }
        std::fs::write(directory.path().join("file"), "").unwrap();
        let taken = directory.path().join("file/x").display().to_string();
        let reason = manual(&["--out", &taken]).unwrap_err();
        assert!(
            reason.starts_with(&format!("cannot write man pages to `{taken}`: ")),
            "{reason}"
        );
    }

    #[test]
    fn every_shell_completes_the_flags() {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let command = Completions::augment_args(Command::new("completions").no_binary_name(true));
            let matches = command.try_get_matches_from([shell]).unwrap();
            let mut output = Vec::new();
            Completions::from_arg_matches(&matches)
                .unwrap()
                .write(program(), &mut output)
                .unwrap();
            let script = String::from_utf8(output).unwrap();
            for flag in ["print-config", "ring-bytes"] {
                assert!(script.contains(flag), "{shell}: {script}");
            }
        }
    }
}
