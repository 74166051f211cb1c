//! A caller directory whose store is opened last, after everything else in the settings was checked.

use seawall_pipeline::callers::{CallerDirectory, DirectoryLookup};
use seawall_store::Directory;
use std::sync::{Arc, OnceLock};

/// Looks up callers in the store once it is open. Until then no caller is found.
#[derive(Default)]
pub(crate) struct DeferredCallerDirectory(OnceLock<Arc<dyn Directory>>);

impl DeferredCallerDirectory {
    /// Sets the store. Called once per gateway.
    pub(crate) fn set_store(&self, store: Arc<dyn Directory>) {
        // Set only once.
        let _ = self.0.set(store);
    }
}

impl CallerDirectory for DeferredCallerDirectory {
    fn find(&self, hash: &[u8; 32]) -> DirectoryLookup<'_> {
        match self.0.get() {
            Some(store) => CallerDirectory::find(store.as_ref(), hash),
            None => Box::pin(std::future::ready(Ok(None))),
        }
    }
}
