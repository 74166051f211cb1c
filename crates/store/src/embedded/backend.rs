//! The file under the books.
//!
//! Until the file has been found to be good, nothing that is written reaches it: changes are kept in memory, and thrown away
//! with the database if the file is refused. So a file that is refused is never changed, whatever the database does to
//! repair it or to close it.

use crate::lock;
use redb::StorageBackend;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a file would be like.
#[derive(Debug)]
struct Draft {
    length: u64,
    /// How much of the file itself is still in it; what is cut off and added again is empty.
    kept: u64,
    changes: Vec<(u64, Vec<u8>)>,
}

#[derive(Debug)]
struct Shared {
    file: File,
    /// Nothing once the file has been found to be good.
    draft: Mutex<Option<Draft>>,
    is_released: AtomicBool,
}

/// A file that is changed only once it has been approved of. Cloning it gives another handle to the same.
#[derive(Clone, Debug)]
pub(super) struct GuardedFile(Arc<Shared>);

impl GuardedFile {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let draft = Mutex::new(Some(Draft { length, kept: length, changes: Vec::new() }));
        Ok(Self(Arc::new(Shared { file, draft, is_released: AtomicBool::new(false) })))
    }

    /// The file is good: what was held back is written, and from now on everything is.
    pub(super) fn release(&self) -> io::Result<()> {
        let mut draft = lock(&self.0.draft);
        if let Some(held) = draft.take() {
            self.0.file.set_len(held.kept)?;
            self.0.file.set_len(held.length)?;
            for (offset, bytes) in held.changes {
                self.0.file.write_all_at(&bytes, offset)?;
            }
            self.0.file.sync_data()?;
            self.0.is_released.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Does this with what is held back, if something is.
    fn in_draft<T>(&self, work: impl FnOnce(&mut Draft) -> T) -> Option<T> {
        if self.0.is_released.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.0.draft).as_mut().map(work)
    }
}

impl Draft {
    fn read(&self, file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if end > self.length {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is too short"));
        }
        let on_disk = self.kept.saturating_sub(offset).min(out.len() as u64);
        let (old, new) = out.split_at_mut(usize::try_from(on_disk).unwrap_or(usize::MAX));
        file.read_exact_at(old, offset)?;
        new.fill(0);
        for (start, bytes) in &self.changes {
            let from = offset.max(*start);
            let to = end.min(start.saturating_add(bytes.len() as u64));
            if from < to {
                let place = |moment: u64, base: u64| usize::try_from(moment - base).unwrap_or(usize::MAX);
                out[place(from, offset)..place(to, offset)]
                    .copy_from_slice(&bytes[place(from, *start)..place(to, *start)]);
            }
        }
        Ok(())
    }

    fn set_length(&mut self, length: u64) {
        self.length = length;
        self.kept = self.kept.min(length);
        self.changes.retain_mut(|(start, bytes)| {
            let kept = length.saturating_sub(*start);
            bytes.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
            !bytes.is_empty()
        });
    }
}

impl StorageBackend for GuardedFile {
    fn len(&self) -> Result<u64, io::Error> {
        match self.in_draft(|draft| draft.length) {
            Some(length) => Ok(length),
            None => Ok(self.0.file.metadata()?.len()),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let drafted = self.in_draft(|draft| draft.read(&self.0.file, offset, out));
        drafted.unwrap_or_else(|| self.0.file.read_exact_at(out, offset))
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        let drafted = self.in_draft(|draft| draft.set_length(length));
        drafted.map_or_else(|| self.0.file.set_len(length), Ok)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let drafted = self.in_draft(|_| ());
        drafted.map_or_else(|| self.0.file.sync_data(), Ok)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let drafted = self.in_draft(|draft| {
            draft.length = draft.length.max(offset.saturating_add(data.len() as u64));
            draft.changes.push((offset, data.to_vec()));
        });
        drafted.map_or_else(|| self.0.file.write_all_at(data, offset), Ok)
    }
}
