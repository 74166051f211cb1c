//! A log file that can be opened again while it is written.
//!
//! Tools such as logrotate rename a log file and then send SIGHUP: from then on lines belong into a new file of the old
//! name. **What it does not do.** It rotates nothing itself, and it waits for no lock: a disk that hangs under the writer does
//! not block the thread that handles signals.

use crate::diagnostic;
use arc_swap::ArcSwap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file to which lines are appended. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ReopenableFile(Arc<OpenFile>);

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    file: ArcSwap<File>,
}

impl ReopenableFile {
    /// Opens or creates the file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = ArcSwap::from_pointee(open(path)?);
        Ok(Self(Arc::new(OpenFile { path: path.to_owned(), file })))
    }

    /// Opens the path again. The old file is closed as soon as nothing is being written to it. If the path cannot be
    /// opened, the old file stays in use, because lines in the wrong place are better than none.
    pub(crate) fn reopen(&self) {
        let path = self.0.path.display();
        match open(&self.0.path) {
            Ok(file) => {
                self.0.file.store(Arc::new(file));
                diagnostic!(ACCESS_LOG_REOPENED, path = %path, "access log {path} reopened");
            }
            Err(error) => diagnostic!(
                ACCESS_LOG_NOT_REOPENED,
                path = %path,
                reason = %error,
                "cannot reopen the access log {path}: {error}; lines still go to the file that was open"
            ),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl Write for ReopenableFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&**self.0.file.load()).write(bytes)
    }

    /// All of it into one file: a line is not split between the old and the new one.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&**self.0.file.load()).write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&**self.0.file.load()).flush()
    }
}

#[cfg(test)]
mod tests {
    use super::ReopenableFile;
    use seawall_testkit::TestDirectory;
    use std::fs;
    use std::io::Write as _;

    #[test]
    fn lines_go_to_the_new_file_after_a_rename_and_to_the_old_one_if_there_can_be_none() {
        let directory = TestDirectory::new().unwrap();
        let (path, old) = (directory.path().join("access.log"), directory.path().join("access.log.1"));
        let mut file = ReopenableFile::open(&path).unwrap();
        file.write_all(b"one\n").unwrap();
        fs::rename(&path, &old).unwrap();
        file.write_all(b"two\n").unwrap();
        file.reopen();
        file.write_all(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "one\ntwo\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        file.reopen();
        file.write_all(b"four\n").unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }
}
