//! The storage backend of the database: a file whose changes can be held back.
//!
//! Until the file has been validated, no write reaches it: changes are kept in memory, and discarded with the database
//! if the file is refused. So a refused file is never modified, whatever the database does to repair or to close it.

use crate::lock;
use redb::StorageBackend;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A plain file as a storage backend.
#[derive(Debug)]
struct Plain(File);

impl StorageBackend for Plain {
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
enum Deed {
    Write(u64, Vec<u8>),
    SetLength(u64),
    Sync,
}

/// The file with the changes that are held back.
#[derive(Debug)]
struct Draft {
    length: u64,
    /// How much of the original file is still part of it. A range that was cut off and added again reads as zeros.
    kept: u64,
    /// All changes in order. In another order, the file could be truncated where it is not consistent.
    deeds: Vec<Deed>,
}

#[derive(Debug)]
enum Stage {
    Held(Draft),
    Released,
    /// Applying the changes failed midway. Further writes would corrupt the file.
    Failed,
}

#[derive(Debug)]
struct Shared {
    file: Box<dyn StorageBackend>,
    stage: Mutex<Stage>,
    is_released: AtomicBool,
}

/// A file that is modified only after [`release`](Self::release). Cloning it gives another handle to the same file.
#[derive(Clone, Debug)]
pub(super) struct GuardedFile(Arc<Shared>);

impl GuardedFile {
    pub(super) fn new(file: File) -> io::Result<Self> {
        Self::over(Plain(file))
    }

    pub(super) fn over(file: impl StorageBackend) -> io::Result<Self> {
        let length = file.len()?;
        let stage = Mutex::new(Stage::Held(Draft { length, kept: length, deeds: Vec::new() }));
        Ok(Self(Arc::new(Shared { file: Box::new(file), stage, is_released: AtomicBool::new(false) })))
    }

    /// Applies the changes that were held back; later changes go to the file directly.
    pub(super) fn release(&self) -> io::Result<()> {
        let mut stage = lock(&self.0.stage);
        match std::mem::replace(&mut *stage, Stage::Failed) {
            Stage::Held(draft) => {
                for deed in &draft.deeds {
                    match deed {
                        Deed::Write(offset, bytes) => self.0.file.write(*offset, bytes)?,
                        Deed::SetLength(length) => self.0.file.set_len(*length)?,
                        Deed::Sync => self.0.file.sync_data()?,
                    }
                }
                self.0.file.sync_data()?;
            }
            Stage::Released => {}
            Stage::Failed => return Err(cut_short()),
        }
        *stage = Stage::Released;
        self.0.is_released.store(true, Ordering::Release);
        Ok(())
    }

    /// Runs the first closure while changes are held back, and the second one after that.
    fn work<T>(
        &self,
        held: impl FnOnce(&mut Draft, &dyn StorageBackend) -> io::Result<T>,
        released: impl FnOnce(&dyn StorageBackend) -> io::Result<T>,
    ) -> io::Result<T> {
        let file = &*self.0.file;
        if self.0.is_released.load(Ordering::Acquire) {
            return released(file);
        }
        let mut stage = lock(&self.0.stage);
        match &mut *stage {
            Stage::Held(draft) => held(draft, file),
            Stage::Released => {
                drop(stage);
                released(file)
            }
            Stage::Failed => Err(cut_short()),
        }
    }
}

fn cut_short() -> io::Error {
    io::Error::other("the file could not be brought up to date")
}

impl Draft {
    fn read(&self, file: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if end > self.length {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is too short"));
        }
        let on_disk = self.kept.saturating_sub(offset).min(out.len() as u64);
        let (old, new) = out.split_at_mut(usize::try_from(on_disk).unwrap_or(usize::MAX));
        file.read(offset, old)?;
        new.fill(0);
        for deed in &self.deeds {
            let (start, bytes) = match deed {
                Deed::Write(start, bytes) => (*start, Some(bytes)),
                // A range beyond the end reads as zeros when the file grows again.
                Deed::SetLength(length) => (*length, None),
                Deed::Sync => continue,
            };
            let from = offset.max(start);
            let to = bytes.map_or(end, |bytes| end.min(start.saturating_add(bytes.len() as u64)));
            if from < to {
                let place = |moment: u64, base: u64| usize::try_from(moment - base).unwrap_or(usize::MAX);
                let out = &mut out[place(from, offset)..place(to, offset)];
                match bytes {
                    Some(bytes) => out.copy_from_slice(&bytes[place(from, start)..place(to, start)]),
                    None => out.fill(0),
                }
            }
        }
        Ok(())
    }
}

impl StorageBackend for GuardedFile {
    fn len(&self) -> Result<u64, io::Error> {
        self.work(|draft, _| Ok(draft.length), StorageBackend::len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        // Only one of the two closures is called, and both need the buffer.
        let out = std::cell::RefCell::new(out);
        self.work(
            |draft, file| draft.read(file, offset, *out.borrow_mut()),
            |file| file.read(offset, *out.borrow_mut()),
        )
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        let hold = |draft: &mut Draft, _: &dyn StorageBackend| {
            draft.length = length;
            draft.kept = draft.kept.min(length);
            draft.deeds.push(Deed::SetLength(length));
            Ok(())
        };
        self.work(hold, |file| file.set_len(length))
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let hold = |draft: &mut Draft, _: &dyn StorageBackend| {
            draft.deeds.push(Deed::Sync);
            Ok(())
        };
        self.work(hold, StorageBackend::sync_data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let hold = |draft: &mut Draft, _: &dyn StorageBackend| {
            draft.length = draft.length.max(offset.saturating_add(data.len() as u64));
            draft.deeds.push(Deed::Write(offset, data.to_vec()));
            Ok(())
        };
        self.work(hold, |file| file.write(offset, data))
    }
}
