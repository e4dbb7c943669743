//! Looking at a watch costs more than many a plugin: only some decisions are timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::Metrics;
use crate::cycle::{Observer, Point};

/// As upstream: of a hundred decisions.
const SAMPLED_PERCENT: u32 = 10;

/// Times some decisions for the metrics.
#[derive(Debug)]
pub struct Stopwatch {
    metrics: Arc<Metrics>,
    started: Instant,
    /// Not every tenth is taken: what comes in tens would be seen always, or never.
    random: AtomicU32,
}

impl Stopwatch {
    pub fn new(metrics: Arc<Metrics>) -> Stopwatch {
        Stopwatch {
            metrics,
            started: Instant::now(),
            random: AtomicU32::new(0x9e37_79b9),
        }
    }
}

impl Observer for Stopwatch {
    fn begins(&self) -> bool {
        // One thread decides: nobody else changes it meanwhile.
        let mut random = self.random.load(Ordering::Relaxed);
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.store(random, Ordering::Relaxed);
        random % 100 < SAMPLED_PERCENT
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn plugin_took(&self, plugin: &'static str, point: Point, is_refused: bool, took: Duration) {
        let (point, status) = (name(point), status(is_refused));
        self.metrics.note_plugin(plugin, point, status, took);
    }

    fn point_took(&self, profile: &str, point: Point, is_refused: bool, took: Duration) {
        let (point, status) = (name(point), status(is_refused));
        self.metrics
            .note_extension_point(point, status, profile, took);
    }
}

fn name(point: Point) -> &'static str {
    match point {
        Point::Filter => "Filter",
        Point::Score => "Score",
    }
}

fn status(is_refused: bool) -> &'static str {
    if is_refused {
        "Unschedulable"
    } else {
        "Success"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_sampled_and_not_always_the_same() {
        let watch = Stopwatch::new(Arc::default());
        let taken: Vec<usize> = (0..10_000).filter(|_| watch.begins()).collect();
        assert!((800..1200).contains(&taken.len()), "{}", taken.len());
        for rest in 0..10 {
            let part = taken.iter().filter(|index| *index % 10 == rest).count();
            assert!((50..200).contains(&part), "{rest}: {part}");
        }
    }
}
