//! Expressions that take long do not keep others waiting.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// What takes longer is done beside the threads that serve everybody.
const SLOW: Duration = Duration::from_millis(2);

/// How much of it is done at a time: some of the machine is left for all others.
static ROOM: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new(cores.div_ceil(2))
});

/// How long a policy took when it was last asked.
#[derive(Debug, Default)]
pub(super) struct Pace {
    is_slow: AtomicBool,
}

impl Pace {
    /// Evaluates, on this thread if the policy was quick when it was last asked.
    pub(super) async fn run<T>(&self, evaluate: impl FnOnce() -> T) -> T {
        let timed = || {
            let begun = Instant::now();
            let result = evaluate();
            let is_slow = begun.elapsed() > SLOW;
            self.is_slow.store(is_slow, Ordering::Relaxed);
            result
        };
        let result = if self.is_slow.load(Ordering::Relaxed) && has_other_threads() {
            // It is never closed.
            let _room = ROOM.acquire().await;
            tokio::task::block_in_place(timed)
        } else {
            timed()
        };
        tokio::task::yield_now().await;
        result
    }
}

fn has_other_threads() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}
