//! What happens while the store that a fleet shares is away.
mod report;

pub use report::{Admitted, AwayReport, SharedStore};
