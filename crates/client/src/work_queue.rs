//! Rate-limited queue of keys to process, as client-go's `workqueue`: a key is queued at most once, is processed by one
//! worker at a time, and is retried with exponential backoff when processing fails. Entry point:
//! [`WorkQueue::run_workers`].

use parking_lot::{Mutex, MutexGuard};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use rhumb_meta::Backoff;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::Error;

/// Backoff of a key that failed.
const RETRY: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(60));
/// The first failures of a key are usually write conflicts, which need no attention.
const QUIET_FAILURES_MAX: u32 = 3;
/// Caps delays so that adding them to an `Instant` cannot overflow.
const PAUSE_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Whether a successfully processed key is queued again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileAction {
    /// Only when it is added again.
    AwaitChange,
    /// Queue it again after this delay.
    RequeueAfter(Duration),
}

/// Queue of keys to process. Clones share the same queue.
#[derive(Debug)]
pub struct WorkQueue<K>(Arc<WorkQueueInner<K>>);

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        WorkQueue(self.0.clone())
    }
}

#[derive(Debug)]
struct WorkQueueInner<K> {
    state: Mutex<WorkQueueState<K>>,
    added: Notify,
}

#[derive(Debug)]
struct WorkQueueState<K> {
    ready: VecDeque<K>,
    states: HashMap<K, KeyState>,
    failures: HashMap<K, Backoff>,
    /// Delayed keys, by due time and then by insertion order.
    later: BTreeMap<(Instant, u64), K>,
    /// The entry of each delayed key in the map above; a key has at most one.
    due: HashMap<K, (Instant, u64)>,
    count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    Ready,
    Working,
    /// Added again while it was being processed.
    WorkingAndDirty,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        WorkQueue(Arc::new(WorkQueueInner {
            state: Mutex::new(WorkQueueState {
                ready: VecDeque::new(),
                states: HashMap::new(),
                failures: HashMap::new(),
                later: BTreeMap::new(),
                due: HashMap::new(),
                count: 0,
            }),
            added: Notify::new(),
        }))
    }
}

impl<K: Clone + Debug + Eq + Hash> WorkQueue<K> {
    pub fn new() -> Self {
        WorkQueue::default()
    }

    /// Queues the key; no effect if it is queued already.
    pub fn add(&self, key: K) {
        self.lock().add(key);
        self.0.added.notify_one();
    }

    /// Queues the key after a delay.
    pub fn add_after(&self, key: K, pause: Duration) {
        self.lock().add_at(key, after(pause));
        self.0.added.notify_one();
    }

    /// Processes keys with at most `workers` concurrent handlers, until dropped.
    pub async fn run_workers<F, W>(&self, workers: usize, mut handle: F) -> Result<(), Error>
    where
        F: FnMut(K) -> W,
        W: Future<Output = Result<ReconcileAction, Error>>,
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

    fn finish(&self, key: K, result: Result<ReconcileAction, Error>) {
        let mut state = self.lock();
        let is_dirty = state.states.remove(&key) == Some(KeyState::WorkingAndDirty);
        let again = match result {
            Ok(done) => {
                state.failures.remove(&key);
                match done {
                    ReconcileAction::AwaitChange => None,
                    ReconcileAction::RequeueAfter(pause) => Some(pause),
                }
            }
            Err(error) => {
                let backoff = state.failures.entry(key.clone()).or_insert(RETRY);
                let pause = backoff.next_delay();
                if backoff.failures() > QUIET_FAILURES_MAX {
                    tracing::warn!(?key, %error, "failed to process key; retrying with backoff");
                } else {
                    tracing::debug!(?key, %error, "failed to process key; retrying soon");
                }
                Some(pause)
            }
        };
        if is_dirty {
            state.add(key.clone());
        }
        if let Some(pause) = again {
            state.add_at(key, after(pause));
        }
    }

    fn lock(&self) -> MutexGuard<'_, WorkQueueState<K>> {
        self.0.state.lock()
    }
}

/// The instant after a delay, without overflow.
fn after(pause: Duration) -> Instant {
    Instant::now() + pause.min(PAUSE_MAX)
}

impl<K: Clone + Eq + Hash> WorkQueueState<K> {
    fn add(&mut self, key: K) {
        match self.states.entry(key) {
            Entry::Vacant(vacant) => {
                self.ready.push_back(vacant.key().clone());
                vacant.insert(KeyState::Ready);
            }
            Entry::Occupied(mut occupied) => {
                if *occupied.get() == KeyState::Working {
                    occupied.insert(KeyState::WorkingAndDirty);
                }
            }
        }
    }

    /// Keeps the earlier of two delays; the handler asks again if it still needs the later one.
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

    /// The next key to process. If there is none, `due` is set to when the first delayed key becomes ready.
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
        self.states.insert(key.clone(), KeyState::Working);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::timeout;

    use super::*;

    /// Runs workers for one minute of paused time; returns when each key was processed, in milliseconds.
    async fn processed_keys(
        queue: &WorkQueue<&'static str>,
        workers: usize,
        mut handle: impl AsyncFnMut(&'static str) -> Result<ReconcileAction, Error>,
    ) -> Vec<(&'static str, u128)> {
        let begun = Instant::now();
        let seen = RefCell::new(Vec::new());
        let handle = tokio::sync::Mutex::new(&mut handle);
        let work = queue.run_workers(workers, |key| {
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
    async fn a_key_is_queued_once_and_requeued_when_due() {
        let queue = WorkQueue::new();
        queue.add("a");
        queue.add("a");
        queue.add_after("b", Duration::from_secs(2));
        let mut first = true;
        let seen = processed_keys(&queue, 1, async |key| {
            let again = key == "a" && std::mem::take(&mut first);
            Ok(if again {
                ReconcileAction::RequeueAfter(Duration::from_secs(5))
            } else {
                ReconcileAction::AwaitChange
            })
        })
        .await;
        assert_eq!(seen, [("a", 0), ("b", 2000), ("a", 5000)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_repeatedly_is_requeued_once() {
        let queue = WorkQueue::new();
        queue.add_after("a", Duration::from_secs(30));
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(20));
        let again = queue.clone();
        let mut adds = 5;
        let seen = processed_keys(&queue, 1, async |key| {
            if adds > 0 {
                adds -= 1;
                again.add(key);
            }
            Ok(ReconcileAction::RequeueAfter(Duration::from_secs(25)))
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
    async fn failures_are_requeued_with_growing_delay() {
        let queue = WorkQueue::new();
        queue.add("a");
        let mut failures = 4;
        let seen = processed_keys(&queue, 1, async |_| {
            if failures > 0 {
                failures -= 1;
                return Err(Error::Other("not yet".to_owned()));
            }
            Ok(ReconcileAction::AwaitChange)
        })
        .await;
        let times: Vec<u128> = seen.into_iter().map(|(_, at)| at).collect();
        assert_eq!(times, [0, 5, 15, 35, 75]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_during_processing_is_processed_again_by_one_worker() {
        let queue = WorkQueue::new();
        queue.add("a");
        let mut first = true;
        let again = queue.clone();
        let seen = processed_keys(&queue, 4, async |key| {
            if std::mem::take(&mut first) {
                again.add(key);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(ReconcileAction::AwaitChange)
        })
        .await;
        assert_eq!(seen, [("a", 0), ("a", 1000)]);
    }
}
