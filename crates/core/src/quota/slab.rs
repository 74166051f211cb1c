//! A slab allocator for windows that do not fit inline.

/// Items per page. Pages never move, so growing costs one page and no copying.
const PAGE: u32 = 64;

/// The id of an item in a [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlabId(u32);

impl SlabId {
    /// The id as a number, to be stored in a word.
    pub(super) fn number(self) -> u32 {
        self.0
    }

    pub(super) fn of_number(number: u32) -> Self {
        Self(number)
    }
}

/// A slab of items with numeric ids. Freed items are reused, so a constant number of callers allocates nothing.
#[derive(Debug)]
pub(super) struct Slab<T> {
    pages: Vec<Box<[T]>>,
    used: u32,
    free: Vec<SlabId>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), used: 0, free: Vec::new() }
    }
}

impl<T: Clone + Default> Slab<T> {
    pub(super) fn get(&self, id: SlabId) -> &T {
        &self.pages[(id.0 / PAGE) as usize][(id.0 % PAGE) as usize]
    }

    pub(super) fn get_mut(&mut self, id: SlabId) -> &mut T {
        &mut self.pages[(id.0 / PAGE) as usize][(id.0 % PAGE) as usize]
    }

    pub(super) fn add(&mut self, item: T) -> SlabId {
        let id = self.free.pop().unwrap_or_else(|| {
            if self.used.is_multiple_of(PAGE) {
                self.pages.push(vec![T::default(); PAGE as usize].into());
            }
            self.used += 1;
            SlabId(self.used - 1)
        });
        *self.get_mut(id) = item;
        id
    }

    pub(super) fn remove(&mut self, id: SlabId) {
        self.free.push(id);
    }

    pub(super) fn bytes(&self) -> usize {
        self.pages.len() * PAGE as usize * size_of::<T>()
            + self.pages.capacity() * size_of::<Box<[T]>>()
            + self.free.capacity() * size_of::<SlabId>()
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

    #[test]
    fn freed_items_are_used_again_before_new_ones() {
        let mut pool = Slab::<u32>::default();
        let ids: Vec<_> = (0..130).map(|item| pool.add(item)).collect();
        assert!(ids.iter().zip(0..).all(|(id, item)| *pool.get(*id) == item));
        assert_eq!(pool.pages.len(), 3);
        pool.remove(ids[7]);
        assert_eq!(pool.add(700), ids[7]);
        *pool.get_mut(ids[7]) += 1;
        assert_eq!(*pool.get(ids[7]), 701);
        assert_eq!((*pool.get(ids[6]), *pool.get(ids[8]), pool.free.len()), (6, 8, 0));
        let overhead = pool.pages.capacity() * 16 + pool.free.capacity() * 4;
        assert_eq!(pool.bytes(), 3 * 64 * 4 + overhead);
    }
}
