//! Where an export goes.

use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Stdout, Write};
use std::path::{Path, PathBuf};

/// How much is written at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// A place to write to.
pub(super) enum Target {
    Stdout(BufWriter<Stdout>),
    /// What is there already and is no file of its own: a pipe, a device.
    Device(BufWriter<File>),
    File(NewFile),
}

/// A file that appears under its name when it is complete; dropped before, it leaves nothing behind.
pub(super) struct NewFile {
    writer: BufWriter<File>,
    /// Where it is until then.
    partial: PathBuf,
    path: PathBuf,
    is_complete: bool,
}

impl Target {
    /// Opens a file for writing, or the standard output.
    pub(super) fn open(path: Option<&Path>) -> Result<Target, Error> {
        let Some(path) = path else {
            return Ok(Target::Stdout(BufWriter::with_capacity(
                BUFFER_BYTES,
                std::io::stdout(),
            )));
        };
        // A link stays a link: the file that it names is replaced.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_absent| path.to_owned());
        match std::fs::metadata(&path) {
            Ok(present) if present.is_dir() => return Err(Error::from(ErrorKind::IsADirectory)),
            Ok(present) if !present.is_file() => {
                let file = File::options().write(true).open(&path)?;
                return Ok(Target::Device(BufWriter::with_capacity(BUFFER_BYTES, file)));
            }
            Ok(_) | Err(_) => {}
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".partial-{}", std::process::id()));
        let partial = path.with_file_name(name);
        let file = File::create(&partial)?;
        Ok(Target::File(NewFile {
            writer: BufWriter::with_capacity(BUFFER_BYTES, file),
            partial,
            path,
            is_complete: false,
        }))
    }

    /// Completes the output: everything is with whoever reads it, or on the disk under its name.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        match &mut self {
            Target::Stdout(_) | Target::Device(_) => Ok(()),
            Target::File(file) => {
                file.writer.get_ref().sync_all()?;
                std::fs::rename(&file.partial, &file.path)?;
                file.is_complete = true;
                Ok(())
            }
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        match self {
            Target::Stdout(writer) => writer.write(bytes),
            Target::Device(writer) => writer.write(bytes),
            Target::File(file) => file.writer.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        match self {
            Target::Stdout(writer) => writer.flush(),
            Target::Device(writer) => writer.flush(),
            Target::File(file) => file.writer.flush(),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_complete {
            // What is left over then has a name that says what it is.
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}
