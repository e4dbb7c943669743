//! Keeps slow policy expressions from blocking other requests on the same worker thread.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Policies that take longer than this run outside of the async worker threads.
const SLOW_THRESHOLD: Duration = Duration::from_millis(2);

/// Limits concurrent slow evaluations to half of the cores.
static SLOW_EVALUATION_PERMITS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new(cores.div_ceil(2))
});

/// Remembers whether the last evaluation of a policy was slow.
#[derive(Debug, Default)]
pub(super) struct EvaluationPacer {
    is_slow: AtomicBool,
}

impl EvaluationPacer {
    /// Runs `evaluate` on this thread if the last evaluation was fast, else with `block_in_place` and a permit.
    pub(super) async fn run<T>(&self, evaluate: impl FnOnce() -> T) -> T {
        let timed = || {
            let started = Instant::now();
            let result = evaluate();
            let is_slow = started.elapsed() > SLOW_THRESHOLD;
            self.is_slow.store(is_slow, Ordering::Relaxed);
            result
        };
        let result = if self.is_slow.load(Ordering::Relaxed) && is_multi_threaded() {
            // The semaphore is never closed.
            let _permit = SLOW_EVALUATION_PERMITS.acquire().await;
            tokio::task::block_in_place(timed)
        } else {
            timed()
        };
        tokio::task::yield_now().await;
        result
    }
}

fn is_multi_threaded() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}
