//! Remembers the size of the fleet in the state directory.
//!
//! A node that starts while the shared store is down enforces its share of every limit, and must know the number of
//! nodes for that. The file holds one number and is replaced atomically when the number changes.

use seawall_core::time::Timestamp;
use seawall_store::FleetSize;
use std::path::{Path, PathBuf};

/// The file's name in the state directory.
const FILE: &str = "fleet-size";

/// The fleet size, persisted on change.
pub(crate) struct FleetMemory {
    size: FleetSize,
    path: PathBuf,
    /// The number in the file, or the one that could not be written.
    kept: Option<u32>,
}

impl FleetMemory {
    /// Reads the size from the state directory; the result is never below `least`, the size in the settings. A missing
    /// or malformed file counts as no file.
    pub(crate) fn read(folder: &Path, least: Option<u32>) -> Self {
        let path = folder.join(FILE);
        let kept = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        Self { size: FleetSize::new(least, kept), path, kept }
    }

    pub(crate) const fn nodes(&self) -> u32 {
        self.size.nodes()
    }

    /// Records a count of live nodes. Returns the fleet size to use for limits.
    pub(crate) fn counted(&mut self, nodes: u32, now: Timestamp) -> u32 {
        let size = self.size.counted(nodes, now);
        if self.kept != Some(size) {
            // A failed write is reported once per size. The limits hold meanwhile.
            self.kept = Some(size);
            if let Err(error) = self.write(size) {
                eprintln!("seawall: cannot keep the size of the fleet in {}: {error}", self.path.display());
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

    #[test]
    fn the_next_start_knows_what_the_last_one_counted_and_survives_nonsense() {
        let folder = std::env::temp_dir().join(format!("seawall-fleet-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut first = FleetMemory::read(&folder, None);
        assert_eq!((first.nodes(), first.counted(3, Timestamp::ZERO)), (1, 3));
        assert_eq!(FleetMemory::read(&folder, None).nodes(), 3);
        assert_eq!(FleetMemory::read(&folder, Some(5)).nodes(), 5);
        for nonsense in ["", "many", "-1", "99999999999999999999"] {
            std::fs::write(folder.join(FILE), nonsense).unwrap();
            assert_eq!(FleetMemory::read(&folder, None).nodes(), 1, "{nonsense}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
        // It works without the directory, too.
        let mut lost = FleetMemory::read(&folder, Some(2));
        assert_eq!(lost.counted(4, Timestamp::ZERO), 4);
    }
}
