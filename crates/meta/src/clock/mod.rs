//! Time as an argument.
//!
//! Code whose behaviour depends on the time takes a [`Clock`] rather than ask the machine, so that its tests
//! decide what time it is: hours pass at once, and the wall clock can jump back without anything else noticing.

mod parse;
mod timestamp;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

pub use parse::ParseTimestampError;
pub use timestamp::{Rfc3339, Timestamp};

/// Tells the time; shared as `Arc<dyn Clock>`.
pub trait Clock: fmt::Debug + Send + Sync {
    /// What the wall clock shows. It can jump, also back: for timestamps that people read, never for durations.
    fn wall(&self) -> Timestamp;

    /// The time since the clock was made. It never goes back: for time limits, leases and rates.
    fn monotonic(&self) -> Duration;
}

/// The time of the machine.
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

/// A clock that stands still until it is told otherwise.
#[derive(Debug, Default)]
pub struct ManualClock {
    hands: Mutex<Hands>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Hands {
    wall: Timestamp,
    monotonic: Duration,
}

impl ManualClock {
    pub fn new(wall: Timestamp) -> Self {
        ManualClock {
            hands: Mutex::new(Hands {
                wall,
                monotonic: Duration::ZERO,
            }),
        }
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut hands = self.hands();
        hands.wall = hands.wall.saturating_add(by);
        hands.monotonic = hands.monotonic.saturating_add(by);
    }

    /// Sets the wall clock, forward or back, while no time passes.
    pub fn set_wall(&self, wall: Timestamp) {
        self.hands().wall = wall;
    }

    /// A thread that panicked while it held the lock left nothing half done: both hands are plain values.
    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        self.hands().wall
    }

    fn monotonic(&self) -> Duration {
        self.hands().monotonic
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn setting_the_wall_clock_back_leaves_durations_alone() {
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
    fn the_system_clock_moves_on() {
        let clock = SystemClock::new();
        let before = clock.monotonic();
        assert!(clock.monotonic() >= before);
        assert!(clock.wall() > Timestamp::from_unix(1_700_000_000, 0));
    }
}
