//! Clocks: the system clock, and a manual one for tests (upstream: `k8s.io/utils/clock`).
//!
//! Time-dependent code takes a [`Clock`], so that tests control the time: they can advance it by hours at once, and
//! set the wall clock back independently of monotonic time.

mod parse;
mod timestamp;

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::time::{Duration, Instant, SystemTime};

pub use parse::ParseTimestampError;
pub use timestamp::{Rfc3339Display, Timestamp};

/// A source of wall clock and monotonic time; shared as `Arc<dyn Clock>`.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The wall clock time. It can jump forwards and backwards: use it for timestamps, never for durations.
    fn wall(&self) -> Timestamp;

    /// The time since the clock was created. It never decreases: use it for timeouts, leases and rates.
    fn monotonic(&self) -> Duration;
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    pub fn new() -> Self {
        SystemClock {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        SystemTime::now().into()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock for tests that only changes when it is advanced or set.
#[derive(Debug, Default)]
pub struct ManualClock {
    readings: Mutex<ManualClockTimes>,
}

#[derive(Debug, Default, Clone, Copy)]
struct ManualClockTimes {
    wall: Timestamp,
    monotonic: Duration,
}

impl ManualClock {
    pub fn new(wall: Timestamp) -> Self {
        ManualClock {
            readings: Mutex::new(ManualClockTimes {
                wall,
                monotonic: Duration::ZERO,
            }),
        }
    }

    /// Advances wall clock and monotonic time.
    pub fn advance(&self, by: Duration) {
        let mut readings = self.readings();
        readings.wall = readings.wall.saturating_add(by);
        readings.monotonic = readings.monotonic.saturating_add(by);
    }

    /// Sets the wall clock; monotonic time does not change.
    pub fn set_wall(&self, wall: Timestamp) {
        self.readings().wall = wall;
    }

    /// Ignores lock poisoning: the state consists of plain values and is always consistent.
    fn readings(&self) -> MutexGuard<'_, ManualClockTimes> {
        self.readings.lock()
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        self.readings().wall
    }

    fn monotonic(&self) -> Duration {
        self.readings().monotonic
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn setting_the_wall_clock_back_does_not_affect_durations() {
        let manual = Arc::new(ManualClock::new(Timestamp::from_unix(1_000_000, 0)));
        let clock: Arc<dyn Clock> = Arc::clone(&manual) as Arc<dyn Clock>;
        manual.advance(HOUR);
        assert_eq!(clock.wall(), Timestamp::from_unix(1_003_600, 0));
        assert_eq!(clock.monotonic(), HOUR);
        manual.set_wall(clock.wall().saturating_sub(HOUR));
        assert_eq!(clock.wall(), Timestamp::from_unix(1_000_000, 0));
        assert_eq!(clock.monotonic(), HOUR);
    }

    #[test]
    fn the_system_clock_advances() {
        let clock = SystemClock::new();
        let before = clock.monotonic();
        assert!(clock.monotonic() >= before);
        assert!(clock.wall() > Timestamp::from_unix(1_700_000_000, 0));
    }
}
