//! The bounded queue between those who emit and a thread that writes: for sinks of events that do I/O.
//!
//! Pushing never waits for the writer. When the queue is full, the oldest unwritten item is dropped and counted: of a
//! log, the newest lines say most about what goes on. Formatting is left to the writer.
//!
//! Written items may be retained to be displayed: the newest requests of the admin API are those of the access log, in
//! one ring. With a separate list a request would copy its record twice.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How much a queue holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueSize {
    /// Maximum number of unwritten items; `None` if nobody writes them.
    pub(crate) unwritten: Option<usize>,
    /// How many of the newest are retained after they were written.
    pub(crate) retained: usize,
}

impl QueueSize {
    /// At this many unwritten items the writer stops batching and writes.
    const fn flush_threshold(self) -> usize {
        match self.unwritten {
            Some(unwritten) => unwritten / 4,
            None => usize::MAX,
        }
    }

    /// A ring with more capacity than this once had a backlog; it shrinks when possible.
    const fn shrink_above(self) -> usize {
        4 * self.retained
    }
}

/// Items in the order in which they were pushed.
#[derive(Debug)]
pub(crate) struct SinkQueue<T> {
    items: Mutex<ItemRing<T>>,
    /// Signals the first item of a batch, or that there are many.
    awaited: Condvar,
    size: QueueSize,
    dropped: AtomicU64,
}

#[derive(Debug)]
struct ItemRing<T> {
    /// The newest is at the back.
    ring: VecDeque<T>,
    /// How many of the newest are still to be written.
    unwritten: usize,
    /// No more items will follow.
    is_closed: bool,
}

impl<T> ItemRing<T> {
    /// Removes the oldest if it was written and is not retained.
    fn pop_written(&mut self, retained: usize) -> Option<T> {
        let is_removable = self.ring.len() >= retained && self.ring.len() > self.unwritten;
        if is_removable { self.ring.pop_front() } else { None }
    }
}

impl<T: Clone> SinkQueue<T> {
    /// An empty queue.
    pub(crate) fn new(size: QueueSize) -> Self {
        // Room for the retained items and for those that arrive during a write: it grows only if writing is too slow.
        // The smaller the ring, the more of it is still in the CPU cache when its turn comes again.
        let ring = VecDeque::with_capacity(2 * size.retained);
        Self {
            items: Mutex::new(ItemRing { ring, unwritten: 0, is_closed: false }),
            awaited: Condvar::new(),
            size,
            dropped: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ItemRing<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of items that were dropped before they were written.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Adds an item. Returns whether an unwritten one was dropped.
    pub(crate) fn push(&self, item: T) -> bool {
        let QueueSize { unwritten: capacity, retained } = self.size;
        let mut items = self.lock();
        let is_lost = capacity.is_some_and(|capacity| items.unwritten == capacity);
        // The oldest is removed once it was written, or if the ring is full. After a backlog, two are removed for each
        // new one. They are dropped after the lock is released.
        let oldest = if is_lost { items.ring.pop_front() } else { items.pop_written(retained) };
        let next = items.pop_written(retained);
        if items.ring.len() < retained && items.ring.capacity() > self.size.shrink_above() {
            items.ring.shrink_to(2 * retained);
        }
        items.ring.push_back(item);
        if capacity.is_some() && !is_lost {
            items.unwritten += 1;
        }
        let is_awaited = items.unwritten == 1 || items.unwritten == self.size.flush_threshold();
        drop(items);
        // Waking a thread costs more than everything else here: wake it for the first item, and when there are many.
        if is_awaited && !is_lost {
            self.awaited.notify_one();
        }
        if is_lost {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        drop((oldest, next));
        is_lost
    }

    /// Waits for something to write, and then a short time for more, or until the queue is closed. Returns whether it is
    /// closed.
    pub(crate) fn wait(&self, batch_time: Duration) -> bool {
        let is_empty = |items: &mut ItemRing<T>| items.unwritten == 0 && !items.is_closed;
        let is_below_threshold =
            |items: &mut ItemRing<T>| items.unwritten < self.size.flush_threshold() && !items.is_closed;
        let items = self.awaited.wait_while(self.lock(), is_empty).unwrap_or_else(PoisonError::into_inner);
        let batched = self.awaited.wait_timeout_while(items, batch_time, is_below_threshold);
        batched.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    /// Takes up to `max` unwritten items, the oldest first. Few at a time, because those who push wait meanwhile.
    pub(crate) fn take(&self, max: usize, out: &mut Vec<T>) {
        out.clear();
        let mut items = self.lock();
        let from = items.ring.len().saturating_sub(items.unwritten);
        out.extend(items.ring.range(from..).take(max).cloned());
        items.unwritten = items.unwritten.saturating_sub(out.len());
    }

    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.awaited.notify_one();
    }

    /// Up to `max` of the newest, the newest first.
    pub(crate) fn newest(&self, max: usize) -> Vec<T> {
        let max = max.min(self.size.retained);
        let mut newest = Vec::with_capacity(max);
        newest.extend(self.lock().ring.iter().rev().take(max).cloned());
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::{QueueSize, SinkQueue};

    const UNWRITTEN: usize = 10_000;
    const RETAINED: usize = 1_000;

    #[test]
    fn written_items_take_no_more_room_than_retained_ones() {
        let size = QueueSize { unwritten: Some(UNWRITTEN), retained: RETAINED };
        let queue = SinkQueue::new(size);
        let mut taken = Vec::new();
        for _ in 0..3 {
            (0..UNWRITTEN).for_each(|item| assert!(!queue.push(item)));
            assert_eq!(queue.lock().ring.len(), UNWRITTEN);
            queue.take(usize::MAX, &mut taken);
            assert_eq!(taken.len(), UNWRITTEN);
            // A writer that keeps up needs little capacity.
            for item in 0..UNWRITTEN {
                queue.push(item);
                queue.take(usize::MAX, &mut taken);
            }
            let items = queue.lock();
            assert_eq!(items.ring.len(), RETAINED);
            assert!(items.ring.capacity() <= size.shrink_above());
        }
    }

    #[test]
    fn a_full_queue_drops_the_oldest_counts_it_and_never_waits() {
        let queue = SinkQueue::new(QueueSize { unwritten: Some(3), retained: 0 });
        let lost: Vec<bool> = (0..5).map(|item| queue.push(item)).collect();
        assert_eq!((lost, queue.dropped()), (vec![false, false, false, true, true], 2));
        let mut taken = Vec::new();
        queue.take(2, &mut taken);
        assert_eq!(taken, [2, 3]);
        assert!(!queue.push(5));
        queue.take(9, &mut taken);
        assert_eq!((taken, queue.dropped()), (vec![4, 5], 2));
        assert!(queue.newest(9).is_empty(), "nothing is retained");
        queue.close();
        assert!(queue.wait(std::time::Duration::MAX), "a closed queue does not wait");
    }
}
