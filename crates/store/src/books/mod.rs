//! The books of one node.

mod journal;
mod record;

pub use journal::{Journal, NoJournal};
pub use record::{JournalRecord, NoRecord};
