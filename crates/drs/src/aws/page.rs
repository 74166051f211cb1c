//! Lists that come in pages.

use super::error::{ApiFault, DrsError};
use crate::guard::{ApiCall, ApiGuard};
use seawall_core::runtime::Runtime;
use std::future::Future;
use std::pin::Pin;

/// Where a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeToken(pub String);

/// The items of a page, and the token of the next one.
pub(super) type Page<T> = (Vec<T>, Option<String>);
type PageFuture<T> = Pin<Box<dyn Future<Output = Result<Page<T>, ApiFault>> + Send>>;
type FetchPage<T> = Box<dyn Fn(Option<String>) -> PageFuture<T> + Send + Sync>;

/// Reads a list page by page. Every page takes a rate token first and is retried like any call.
///
/// A failure does not lose the position: [`PageReader::next_page`] can be called again, and
/// [`PageReader::resume_token`] says where another reader, perhaps in another process, would go on.
pub struct PageReader<R: Runtime, T> {
    guard: ApiGuard<R>,
    call: ApiCall,
    fetch: FetchPage<T>,
    next: Option<String>,
    is_done: bool,
}

impl<R: Runtime, T> PageReader<R, T> {
    pub(super) fn new<F>(
        guard: &ApiGuard<R>,
        call: ApiCall,
        fetch: impl Fn(Option<String>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Page<T>, ApiFault>> + Send + 'static,
    {
        let fetch: FetchPage<T> = Box::new(move |token| Box::pin(fetch(token)));
        Self { guard: guard.clone(), call, fetch, next: None, is_done: false }
    }

    /// The same, going on where another reader stopped.
    #[must_use]
    pub fn resume(self, token: ResumeToken) -> Self {
        Self { next: Some(token.0), ..self }
    }

    /// The next page; `None` after the last.
    pub async fn next_page(&mut self) -> Result<Option<Vec<T>>, DrsError> {
        if self.is_done {
            return Ok(None);
        }
        let operation = self.call.operation;
        let fetched = self.guard.call(self.call.clone(), || (self.fetch)(self.next.clone())).await;
        let (items, next) = fetched.map_err(DrsError::call(operation))?;
        let next = next.filter(|token| !token.is_empty());
        if next.is_some() && next == self.next {
            return Err(DrsError::RepeatedPage { operation, token: next.unwrap_or_default() });
        }
        self.is_done = next.is_none();
        self.next = next;
        Ok(Some(items))
    }

    /// All remaining items.
    pub async fn all(mut self) -> Result<Vec<T>, DrsError> {
        let mut items = Vec::new();
        while let Some(page) = self.next_page().await? {
            items.extend(page);
        }
        Ok(items)
    }

    /// Where the list continues; `None` before the first page and after the last.
    #[must_use]
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.next.clone().map(ResumeToken)
    }
}
