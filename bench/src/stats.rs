//! Percentiles and medians of measurements.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Latency percentiles in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Percentiles {
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Percentiles {
    /// All zero if there are no times.
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        // Nearest-rank method: the smallest time that at least this share did not exceed.
        let at = |share: f64| {
            let rank = (times.len() as f64 * share).ceil() as usize;
            let time = times.get(rank.saturating_sub(1));
            time.copied().unwrap_or_default().as_secs_f64() * 1e3
        };
        Self {
            p50_ms: at(0.50),
            p90_ms: at(0.90),
            p99_ms: at(0.99),
            max_ms: at(1.0),
        }
    }
}

/// Median; zero if there are no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let upper = values.get(values.len() / 2).copied().unwrap_or_default();
    match values.len() % 2 {
        0 => f64::midpoint(
            values
                .get((values.len() / 2).wrapping_sub(1))
                .copied()
                .unwrap_or_default(),
            upper,
        ),
        _ => upper,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(times_ms: impl IntoIterator<Item = u64>, expected: [f64; 4]) {
        let times = times_ms.into_iter().map(Duration::from_millis).collect();
        let [p50_ms, p90_ms, p99_ms, max_ms] = expected;
        let expected = Percentiles {
            p50_ms,
            p90_ms,
            p99_ms,
            max_ms,
        };
        assert_eq!(Percentiles::of(times), expected);
    }

    #[test]
    fn percentiles_use_the_nearest_rank() {
        check([], [0.0; 4]);
        check([7], [7.0; 4]);
        check([2, 1], [1.0, 2.0, 2.0, 2.0]);
        check((1..=100).rev(), [50.0, 90.0, 99.0, 100.0]);
        check(1..=1000, [500.0, 900.0, 990.0, 1000.0]);
    }

    #[test]
    fn median_of_odd_and_even_counts() {
        for (values, expected) in [
            (vec![], 0.0),
            (vec![3.0], 3.0),
            (vec![4.0, 1.0], 2.5),
            (vec![9.0, 1.0, 2.0], 2.0),
            (vec![4.0, 3.0, 100.0, 1.0], 3.5),
        ] {
            assert_eq!(median(values.clone()), expected, "{values:?}");
        }
    }
}
