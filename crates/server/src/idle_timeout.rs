//! Detects idle connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior};

use rhumb_handlers::http::ConnectionActivity;

/// Checks periodically whether a connection is in use.
#[derive(Debug)]
pub(super) struct IdleDetector {
    activity: Arc<ConnectionActivity>,
    ticks: Interval,
    requests_seen: u64,
    quiet_ticks: u32,
}

/// Consecutive checks without activity after which a connection is idle.
const QUIET_TICKS: u32 = 2;

impl IdleDetector {
    pub(super) fn new(activity: Arc<ConnectionActivity>, timeout: Duration) -> IdleDetector {
        let period = timeout / QUIET_TICKS;
        let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        IdleDetector {
            activity,
            ticks,
            requests_seen: 0,
            quiet_ticks: 0,
        }
    }

    /// Whether the connection has carried no request yet.
    pub(super) fn is_unused(&self) -> bool {
        self.activity.requests_started() == 0
    }

    /// Completes once the connection was idle for the whole timeout.
    pub(super) async fn wait_until_idle(&mut self) {
        loop {
            self.ticks.tick().await;
            let requests = self.activity.requests_started();
            if self.activity.has_requests_in_progress() || requests != self.requests_seen {
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
