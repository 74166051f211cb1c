//! The executor with the virtual clock.

use seawall_core::random::{Draw, SeededRandom};
use seawall_core::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A deterministic executor with a virtual clock. Cloning it gives another handle to the same world.
///
/// ```
/// use seawall_core::time::Timestamp;
/// use seawall_sim::World;
/// use std::time::Duration;
///
/// let world = World::new(7);
/// let inside = world.clone();
/// world.spawn(async move {
///     inside.sleep(Duration::from_secs(86_400)).await;
/// });
/// world.run();
/// assert_eq!(world.now(), Timestamp::ZERO + Duration::from_secs(86_400));
/// ```
#[derive(Clone)]
pub struct World(Arc<Mutex<Shared>>);

struct Shared {
    now: Timestamp,
    chance: SeededRandom,
    /// Tasks that are not being polled right now. A task is taken out while it is polled, so that it may spawn and
    /// sleep.
    tasks: BTreeMap<u64, Task>,
    /// The runnable tasks, and the same as a set, so that a task that is woken twice is polled once.
    ready: Vec<u64>,
    is_ready: BTreeSet<u64>,
    /// The wakers by their time, in order; the number distinguishes timers of the same time.
    timers: BTreeMap<(Timestamp, u64), Waker>,
    next_number: u64,
}

impl Shared {
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Picks one of the runnable tasks, as the seed decides.
    fn choose(&mut self) -> Option<u64> {
        if self.ready.is_empty() {
            return None;
        }
        let index = self.chance.draw().below(self.ready.len() as u64);
        let chosen = self.ready.swap_remove(usize::try_from(index).unwrap_or(0));
        self.is_ready.remove(&chosen);
        Some(chosen)
    }

    fn make_ready(&mut self, task: u64) {
        if self.is_ready.insert(task) {
            self.ready.push(task);
        }
    }

    /// Advances the clock to the next timer, and returns the wakers of all timers at that time.
    fn next_moment(&mut self) -> Option<Vec<Waker>> {
        let (moment, _) = *self.timers.first_key_value()?.0;
        self.now = self.now.max(moment);
        let later = self.timers.split_off(&(moment, u64::MAX));
        let due = std::mem::replace(&mut self.timers, later);
        Some(due.into_values().collect())
    }
}

impl World {
    /// An empty world. The seed decides which of several runnable tasks is polled first.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            now: Timestamp::ZERO,
            chance: SeededRandom::new(seed),
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            is_ready: BTreeSet::new(),
            timers: BTreeMap::new(),
            next_number: 0,
        })))
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared().now
    }

    /// A pseudo-random number from the world's seed.
    #[must_use]
    pub fn draw(&self) -> Draw {
        self.shared().chance.draw()
    }

    /// Adds a task. It is first polled when the world runs.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut shared = self.shared();
        let number = shared.number();
        shared.tasks.insert(number, Box::pin(task));
        shared.make_ready(number);
    }

    /// Waits until this much virtual time has passed.
    #[must_use]
    pub fn sleep(&self, wait: std::time::Duration) -> Sleep {
        self.sleep_until(self.now() + wait)
    }

    /// Waits until this virtual time.
    #[must_use]
    pub fn sleep_until(&self, moment: Timestamp) -> Sleep {
        Sleep { world: self.clone(), moment, registered: None }
    }

    /// Runs until no task can make progress. Tasks that wait for something that never happens stay pending; returns how
    /// many.
    pub fn run(&self) -> usize {
        self.run_until(Timestamp::NEVER)
    }

    /// Runs until this time. Returns how many tasks are left.
    pub fn run_until(&self, end: Timestamp) -> usize {
        loop {
            self.run_ready();
            let due = {
                let mut shared = self.shared();
                let next = shared.timers.first_key_value().map(|((moment, _), _)| *moment);
                if next.is_none_or(|moment| moment > end) {
                    // Time advances to the end even without a timer, unless the end is `NEVER`.
                    if end != Timestamp::NEVER {
                        shared.now = shared.now.max(end);
                    }
                    return shared.tasks.len();
                }
                shared.next_moment()
            };
            // Outside the lock, because waking takes it again.
            due.into_iter().flatten().for_each(Waker::wake);
        }
    }

    fn run_ready(&self) {
        loop {
            let (number, task) = {
                let mut shared = self.shared();
                let Some(number) = shared.choose() else { return };
                (number, shared.tasks.remove(&number))
            };
            // The task was woken after it had ended.
            let Some(mut task) = task else { continue };
            let waker = Waker::from(Arc::new(TaskWaker { number, world: self.clone() }));
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.shared().tasks.insert(number, task);
            }
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // A panicking task must not poison the world for the test that inspects it afterwards.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct TaskWaker {
    number: u64,
    world: World,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.world.shared().make_ready(self.number);
    }
}

/// A timer on the virtual clock. Dropping it cancels the wait.
pub struct Sleep {
    world: World,
    moment: Timestamp,
    registered: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut shared = this.world.shared();
        if shared.now >= this.moment {
            return Poll::Ready(());
        }
        let number = match this.registered {
            Some(number) => number,
            None => shared.number(),
        };
        shared.timers.insert((this.moment, number), context.waker().clone());
        this.registered = Some(number);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.registered {
            self.world.shared().timers.remove(&(self.moment, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::World;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use seawall_core::time::Timestamp;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    /// What the tasks of a world recorded, with the time.
    fn play(seed: u64, waits: &[Vec<u64>]) -> (Vec<(Timestamp, usize)>, Timestamp) {
        let world = World::new(seed);
        let events = Arc::new(Mutex::new(Vec::new()));
        for (task, waits) in waits.iter().cloned().enumerate() {
            let (inside, events) = (world.clone(), Arc::clone(&events));
            world.spawn(async move {
                for wait in waits {
                    inside.sleep(Duration::from_millis(wait)).await;
                    events.lock().unwrap().push((inside.now(), task));
                }
            });
        }
        assert_eq!(world.run(), 0);
        let events = events.lock().unwrap().clone();
        (events, world.now())
    }

    #[test]
    fn the_clock_jumps_to_the_next_timer() {
        let (events, end) = play(1, &[vec![10, 10], vec![15]]);
        assert_eq!(events, [(at(10), 0), (at(15), 1), (at(20), 0)]);
        assert_eq!(end, at(20));
    }

    #[test]
    fn a_seed_determines_the_order_and_seeds_differ() {
        let same_moment: Vec<Vec<u64>> = vec![vec![5]; 6];
        let orders: Vec<_> = (0..20).map(|seed| play(seed, &same_moment).0).collect();
        assert_eq!(orders, (0..20).map(|seed| play(seed, &same_moment).0).collect::<Vec<_>>());
        assert!(orders.iter().any(|order| *order != orders[0]));
    }

    #[test]
    fn a_dropped_wait_does_not_hold_the_clock() {
        let world = World::new(1);
        let inside = world.clone();
        world.spawn(async move {
            let long = inside.sleep(Duration::from_secs(60));
            let mut long = Box::pin(long);
            // Polled once, so that the timer is registered, and then dropped.
            std::future::poll_fn(|context| {
                let _ = long.as_mut().poll(context);
                std::task::Poll::Ready(())
            })
            .await;
            drop(long);
            inside.sleep(Duration::from_secs(1)).await;
        });
        assert_eq!((world.run(), world.now()), (0, at(1_000)));
    }

    #[test]
    fn tasks_may_spawn_tasks_and_stuck_tasks_are_counted() {
        let world = World::new(1);
        let inside = world.clone();
        world.spawn(async move {
            let deeper = inside.clone();
            inside.spawn(async move { deeper.sleep(Duration::from_secs(2)).await });
            std::future::pending::<()>().await;
        });
        assert_eq!((world.run(), world.now()), (1, at(2_000)));
    }

    #[test]
    fn running_until_a_time_leaves_later_timers() {
        let world = World::new(1);
        let inside = world.clone();
        world.spawn(async move { inside.sleep(Duration::from_secs(5)).await });
        assert_eq!((world.run_until(at(4_999)), world.now()), (1, at(4_999)));
        assert_eq!((world.run_until(at(5_000)), world.now()), (0, at(5_000)));
        assert_eq!((world.run_until(at(9_000)), world.now()), (0, at(9_000)));
        assert_eq!((world.run(), world.now()), (0, at(9_000)));
        assert_ne!(world.draw(), world.draw());
    }

    proptest! {
        #[test]
        fn every_wait_ends_exactly_when_it_should(
            seed: u64,
            waits in proptest::collection::vec(proptest::collection::vec(0_u64..50, 1..8), 1..12),
        ) {
            let (events, end) = play(seed, &waits);
            for (task, waits) in waits.iter().enumerate() {
                let expected: Vec<_> = waits.iter().scan(0, |sum, wait| { *sum += wait; Some(at(*sum)) }).collect();
                let noted: Vec<_> = events.iter().filter(|(_, owner)| *owner == task).map(|(when, _)| *when).collect();
                prop_assert_eq!(noted, expected);
            }
            prop_assert!(events.is_sorted_by_key(|(when, _)| *when));
            prop_assert_eq!(Some(end), waits.iter().map(|waits| at(waits.iter().sum())).max());
        }
    }
}
