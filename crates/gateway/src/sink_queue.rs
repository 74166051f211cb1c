//! The bounded queue between those who emit and the threads that write: for sinks of events that do I/O.
//!
//! Pushing never waits for a writer. Each writer reads every item at its own pace. When one of them lags behind by the
//! whole capacity, the oldest item is dropped and counted as lost to it: of a log, the newest lines say most about what
//! goes on. Formatting is left to the writers.
//!
//! Written items may be retained to be displayed: the newest requests of the admin API, the access log and the decision
//! records share one ring. With separate lists a request would copy its record several times.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of writers of a queue.
const WRITERS: usize = 2;

/// A writer of a queue, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingWriter(pub(crate) usize);

/// How much a queue holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueSize {
    /// Maximum number of items that a writer may lag behind.
    pub(crate) unwritten: usize,
    /// How many of the newest are retained after they were written.
    pub(crate) retained: usize,
    /// The writers that exist.
    pub(crate) writers: [bool; WRITERS],
}

impl QueueSize {
    /// At this many unwritten items a writer stops batching and writes.
    const fn flush_threshold(self) -> u64 {
        (self.unwritten / 4) as u64
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
    /// Signals the first item of a batch to a writer, or that there are many.
    awaited: [Condvar; WRITERS],
    size: QueueSize,
    dropped: [AtomicU64; WRITERS],
}

#[derive(Debug)]
struct ItemRing<T> {
    /// The newest is at the back.
    ring: VecDeque<T>,
    /// The position of the oldest item, counted from the first that was ever pushed.
    first: u64,
    /// The position of the next item for each writer; `None` for one that does not exist.
    next: [Option<u64>; WRITERS],
    /// No more items will follow.
    is_closed: bool,
}

impl<T> ItemRing<T> {
    /// The position behind the newest item.
    fn end(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    fn unwritten(&self, writer: usize) -> u64 {
        self.next[writer].map_or(0, |next| self.end() - next)
    }

    fn pop(&mut self) -> Option<T> {
        let oldest = self.ring.pop_front()?;
        self.first += 1;
        Some(oldest)
    }

    /// Removes the oldest if every writer has it and it is not retained.
    fn pop_written(&mut self, retained: usize) -> Option<T> {
        let is_written = self.next.iter().flatten().all(|next| *next > self.first);
        if self.ring.len() >= retained && is_written { self.pop() } else { None }
    }
}

impl<T: Clone> SinkQueue<T> {
    /// An empty queue.
    pub(crate) fn new(size: QueueSize) -> Self {
        // Room for the retained items and for those that arrive during a write: it grows only if writing is too slow.
        // The smaller the ring, the more of it is still in the CPU cache when its turn comes again.
        let ring = VecDeque::with_capacity(2 * size.retained);
        let next = size.writers.map(|exists| exists.then_some(0));
        Self {
            items: Mutex::new(ItemRing { ring, first: 0, next, is_closed: false }),
            awaited: Default::default(),
            size,
            dropped: Default::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ItemRing<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of items that were dropped before this writer had them.
    pub(crate) fn dropped(&self, writer: RingWriter) -> u64 {
        self.dropped[writer.0].load(Ordering::Relaxed)
    }

    /// Adds an item. Returns whether an unwritten one was dropped.
    pub(crate) fn push(&self, item: T) -> bool {
        let QueueSize { unwritten: capacity, retained, .. } = self.size;
        let mut items = self.lock();
        let is_full = |writer| items.unwritten(writer) == capacity as u64;
        let lagging: [bool; WRITERS] = std::array::from_fn(is_full);
        let is_lost = lagging.contains(&true);
        // The oldest is removed once it was written, or if the ring is full. After a backlog, two are removed for each
        // new one. They are dropped after the lock is released.
        let oldest = if is_lost { items.pop() } else { items.pop_written(retained) };
        let next = items.pop_written(retained);
        if is_lost {
            let first = items.first;
            for next in items.next.iter_mut().flatten() {
                *next = first.max(*next);
            }
        }
        if items.ring.len() < retained && items.ring.capacity() > self.size.shrink_above() {
            items.ring.shrink_to(2 * retained);
        }
        items.ring.push_back(item);
        let threshold = self.size.flush_threshold();
        // Waking a thread costs more than everything else here: wake it for the first item, and when there are many.
        let is_awaited = |writer| {
            let unwritten = items.unwritten(writer);
            !lagging[writer] && (unwritten == 1 || unwritten == threshold)
        };
        let wake: [bool; WRITERS] = std::array::from_fn(is_awaited);
        drop(items);
        for writer in 0..WRITERS {
            if wake[writer] {
                self.awaited[writer].notify_one();
            }
            if lagging[writer] {
                self.dropped[writer].fetch_add(1, Ordering::Relaxed);
            }
        }
        drop((oldest, next));
        is_lost
    }

    /// Waits for something to write, at most for `max_wait`, and then a short time for more, or until the queue is closed.
    /// Returns whether it is closed.
    pub(crate) fn wait(&self, writer: RingWriter, max_wait: Duration, batch_time: Duration) -> bool {
        let awaited = &self.awaited[writer.0];
        let is_empty = |items: &mut ItemRing<T>| items.unwritten(writer.0) == 0 && !items.is_closed;
        let is_below_threshold = |items: &mut ItemRing<T>| {
            (1..self.size.flush_threshold()).contains(&items.unwritten(writer.0)) && !items.is_closed
        };
        let items = awaited.wait_timeout_while(self.lock(), max_wait, is_empty);
        let (items, _) = items.unwrap_or_else(PoisonError::into_inner);
        let batched = awaited.wait_timeout_while(items, batch_time, is_below_threshold);
        batched.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    /// Takes up to `max` unwritten items, the oldest first, without those that `is_wanted` refuses. Few at a time, because
    /// those who push wait meanwhile. Returns how many were taken or refused.
    pub(crate) fn take_if(
        &self,
        writer: RingWriter,
        max: usize,
        out: &mut Vec<T>,
        mut is_wanted: impl FnMut(&T) -> bool,
    ) -> usize {
        out.clear();
        let mut items = self.lock();
        let from = usize::try_from(items.unwritten(writer.0)).unwrap_or(usize::MAX);
        let from = items.ring.len().saturating_sub(from);
        let seen = max.min(items.ring.len() - from);
        out.extend(items.ring.range(from..from + seen).filter(|item| is_wanted(item)).cloned());
        if let Some(next) = &mut items.next[writer.0] {
            *next += seen as u64;
        }
        seen
    }

    /// Takes up to `max` unwritten items, the oldest first.
    pub(crate) fn take(&self, writer: RingWriter, max: usize, out: &mut Vec<T>) {
        self.take_if(writer, max, out, |_| true);
    }

    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.awaited.iter().for_each(Condvar::notify_one);
    }

    /// Up to `max` of the newest, the newest first.
    pub(crate) fn newest(&self, max: usize) -> Vec<T> {
        let max = max.min(self.size.retained);
        let mut newest = Vec::with_capacity(max);
        newest.extend(self.lock().ring.iter().rev().take(max).cloned());
        newest
    }

    /// The first that `is_wanted` accepts, beginning with the newest.
    pub(crate) fn find(&self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        self.lock().ring.iter().rev().find(|item| is_wanted(item)).cloned()
    }

    /// Up to `max` retained items from this position on, the oldest first, with the position of the first of them.
    pub(crate) fn since(&self, position: u64, max: usize) -> (u64, Vec<T>) {
        let items = self.lock();
        let retained = items.end().saturating_sub(self.size.retained as u64).max(items.first);
        let from = position.clamp(retained, items.end());
        let skipped = usize::try_from(from - items.first).unwrap_or(usize::MAX);
        (from, items.ring.iter().skip(skipped).take(max).cloned().collect())
    }

    /// The position behind the newest item: how many were ever pushed.
    pub(crate) fn end(&self) -> u64 {
        self.lock().end()
    }
}

#[cfg(test)]
mod tests {
    use super::{QueueSize, RingWriter, SinkQueue};
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};
    use std::time::Duration;

    const UNWRITTEN: usize = 10_000;
    const RETAINED: usize = 1_000;
    const ONE: RingWriter = RingWriter(0);
    const OTHER: RingWriter = RingWriter(1);

    fn size(unwritten: usize, retained: usize, writers: [bool; 2]) -> QueueSize {
        QueueSize { unwritten, retained, writers }
    }

    #[test]
    fn written_items_take_no_more_room_than_retained_ones() {
        let size = size(UNWRITTEN, RETAINED, [true, false]);
        let queue = SinkQueue::new(size);
        let mut taken = Vec::new();
        for _ in 0..3 {
            (0..UNWRITTEN).for_each(|item| assert!(!queue.push(item)));
            assert_eq!(queue.lock().ring.len(), UNWRITTEN);
            queue.take(ONE, usize::MAX, &mut taken);
            assert_eq!(taken.len(), UNWRITTEN);
            // A writer that keeps up needs little capacity.
            for item in 0..UNWRITTEN {
                queue.push(item);
                queue.take(ONE, usize::MAX, &mut taken);
            }
            let items = queue.lock();
            assert_eq!(items.ring.len(), RETAINED);
            assert!(items.ring.capacity() <= size.shrink_above());
        }
    }

    #[test]
    fn a_full_queue_drops_the_oldest_counts_it_and_never_waits() {
        let queue = SinkQueue::new(size(3, 0, [true, false]));
        let lost: Vec<bool> = (0..5).map(|item| queue.push(item)).collect();
        assert_eq!((lost, queue.dropped(ONE)), (vec![false, false, false, true, true], 2));
        let mut taken = Vec::new();
        queue.take(ONE, 2, &mut taken);
        assert_eq!(taken, [2, 3]);
        assert!(!queue.push(5));
        queue.take(ONE, 9, &mut taken);
        assert_eq!((taken, queue.dropped(ONE)), (vec![4, 5], 2));
        assert!(queue.newest(9).is_empty(), "nothing is retained");
        queue.close();
        assert!(queue.wait(ONE, Duration::MAX, Duration::MAX), "a closed queue does not wait");
    }

    #[test]
    fn a_stuck_writer_loses_items_and_the_other_has_them_all() {
        let queue = SinkQueue::new(size(4, 2, [true, true]));
        let mut taken = Vec::new();
        for item in 0..20 {
            queue.push(item);
            queue.take(OTHER, 9, &mut taken);
            assert_eq!(taken, [item]);
        }
        assert_eq!((queue.dropped(ONE), queue.dropped(OTHER)), (16, 0));
        queue.take(ONE, 9, &mut taken);
        assert_eq!(taken, [16, 17, 18, 19]);
    }

    #[test]
    fn retained_items_are_read_from_a_position_on() {
        let queue = SinkQueue::new(size(9, 3, [false, false]));
        (0..10).for_each(|item| assert!(!queue.push(item)));
        assert_eq!(queue.end(), 10);
        assert_eq!(queue.since(0, 9), (7, vec![7, 8, 9]), "older ones are gone");
        assert_eq!(queue.since(8, 1), (8, vec![8]));
        assert_eq!(queue.since(99, 9), (10, vec![]));
        assert_eq!(queue.find(|item| *item == 8), Some(8));
    }

    proptest! {
        /// Compared with a list that keeps everything.
        #[test]
        fn each_writer_has_every_item_once_and_in_order_unless_it_is_counted_as_dropped(
            steps in prop::collection::vec((any::<bool>(), 0_usize..12, 0_usize..12), 1..60)
        ) {
            let queue = SinkQueue::new(size(10, 4, [true, true]));
            let (mut pushed, mut next) = (0_u64, [0_u64; 2]);
            let mut lost = [0_u64; 2];
            let mut taken = Vec::new();
            for (is_other, pushes, takes) in steps {
                for _ in 0..pushes {
                    queue.push(pushed);
                    pushed += 1;
                    for (next, lost) in next.iter_mut().zip(&mut lost) {
                        if pushed - *next > 10 {
                            *next += 1;
                            *lost += 1;
                        }
                    }
                }
                let writer = usize::from(is_other);
                queue.take(RingWriter(writer), takes, &mut taken);
                let until = pushed.min(next[writer] + takes as u64);
                prop_assert_eq!(&taken, &(next[writer]..until).collect::<Vec<_>>());
                next[writer] = until;
                prop_assert_eq!(queue.dropped(ONE), lost[0]);
                prop_assert_eq!(queue.dropped(OTHER), lost[1]);
                let newest: Vec<u64> = (0..pushed).rev().take(4).collect();
                prop_assert_eq!(queue.newest(4), newest);
            }
        }
    }
}
