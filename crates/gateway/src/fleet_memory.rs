//! Remembers the size of the fleet in the data directory.
//!
//! A node that starts while the shared store is down enforces its share of every limit, and must know the number of
//! nodes for that. The file holds one number and is replaced atomically when the number changes.

use crate::diagnostic;
use seawall_core::time::Timestamp;
use seawall_store::FleetSize;
use std::path::{Path, PathBuf};

/// The file's name in the data directory.
const FILE: &str = "fleet-size";

/// The fleet size, persisted on change.
pub(crate) struct FleetMemory {
    size: FleetSize,
    path: PathBuf,
    /// The number in the file, or the one that could not be written.
    saved: Option<u32>,
}

impl FleetMemory {
    /// Reads the size from the data directory; the result is never below `min`, the size in the settings. A missing
    /// or malformed file counts as no file.
    pub(crate) fn read(directory: &Path, min: Option<u32>) -> Self {
        let path = directory.join(FILE);
        let saved = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        Self { size: FleetSize::new(min, saved), path, saved }
    }

    pub(crate) const fn nodes(&self) -> u32 {
        self.size.nodes()
    }

    /// Records a count of live nodes. Returns the fleet size to use for limits.
    pub(crate) fn record_count(&mut self, nodes: u32, now: Timestamp) -> u32 {
        let size = self.size.observe(nodes, now);
        if self.saved != Some(size) {
            // A failed write is reported once per size. The limits hold meanwhile.
            self.saved = Some(size);
            if let Err(error) = self.write(size) {
                let path = self.path.display();
                diagnostic!(
                    FLEET_SIZE_NOT_SAVED,
                    path = %path,
                    reason = %error,
                    "cannot save the fleet size in {path}: {error}"
                );
            }
        }
        size
    }

    fn write(&self, size: u32) -> std::io::Result<()> {
        let new = self.path.with_extension("new");
        std::fs::write(&new, format!("{size}\n"))?;
        std::fs::rename(&new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::{FILE, FleetMemory};
    use seawall_core::time::Timestamp;
    use seawall_testkit::TestDirectory;

    #[test]
    fn the_next_start_knows_what_the_last_one_counted_and_survives_nonsense() {
        let kept = TestDirectory::new().unwrap();
        let directory = kept.path().to_owned();
        let mut first = FleetMemory::read(&directory, None);
        assert_eq!((first.nodes(), first.record_count(3, Timestamp::ZERO)), (1, 3));
        assert_eq!(FleetMemory::read(&directory, None).nodes(), 3);
        assert_eq!(FleetMemory::read(&directory, Some(5)).nodes(), 5);
        for nonsense in ["", "many", "-1", "99999999999999999999"] {
            std::fs::write(directory.join(FILE), nonsense).unwrap();
            assert_eq!(FleetMemory::read(&directory, None).nodes(), 1, "{nonsense}");
        }
        drop(kept);
        // It works without the directory, too.
        let mut lost = FleetMemory::read(&directory, Some(2));
        assert_eq!(lost.record_count(4, Timestamp::ZERO), 4);
    }
}
