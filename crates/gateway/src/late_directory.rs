//! A caller directory whose store is opened last, after everything else in the settings was checked.

use seawall_pipeline::callers::{CallerDirectory, Finding};
use seawall_store::embedded::EmbeddedStore;
use std::sync::{Arc, OnceLock};

/// Looks up callers in the embedded store once it is open. Until then no caller is found.
#[derive(Default)]
pub(crate) struct LateDirectory(OnceLock<Arc<EmbeddedStore>>);

impl LateDirectory {
    /// Sets the store. Called once per gateway.
    pub(crate) fn found(&self, store: Arc<EmbeddedStore>) {
        // Set only once.
        let _ = self.0.set(store);
    }
}

impl CallerDirectory for LateDirectory {
    fn find(&self, hash: &[u8; 32]) -> Finding<'_> {
        match self.0.get() {
            Some(store) => CallerDirectory::find(store.as_ref(), hash),
            None => Box::pin(std::future::ready(Ok(None))),
        }
    }
}
