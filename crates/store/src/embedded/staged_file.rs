//! The storage backend of the database: a file whose changes can be staged in memory.
//!
//! Until the file has been validated, no write reaches it: changes are kept in memory, and discarded with the database
//! if the file is rejected. So a rejected file is never modified, whatever the database does to repair or to close it.

use crate::lock;
use redb::StorageBackend;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A plain file as a storage backend.
#[derive(Debug)]
struct FileBackend(File);

impl StorageBackend for FileBackend {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write_all_at(data, offset)
    }
}

/// A change of the file.
#[derive(Debug)]
enum FileChange {
    Write(u64, Vec<u8>),
    SetLength(u64),
    Sync,
}

/// The file with its staged changes.
#[derive(Debug)]
struct StagedChanges {
    length: u64,
    /// How much of the original file is still part of it. A range that was cut off and added again reads as zeros.
    original_length: u64,
    /// All changes in order. In another order, the file could be truncated where it is not consistent.
    changes: Vec<FileChange>,
}

#[derive(Debug)]
enum StagingState {
    Staging(StagedChanges),
    Applied,
    /// Applying the changes failed midway. Further writes would corrupt the file.
    Failed,
}

#[derive(Debug)]
struct StagedFileState {
    file: Box<dyn StorageBackend>,
    state: Mutex<StagingState>,
    is_applied: AtomicBool,
}

/// A file that is modified only after [`apply_staged`](Self::apply_staged). Cloning it gives another handle to the same file.
#[derive(Clone, Debug)]
pub(super) struct StagedFile(Arc<StagedFileState>);

impl StagedFile {
    pub(super) fn new(file: File) -> io::Result<Self> {
        Self::with_backend(FileBackend(file))
    }

    pub(super) fn with_backend(file: impl StorageBackend) -> io::Result<Self> {
        let length = file.len()?;
        let state = Mutex::new(StagingState::Staging(StagedChanges {
            length,
            original_length: length,
            changes: Vec::new(),
        }));
        Ok(Self(Arc::new(StagedFileState {
            file: Box::new(file),
            state,
            is_applied: AtomicBool::new(false),
        })))
    }

    /// Applies the staged changes; later changes go to the file directly.
    pub(super) fn apply_staged(&self) -> io::Result<()> {
        let mut state = lock(&self.0.state);
        match std::mem::replace(&mut *state, StagingState::Failed) {
            StagingState::Staging(staged) => {
                for change in &staged.changes {
                    match change {
                        FileChange::Write(offset, bytes) => self.0.file.write(*offset, bytes)?,
                        FileChange::SetLength(length) => self.0.file.set_len(*length)?,
                        FileChange::Sync => self.0.file.sync_data()?,
                    }
                }
                self.0.file.sync_data()?;
            }
            StagingState::Applied => {}
            StagingState::Failed => return Err(incomplete_apply()),
        }
        *state = StagingState::Applied;
        self.0.is_applied.store(true, Ordering::Release);
        Ok(())
    }

    /// Runs the first closure while changes are staged, and the second one after that.
    fn dispatch<T>(
        &self,
        while_staging: impl FnOnce(&mut StagedChanges, &dyn StorageBackend) -> io::Result<T>,
        once_applied: impl FnOnce(&dyn StorageBackend) -> io::Result<T>,
    ) -> io::Result<T> {
        let file = &*self.0.file;
        if self.0.is_applied.load(Ordering::Acquire) {
            return once_applied(file);
        }
        let mut state = lock(&self.0.state);
        match &mut *state {
            StagingState::Staging(staged) => while_staging(staged, file),
            StagingState::Applied => {
                drop(state);
                once_applied(file)
            }
            StagingState::Failed => Err(incomplete_apply()),
        }
    }
}

fn incomplete_apply() -> io::Error {
    io::Error::other("an earlier write to the file is incomplete")
}

impl StagedChanges {
    fn read(&self, file: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if end > self.length {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "read beyond the end of the file"));
        }
        let on_disk = self.original_length.saturating_sub(offset).min(out.len() as u64);
        let (old, new) = out.split_at_mut(usize::try_from(on_disk).unwrap_or(usize::MAX));
        file.read(offset, old)?;
        new.fill(0);
        for change in &self.changes {
            let (start, bytes) = match change {
                FileChange::Write(start, bytes) => (*start, Some(bytes)),
                // A range beyond the end reads as zeros when the file grows again.
                FileChange::SetLength(length) => (*length, None),
                FileChange::Sync => continue,
            };
            let from = offset.max(start);
            let to = bytes.map_or(end, |bytes| end.min(start.saturating_add(bytes.len() as u64)));
            if from < to {
                let index = |position: u64, base: u64| usize::try_from(position - base).unwrap_or(usize::MAX);
                let out = &mut out[index(from, offset)..index(to, offset)];
                match bytes {
                    Some(bytes) => out.copy_from_slice(&bytes[index(from, start)..index(to, start)]),
                    None => out.fill(0),
                }
            }
        }
        Ok(())
    }
}

impl StorageBackend for StagedFile {
    fn len(&self) -> Result<u64, io::Error> {
        self.dispatch(|staged, _| Ok(staged.length), StorageBackend::len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        // Only one of the two closures is called, and both need the buffer.
        let out = std::cell::RefCell::new(out);
        self.dispatch(
            |staged, file| staged.read(file, offset, *out.borrow_mut()),
            |file| file.read(offset, *out.borrow_mut()),
        )
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        let stage = |staged: &mut StagedChanges, _: &dyn StorageBackend| {
            staged.length = length;
            staged.original_length = staged.original_length.min(length);
            staged.changes.push(FileChange::SetLength(length));
            Ok(())
        };
        self.dispatch(stage, |file| file.set_len(length))
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let stage = |staged: &mut StagedChanges, _: &dyn StorageBackend| {
            staged.changes.push(FileChange::Sync);
            Ok(())
        };
        self.dispatch(stage, StorageBackend::sync_data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let stage = |staged: &mut StagedChanges, _: &dyn StorageBackend| {
            staged.length = staged.length.max(offset.saturating_add(data.len() as u64));
            staged.changes.push(FileChange::Write(offset, data.to_vec()));
            Ok(())
        };
        self.dispatch(stage, |file| file.write(offset, data))
    }
}
