//! Temporary directories that remove themselves.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A new, empty directory that is removed when this is dropped, also on a panic.
#[derive(Debug)]
pub struct TestDirectory(PathBuf);

impl TestDirectory {
    /// A directory among the temporary files of the system.
    pub fn new() -> io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// A directory on a RAM disk, where there is one: for tests that write much and do not test disks.
    pub fn in_memory() -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::below(memory) } else { Self::new() }
    }

    fn below(parent: &Path) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("seawall-test-{}-{number}", std::process::id()));
        // A process with the same id may have been killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into the directory and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::write(&path, content)?;
        Ok(path)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        // A directory that cannot be removed is left to the system's cleanup of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::TestDirectory;

    #[test]
    fn each_directory_is_its_own_and_is_removed() {
        let (first, second) = (TestDirectory::new().unwrap(), TestDirectory::in_memory().unwrap());
        assert_ne!(first.path(), second.path());
        let file = first.write("a", "text").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
        drop(first);
        assert!(!file.exists() && second.path().is_dir());
    }
}
