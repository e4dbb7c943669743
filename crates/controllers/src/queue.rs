//! Work by key: each key waits once, is worked on by one worker at a time, and comes back when it failed.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::Error;

/// The first pause after a failure; it doubles up to the last.
const RETRY_FIRST: Duration = Duration::from_millis(5);
const RETRY_LAST: Duration = Duration::from_secs(60);
/// Longer than any process lives.
const PAUSE_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What is to be done with a key that was worked on without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// Nothing, until it is added again.
    Yes,
    /// Again, after this time.
    Again(Duration),
}

/// Keys that wait for work. A clone is the same queue.
#[derive(Debug)]
pub(crate) struct Queue<K>(Arc<Shared<K>>);

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue(self.0.clone())
    }
}

#[derive(Debug)]
struct Shared<K> {
    state: Mutex<State<K>>,
    added: Notify,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    stages: HashMap<K, Stage>,
    failures: HashMap<K, u32>,
    /// By time, and among equals by the order in which they came.
    later: BTreeMap<(Instant, u64), K>,
    /// Where each key stands in `later`, which is once.
    due: HashMap<K, (Instant, u64)>,
    count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Ready,
    Working,
    /// Added again while it was worked on.
    WorkingAndDirty,
}

impl<K: Clone + Debug + Eq + Hash> Queue<K> {
    pub(crate) fn new() -> Self {
        Queue(Arc::new(Shared {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                stages: HashMap::new(),
                failures: HashMap::new(),
                later: BTreeMap::new(),
                due: HashMap::new(),
                count: 0,
            }),
            added: Notify::new(),
        }))
    }

    /// Has a worker look at the key soon, however often it is said before one does.
    pub(crate) fn add(&self, key: K) {
        self.lock().add(key);
        self.0.added.notify_one();
    }

    /// Adds the key once the time has passed.
    pub(crate) fn add_after(&self, key: K, pause: Duration) {
        self.lock().add_at(key, after(pause));
        self.0.added.notify_one();
    }

    /// Works on keys, on at most `workers` at once, until it is dropped.
    pub(crate) async fn work<F, W>(&self, workers: usize, mut handle: F) -> Result<(), Error>
    where
        F: FnMut(K) -> W,
        W: Future<Output = Result<Done, Error>>,
    {
        let mut working = FuturesUnordered::new();
        loop {
            let mut next = None;
            while working.len() < workers {
                let Some(key) = self.lock().take(Instant::now(), &mut next) else {
                    break;
                };
                let work = handle(key.clone());
                working.push(async move { (key, work.await) });
            }
            let due = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some((key, result)) = working.next(), if !working.is_empty() => self.finish(key, result),
                () = self.0.added.notified() => {}
                () = due => {}
            }
        }
    }

    fn finish(&self, key: K, result: Result<Done, Error>) {
        let mut state = self.lock();
        let is_dirty = state.stages.remove(&key) == Some(Stage::WorkingAndDirty);
        let again = match result {
            Ok(done) => {
                state.failures.remove(&key);
                match done {
                    Done::Yes => None,
                    Done::Again(pause) => Some(pause),
                }
            }
            Err(error) => {
                let failures = state.failures.entry(key.clone()).or_default();
                let pause = RETRY_FIRST.saturating_mul(1 << (*failures).min(20));
                *failures += 1;
                // The first failures are those of two writers that met.
                if *failures > 3 {
                    tracing::warn!(?key, %error, "tried again later");
                } else {
                    tracing::debug!(?key, %error, "tried again at once");
                }
                Some(pause.min(RETRY_LAST))
            }
        };
        if is_dirty {
            state.add(key.clone());
        }
        if let Some(pause) = again {
            state.add_at(key, after(pause));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A time that can be told, however long the pause.
fn after(pause: Duration) -> Instant {
    Instant::now() + pause.min(PAUSE_MAX)
}

impl<K: Clone + Eq + Hash> State<K> {
    fn add(&mut self, key: K) {
        match self.stages.entry(key) {
            Entry::Vacant(vacant) => {
                self.ready.push_back(vacant.key().clone());
                vacant.insert(Stage::Ready);
            }
            Entry::Occupied(mut occupied) => {
                if *occupied.get() == Stage::Working {
                    occupied.insert(Stage::WorkingAndDirty);
                }
            }
        }
    }

    /// Of two times, the earlier holds: whoever works on a key says anew when it wants it again.
    fn add_at(&mut self, key: K, at: Instant) {
        if let Some(due) = self.due.get(&key) {
            if due.0 <= at {
                return;
            }
            self.later.remove(due);
        }
        self.count += 1;
        self.due.insert(key.clone(), (at, self.count));
        self.later.insert((at, self.count), key);
    }

    /// The next key to work on. `due` becomes the time at which the next one is, if none is now.
    fn take(&mut self, now: Instant, due: &mut Option<Instant>) -> Option<K> {
        while let Some(first) = self.later.first_entry() {
            if first.key().0 > now {
                *due = Some(first.key().0);
                break;
            }
            let key = first.remove();
            self.due.remove(&key);
            self.add(key);
        }
        let key = self.ready.pop_front()?;
        self.stages.insert(key.clone(), Stage::Working);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::timeout;

    use super::*;

    /// Works for a minute of the paused clock; tells when each key was worked on, in milliseconds.
    async fn worked(
        queue: &Queue<&'static str>,
        workers: usize,
        mut handle: impl AsyncFnMut(&'static str) -> Result<Done, Error>,
    ) -> Vec<(&'static str, u128)> {
        let begun = Instant::now();
        let seen = RefCell::new(Vec::new());
        let handle = tokio::sync::Mutex::new(&mut handle);
        let work = queue.work(workers, |key| {
            seen.borrow_mut().push((key, begun.elapsed().as_millis()));
            let handle = &handle;
            async move {
                let mut handle = handle.lock().await;
                (*handle)(key).await
            }
        });
        let _ = timeout(Duration::from_secs(60), work).await;
        seen.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_comes_back_when_it_is_due() {
        let queue = Queue::new();
        queue.add("a");
        queue.add("a");
        queue.add_after("b", Duration::from_secs(2));
        let mut first = true;
        let seen = worked(&queue, 1, async |key| {
            let again = key == "a" && std::mem::take(&mut first);
            Ok(if again {
                Done::Again(Duration::from_secs(5))
            } else {
                Done::Yes
            })
        })
        .await;
        assert_eq!(seen, [("a", 0), ("b", 2000), ("a", 5000)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_wanted_again_waits_once_however_often_it_is_added() {
        let queue = Queue::new();
        queue.add_after("a", Duration::from_secs(30));
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(20));
        let again = queue.clone();
        let mut adds = 5;
        let seen = worked(&queue, 1, async |key| {
            if adds > 0 {
                adds -= 1;
                again.add(key);
            }
            Ok(Done::Again(Duration::from_secs(25)))
        })
        .await;
        let times: Vec<u128> = seen.into_iter().map(|(_, at)| at).collect();
        assert_eq!(
            times,
            [
                10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 35_000, 60_000
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn failures_come_back_ever_later() {
        let queue = Queue::new();
        queue.add("a");
        let mut failures = 4;
        let seen = worked(&queue, 1, async |_| {
            if failures > 0 {
                failures -= 1;
                return Err(Error::Other("not yet".to_owned()));
            }
            Ok(Done::Yes)
        })
        .await;
        let times: Vec<u128> = seen.into_iter().map(|(_, at)| at).collect();
        assert_eq!(times, [0, 5, 15, 35, 75]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_added_meanwhile_is_worked_on_again_by_one_worker() {
        let queue = Queue::new();
        queue.add("a");
        let mut first = true;
        let again = queue.clone();
        let seen = worked(&queue, 4, async |key| {
            if std::mem::take(&mut first) {
                again.add(key);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(Done::Yes)
        })
        .await;
        assert_eq!(seen, [("a", 0), ("a", 1000)]);
    }
}
