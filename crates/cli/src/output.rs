//! Writing results: standard output, and files that must not replace others by accident.

use crate::CommandError;
use anyhow::{Context as _, anyhow};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

/// Prints the result of a command.
pub(crate) fn print(text: &str) -> Result<(), CommandError> {
    let written = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
    match written {
        // A reader that closes the pipe early has what it wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let error = anyhow::Error::new(error).context("cannot write to standard output");
            Err(CommandError::Failed(error))
        }
        _ => Ok(()),
    }
}

/// Writes a line at once, for the program that reads it while this one goes on.
pub(crate) fn write_line(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

/// Writes a file, which must not exist unless it may be overwritten.
pub(crate) fn write_file(path: &Path, text: &str, overwrite: bool) -> Result<(), CommandError> {
    let name = path.display();
    let failed = |error: anyhow::Error| CommandError::Failed(error.context(format!("cannot write {name}")));
    if !overwrite {
        let opened = OpenOptions::new().write(true).create_new(true).open(path);
        return match opened {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let error = anyhow!("{name} already exists; use --force to overwrite it");
                Err(CommandError::InvalidInput(error))
            }
            opened => opened
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .map_err(|error| failed(error.into())),
        };
    }
    // Written beside and renamed, so that a full disk leaves the existing file as it was.
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&beside, path));
    written.context("a file beside it could not be written or renamed").map_err(failed)
}
