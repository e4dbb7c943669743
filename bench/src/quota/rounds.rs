//! Turns of the same writers in a namespace without quotas and in namespaces with some, and what they had in common.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::answers::Answers;
use super::site::Site;
use super::writers::{Bounds, Turn, Writers};
use crate::stats::{Percentiles, median};

/// One number of writers and one of quotas.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) writers: usize,
    pub(super) quotas: usize,
    pub(super) pods: usize,
    /// From the first try until a pod was let in, of all rounds.
    pub(super) latency: Percentiles,
    /// The medians of the rounds.
    #[serde(flatten)]
    pub(super) figure: Figure,
    /// The medians of what it was in a round, over what it was without quotas.
    pub(super) over_none: Figure,
    pub(super) answers: Answers,
}

/// What a pod took in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) per_second: f64,
    /// Of the API server.
    pub(super) cpu_us: f64,
    /// Of its etcd, if it has one.
    pub(super) etcd_cpu_us: Option<f64>,
}

impl Figure {
    fn of(turn: &Turn) -> Self {
        let pods = turn.times.len() as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / pods;
        Self {
            per_second: pods / turn.elapsed.as_secs_f64(),
            cpu_us: each(turn.cpu.apiserver),
            etcd_cpu_us: turn.cpu.etcd.map(each),
        }
    }

    fn over(&self, other: &Figure) -> Figure {
        let etcd = self.etcd_cpu_us.zip(other.etcd_cpu_us);
        Figure {
            per_second: self.per_second / other.per_second,
            cpu_us: self.cpu_us / other.cpu_us,
            etcd_cpu_us: etcd.map(|(own, other)| own / other),
        }
    }

    fn median(figures: &[Figure]) -> Figure {
        let of = |value: fn(&Figure) -> f64| median(figures.iter().map(value).collect());
        let etcd: Option<Vec<f64>> = figures.iter().map(|figure| figure.etcd_cpu_us).collect();
        Figure {
            per_second: of(|figure| figure.per_second),
            cpu_us: of(|figure| figure.cpu_us),
            etcd_cpu_us: etcd.map(median),
        }
    }
}

/// A namespace and all turns in it.
struct Place {
    quotas: usize,
    path: String,
    figures: Vec<Figure>,
    times: Vec<Duration>,
    answers: Answers,
}

impl Place {
    fn add(&mut self, turn: Turn) -> Result<()> {
        ensure!(
            !turn.times.is_empty(),
            "no pod was let in with {} quotas; {} {:?}",
            self.quotas,
            turn.answers.refusals(),
            turn.answers.examples().collect::<Vec<_>>()
        );
        self.figures.push(Figure::of(&turn));
        self.times.extend(turn.times);
        self.answers.merge(turn.answers);
        Ok(())
    }
}

pub(super) struct Rounds {
    writers: Writers,
    /// The first is without quotas.
    places: Vec<Place>,
}

impl Rounds {
    pub(super) async fn prepare(
        site: &mut Site<'_>,
        label: &str,
        writers: usize,
        quotas: &[usize],
    ) -> Result<Self> {
        let mut places = Vec::new();
        for quotas in [0].into_iter().chain(quotas.iter().copied()) {
            let name = format!("{label}-{quotas}");
            places.push(Place {
                quotas,
                path: site.namespace(&name, quotas).await?,
                figures: Vec::new(),
                times: Vec::new(),
                answers: Answers::default(),
            });
        }
        let writers = Writers::connect(&site.server.endpoint, writers).await?;
        Ok(Self { writers, places })
    }

    pub(super) async fn measure(
        &mut self,
        site: &mut Site<'_>,
        rounds: usize,
        bounds: &Bounds,
    ) -> Result<Vec<Row>> {
        let count = self.places.len();
        for round in 0..rounds {
            // Each begins as often as the others, so that coming first is of no use.
            for turn in 0..count {
                let place = &mut self.places[(round + turn) % count];
                let turn = self.writers.turn(&site.server, &place.path, bounds);
                place.add(turn.await?)?;
                site.clear(&place.path).await?;
            }
        }
        Ok(self.rows())
    }

    fn rows(&mut self) -> Vec<Row> {
        let writers = self.writers.count();
        let without: Vec<Figure> = self
            .places
            .first()
            .map_or(Vec::new(), |it| it.figures.clone());
        let rows = self.places.drain(..).map(|place| {
            let pairs = place.figures.iter().zip(&without);
            let over: Vec<Figure> = pairs.map(|(with, without)| with.over(without)).collect();
            Row {
                writers,
                quotas: place.quotas,
                pods: place.times.len(),
                latency: Percentiles::of(place.times),
                figure: Figure::median(&place.figures),
                over_none: Figure::median(&over),
                answers: place.answers,
            }
        });
        rows.inspect(Row::tell).collect()
    }
}

impl Row {
    fn tell(&self) {
        let Figure {
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

    fn figure(per_second: f64, cpu_us: f64, etcd_cpu_us: Option<f64>) -> Figure {
        Figure {
            per_second,
            cpu_us,
            etcd_cpu_us,
        }
    }

    #[test]
    fn a_ratio_is_of_two_turns_of_one_round() {
        let (with, without) = (
            figure(70.0, 120.0, Some(30.0)),
            figure(100.0, 100.0, Some(20.0)),
        );
        assert_eq!(with.over(&without), figure(0.7, 1.2, Some(1.5)));
    }

    #[test]
    fn a_median_has_etcd_only_if_there_is_one() {
        let (one, two) = (figure(1.0, 10.0, Some(5.0)), figure(3.0, 20.0, Some(7.0)));
        assert_eq!(Figure::median(&[one, two]), figure(2.0, 15.0, Some(6.0)));
        let alone = figure(1.0, 10.0, None);
        assert_eq!(Figure::median(&[alone]), alone);
    }
}
