//! The callers of a folder that is opened after everything else was found to make sense.

use seawall_pipeline::callers::{CallerDirectory, Finding};
use seawall_store::embedded::EmbeddedStore;
use std::sync::{Arc, OnceLock};

/// The callers of a folder that is opened after everything else was found to make sense.
#[derive(Default)]
pub(crate) struct LateDirectory(OnceLock<Arc<EmbeddedStore>>);

impl LateDirectory {
    /// This is the folder. There is one for each gateway.
    pub(crate) fn found(&self, store: Arc<EmbeddedStore>) {
        // Set once.
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
