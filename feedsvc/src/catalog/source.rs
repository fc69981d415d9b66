//! Where the tables come from: schema files, a text, or what the store has already.

use std::path::{Path, PathBuf};

use super::model::TableDefinition;
use super::problem::SchemaError;
use super::sdl::parse_documents;

/// Where the service takes its tables from.
#[derive(Clone, Debug)]
pub enum SchemaSource {
    /// A `.graphql` file, or a directory whose `.graphql` files are read in the order of their names.
    Path(PathBuf),
    /// A schema held in memory; the name stands for the file in messages.
    Text {
        /// The name that messages give as the file.
        name: String,
        /// The schema in GraphQL SDL.
        sdl: String,
    },
    /// The tables that the store has from an earlier run; it must have some.
    Stored,
}

/// Returns what to do about a schema that cannot be read.
fn advice(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::InvalidData => "save it as UTF-8",
        _ => "check the path and its permissions",
    }
}

/// Why the tables could not be taken from their source.
#[derive(Debug, thiserror::Error)]
pub enum SchemaReadError {
    /// A file or directory cannot be read.
    #[error("cannot read schema `{}`: {source}; {}", path.display(), advice(source))]
    Unreadable {
        /// What was read.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The directory has no schema file.
    #[error("cannot read schema `{}`: the directory has no .graphql file; put one there or name another path", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// The schema itself has errors.
    #[error(transparent)]
    Invalid(#[from] SchemaError),
}

impl SchemaSource {
    /// Reads and parses the schema; `None` where the store has it.
    pub(crate) fn read(&self) -> Result<Option<Vec<TableDefinition>>, SchemaReadError> {
        let documents = match self {
            SchemaSource::Path(path) => read_documents(path)?,
            SchemaSource::Text { name, sdl } => vec![(name.clone(), sdl.clone())],
            SchemaSource::Stored => return Ok(None),
        };
        Ok(Some(parse_documents(&documents)?))
    }
}

fn read_documents(path: &Path) -> Result<Vec<(String, String)>, SchemaReadError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        |source| SchemaReadError::Unreadable { path, source }
    };
    let mut files = Vec::new();
    if path.is_dir() {
        for file in std::fs::read_dir(path).map_err(unreadable(path))? {
            let file = file.map_err(unreadable(path))?.path();
            if file.extension().is_some_and(|extension| extension == "graphql") && file.is_file() {
                files.push(file);
            }
        }
        files.sort();
        if files.is_empty() {
            return Err(SchemaReadError::Empty {
                path: path.to_owned(),
            });
        }
    } else {
        files.push(path.to_owned());
    }
    files
        .into_iter()
        .map(|file| {
            let text = std::fs::read_to_string(&file).map_err(unreadable(&file))?;
            Ok((file.display().to_string(), text))
        })
        .collect()
}
