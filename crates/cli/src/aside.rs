//! Work that takes far more memory than what comes of it.
//!
//! Reading settings is such work: ten thousand keys take 30 MiB while they are read and 4 MiB in the end. On one thread the two
//! would lie among each other, and none of the 30 could be given back. So the large part is made, and dropped, on a thread
//! of its own, whose place in the C library's allocator is empty afterwards. **What it will not do.** It promises nothing: with
//! another allocator it is only a thread.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread::scope;

/// The allocator keeps this many freed pieces of each small size for the thread that freed them.
const KEPT_OF_EACH: usize = 7;
/// The small sizes: the least, the step, and the most.
const SMALL: (usize, usize, usize) = (24, 16, 1_032);
/// Freeing a piece of this size has the allocator look for pages to give back; a larger one would have pages of its own.
const LARGE: usize = 100 << 10;
/// It gives nothing back before some 16 MiB lie free in a row. This many large pieces, none of which is written to, are more.
const IN_A_ROW: usize = 400;

/// What `reduce` makes here of something large that is made, and dropped, elsewhere.
pub(crate) fn aside<T: Send, A>(make: impl FnOnce() -> T + Send, reduce: impl FnOnce(&T) -> A) -> A {
    // Both wait without allocating anything: a piece that outlives what is dropped would hold everything below it.
    let (slot, turn) = (Mutex::new(None), Barrier::new(2));
    let guard = || slot.lock().unwrap_or_else(PoisonError::into_inner);
    scope(|scope| {
        let thread = scope.spawn(|| {
            let early = pieces();
            let made = catch_unwind(AssertUnwindSafe(make));
            *guard() = Some(made);
            turn.wait();
            turn.wait();
            let left = guard().take();
            drop(left);
            // What the allocator keeps for this thread lies anywhere too. It is made to keep the early pieces instead.
            let kept = pieces();
            drop(early);
            drop(kept);
            drop(black_box((0..IN_A_ROW).map(|_| Vec::with_capacity(LARGE)).collect::<Vec<Vec<u8>>>()));
        });
        turn.wait();
        let made = guard().take();
        let reduced = match made {
            Some(Ok(made)) => {
                let reduced = catch_unwind(AssertUnwindSafe(|| reduce(&made)));
                *guard() = Some(Ok(made));
                reduced
            }
            Some(Err(panic)) => Err(panic),
            None => unreachable!("there is something before it is this thread's turn"),
        };
        turn.wait();
        // Its place is empty only after its very end, which leaving the scope would not wait for.
        let ended = thread.join();
        let reduced = reduced.and_then(|reduced| ended.map(|()| reduced));
        reduced.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// As many pieces of each small size as the allocator keeps.
fn pieces() -> Vec<Vec<u8>> {
    let (least, step, most) = SMALL;
    let sizes = (least..=most).step_by(step);
    let pieces = sizes.flat_map(|size| (0..KEPT_OF_EACH).map(move |_| Vec::with_capacity(size)));
    black_box(pieces.collect())
}

#[cfg(test)]
mod tests {
    use super::aside;

    #[test]
    fn what_is_made_elsewhere_is_seen_here_and_dropped_there() {
        struct Made(std::thread::ThreadId, std::sync::mpsc::Sender<std::thread::ThreadId>);
        impl Drop for Made {
            fn drop(&mut self) {
                let _ = self.1.send(std::thread::current().id());
            }
        }
        let here = std::thread::current().id();
        let (told, dropped) = std::sync::mpsc::channel();
        let there = aside(
            move || Made(std::thread::current().id(), told),
            |made| {
                assert_eq!(std::thread::current().id(), here);
                made.0
            },
        );
        assert_ne!(there, here);
        assert_eq!(dropped.recv(), Ok(there));
    }

    #[test]
    #[should_panic(expected = "in vain")]
    fn a_panic_elsewhere_is_one_here() {
        aside(|| assert!(std::env::args().count() == 0, "in vain"), |()| ());
    }

    #[test]
    #[should_panic(expected = "not reduced")]
    fn a_panic_here_does_not_wait_for_ever() {
        aside(|| 1, |one| assert_eq!(*one, 2, "not reduced"));
    }
}
