//! Alternating rounds of the same writers in a namespace without quotas and in namespaces with quotas.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::quota_test_server::QuotaTestServer;
use super::response_counts::ResponseCounts;
use super::writers::{PodCreateRound, PodWriters, RoundLimits};
use crate::stats::{Percentiles, median};

/// Result for one number of writers and one number of quotas.
#[derive(Debug, Serialize)]
pub(super) struct QuotaCostRow {
    pub(super) writers: usize,
    pub(super) quotas: usize,
    pub(super) pods: usize,
    /// From the first attempt until the pod was created, over all rounds.
    pub(super) latency: Percentiles,
    /// Medians over the rounds.
    #[serde(flatten)]
    pub(super) figure: PodCreateCost,
    /// Medians of the per-round ratios to the namespace without quotas.
    pub(super) over_none: PodCreateCost,
    pub(super) answers: ResponseCounts,
}

/// Rate and CPU time per pod in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct PodCreateCost {
    pub(super) per_second: f64,
    /// CPU time of the API server.
    pub(super) cpu_us: f64,
    /// CPU time of its etcd, if it has one.
    pub(super) etcd_cpu_us: Option<f64>,
}

impl PodCreateCost {
    fn of(round_result: &PodCreateRound) -> Self {
        let pods = round_result.times.len() as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / pods;
        Self {
            per_second: pods / round_result.elapsed.as_secs_f64(),
            cpu_us: each(round_result.cpu.apiserver),
            etcd_cpu_us: round_result.cpu.etcd.map(each),
        }
    }

    fn over(&self, other: &PodCreateCost) -> PodCreateCost {
        let etcd = self.etcd_cpu_us.zip(other.etcd_cpu_us);
        PodCreateCost {
            per_second: self.per_second / other.per_second,
            cpu_us: self.cpu_us / other.cpu_us,
            etcd_cpu_us: etcd.map(|(own, other)| own / other),
        }
    }

    fn median(figures: &[PodCreateCost]) -> PodCreateCost {
        let of = |value: fn(&PodCreateCost) -> f64| median(figures.iter().map(value).collect());
        let etcd: Option<Vec<f64>> = figures.iter().map(|figure| figure.etcd_cpu_us).collect();
        PodCreateCost {
            per_second: of(|figure| figure.per_second),
            cpu_us: of(|figure| figure.cpu_us),
            etcd_cpu_us: etcd.map(median),
        }
    }
}

/// Namespace and the results of all its rounds.
struct NamespaceRounds {
    quotas: usize,
    path: String,
    figures: Vec<PodCreateCost>,
    times: Vec<Duration>,
    answers: ResponseCounts,
}

impl NamespaceRounds {
    fn add(&mut self, round_result: PodCreateRound) -> Result<()> {
        ensure!(
            !round_result.times.is_empty(),
            "no pod was created with {} quotas; responses: {} {:?}",
            self.quotas,
            round_result.answers.refusals(),
            round_result.answers.examples().collect::<Vec<_>>()
        );
        self.figures.push(PodCreateCost::of(&round_result));
        self.times.extend(round_result.times);
        self.answers.merge(round_result.answers);
        Ok(())
    }
}

pub(super) struct QuotaCostRounds {
    writers: PodWriters,
    /// The first namespace has no quotas.
    places: Vec<NamespaceRounds>,
}

impl QuotaCostRounds {
    pub(super) async fn prepare(
        site: &mut QuotaTestServer<'_>,
        label: &str,
        writers: usize,
        quotas: &[usize],
    ) -> Result<Self> {
        let mut places = Vec::new();
        for quotas in [0].into_iter().chain(quotas.iter().copied()) {
            let name = format!("{label}-{quotas}");
            places.push(NamespaceRounds {
                quotas,
                path: site.namespace(&name, quotas).await?,
                figures: Vec::new(),
                times: Vec::new(),
                answers: ResponseCounts::default(),
            });
        }
        let writers = PodWriters::connect(&site.server.endpoint, writers).await?;
        Ok(Self { writers, places })
    }

    pub(super) async fn measure(
        &mut self,
        site: &mut QuotaTestServer<'_>,
        rounds: usize,
        bounds: &RoundLimits,
    ) -> Result<Vec<QuotaCostRow>> {
        let count = self.places.len();
        for round in 0..rounds {
            // The order rotates, so that no namespace benefits from being first.
            for round_result in 0..count {
                let place = &mut self.places[(round + round_result) % count];
                let round_result = self.writers.run_round(&site.server, &place.path, bounds);
                place.add(round_result.await?)?;
                site.clear(&place.path).await?;
            }
        }
        Ok(self.rows())
    }

    fn rows(&mut self) -> Vec<QuotaCostRow> {
        let writers = self.writers.count();
        let without: Vec<PodCreateCost> = self
            .places
            .first()
            .map_or(Vec::new(), |it| it.figures.clone());
        let rows = self.places.drain(..).map(|place| {
            let pairs = place.figures.iter().zip(&without);
            let over: Vec<PodCreateCost> =
                pairs.map(|(with, without)| with.over(without)).collect();
            QuotaCostRow {
                writers,
                quotas: place.quotas,
                pods: place.times.len(),
                latency: Percentiles::of(place.times),
                figure: PodCreateCost::median(&place.figures),
                over_none: PodCreateCost::median(&over),
                answers: place.answers,
            }
        });
        rows.inspect(QuotaCostRow::print).collect()
    }
}

impl QuotaCostRow {
    fn print(&self) {
        let PodCreateCost {
            per_second, cpu_us, ..
        } = self.figure;
        eprintln!(
            "  writers: {}, quotas: {}: {per_second:.0}/s, {cpu_us:.0} µs CPU; refused: {}",
            self.writers,
            self.quotas,
            self.answers.refusals()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(per_second: f64, cpu_us: f64, etcd_cpu_us: Option<f64>) -> PodCreateCost {
        PodCreateCost {
            per_second,
            cpu_us,
            etcd_cpu_us,
        }
    }

    #[test]
    fn ratio_divides_two_measurements_of_one_round() {
        let (with, without) = (
            figure(70.0, 120.0, Some(30.0)),
            figure(100.0, 100.0, Some(20.0)),
        );
        assert_eq!(with.over(&without), figure(0.7, 1.2, Some(1.5)));
    }

    #[test]
    fn median_includes_etcd_only_if_measured() {
        let (one, two) = (figure(1.0, 10.0, Some(5.0)), figure(3.0, 20.0, Some(7.0)));
        assert_eq!(
            PodCreateCost::median(&[one, two]),
            figure(2.0, 15.0, Some(6.0))
        );
        let alone = figure(1.0, 10.0, None);
        assert_eq!(PodCreateCost::median(&[alone]), alone);
    }
}
