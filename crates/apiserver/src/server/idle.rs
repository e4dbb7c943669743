//! Whether anybody uses a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior};

/// What happens on a connection. Whoever answers a request there holds it until the answer is sent.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    pub(crate) requests: AtomicU64,
}

/// Looks at a connection now and then.
#[derive(Debug)]
pub(super) struct IdleWatch {
    activity: Arc<Activity>,
    ticks: Interval,
    requests_seen: u64,
    quiet_ticks: u32,
}

/// How many looks in a row must find nothing.
const QUIET_TICKS: u32 = 2;

/// The watch, and the service of the connection.
const HOLDERS_WITHOUT_REQUESTS: usize = 2;

impl IdleWatch {
    pub(super) fn new(activity: Arc<Activity>, timeout: Duration) -> IdleWatch {
        let period = timeout / QUIET_TICKS;
        let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        IdleWatch {
            activity,
            ticks,
            requests_seen: 0,
            quiet_ticks: 0,
        }
    }

    /// Whether nobody has asked for anything yet.
    pub(super) fn is_unused(&self) -> bool {
        self.activity.requests.load(Ordering::Relaxed) == 0
    }

    /// Waits until the connection was not used for the whole time.
    pub(super) async fn idle(&mut self) {
        loop {
            self.ticks.tick().await;
            let requests = self.activity.requests.load(Ordering::Relaxed);
            let in_use = Arc::strong_count(&self.activity) > HOLDERS_WITHOUT_REQUESTS;
            if in_use || requests != self.requests_seen {
                self.requests_seen = requests;
                self.quiet_ticks = 0;
                continue;
            }
            self.quiet_ticks += 1;
            if self.quiet_ticks >= QUIET_TICKS {
                return;
            }
        }
    }
}
