//! The world as the runtime of the request path.

use crate::world::World;
use seawall_core::random::Draw;
use seawall_core::runtime::{Runtime, Timer};
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::future::Future;

impl Runtime for World {
    /// The virtual time; the calendar starts at midnight of 15 November 2026.
    fn now(&self) -> Now {
        let now = World::now(self);
        Now::new(now, UtcTime::from_civil(2026, 11, 15) + (now - Timestamp::ZERO))
    }

    fn draw(&self) -> Draw {
        World::draw(self)
    }
}

impl Timer for World {
    fn monotonic(&self) -> Timestamp {
        World::now(self)
    }

    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        World::sleep_until(self, moment)
    }
}
