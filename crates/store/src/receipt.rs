//! The receipt for what a request has taken from limits.

use crate::StoreError;
use std::any::Any;
use std::fmt;

/// What one request has taken from limits, budget and idempotency keys: the receipt of a grant, for its settlement.
///
/// Its content belongs to the store that issued it, and no other store can settle it. A receipt that is dropped stays
/// charged, and its idempotency key stays claimed until the claim expires.
#[must_use = "a grant must be settled"]
pub struct QuotaReceipt(Box<dyn Any + Send>);

impl QuotaReceipt {
    /// A receipt with what its store needs to settle it.
    pub fn new(content: impl Any + Send) -> Self {
        Self(Box::new(content))
    }

    /// The content, if this store has issued it.
    #[must_use]
    pub fn content<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Takes the content out, for settlement. Fails if another store than the named one has issued the receipt.
    pub fn into_content<T: Any>(self, store: &'static str) -> Result<T, StoreError> {
        match self.0.downcast() {
            Ok(content) => Ok(*content),
            Err(_) => Err(StoreError::failed(store, "the receipt was issued by another store")),
        }
    }
}

impl fmt::Debug for QuotaReceipt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("QuotaReceipt")
    }
}

#[cfg(test)]
mod tests {
    use super::QuotaReceipt;

    #[test]
    fn only_the_store_that_issued_a_receipt_can_read_it() {
        let receipt = QuotaReceipt::new(7_u32);
        assert_eq!((receipt.content::<u32>(), receipt.content::<u64>()), (Some(&7), None));
        assert_eq!(receipt.into_content::<u32>("this"), Ok(7));
        let error = QuotaReceipt::new(7_u32).into_content::<u64>("other").unwrap_err();
        assert_eq!(error.to_string(), "the other store failed: the receipt was issued by another store");
    }
}
