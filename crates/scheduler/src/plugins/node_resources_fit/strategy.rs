//! What makes a node better: room left, or little room left, or as a curve says.

use super::NodeResourcesFit;
use super::weighed::{Basis, Level, Measure};
use crate::cluster::{NodeId, Nodes};
use crate::model::Pod;
use crate::plugins::{NodeScore, SCORE_MAX};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    LeastAllocated,
    MostAllocated,
    /// The points of the curve, by growing use.
    RequestedToCapacityRatio(Vec<ShapePoint>),
}

/// A point of a curve: at so much use of 100 a score of so much of 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShapePoint {
    pub utilization: i64,
    pub score: i64,
}

/// The best that a point of a curve can say.
const SHAPE_SCORE_MAX: i64 = 10;

pub(super) struct FitScore<'c> {
    strategy: &'c Strategy,
    measure: Measure<'c>,
}

impl<'c> FitScore<'c> {
    pub(super) fn new(
        plugin: &'c NodeResourcesFit,
        pod: &'c Pod,
        nodes: &'c Nodes,
    ) -> FitScore<'c> {
        FitScore {
            strategy: &plugin.strategy,
            measure: Measure::new(&plugin.resources, Basis::Assumed, pod, nodes),
        }
    }
}

impl NodeScore for FitScore<'_> {
    fn score(&self, node: NodeId) -> i64 {
        let levels = self.measure.levels(self.measure.nodes.get(node));
        match self.strategy {
            Strategy::LeastAllocated => mean(levels, |level| {
                let left = level.has.saturating_sub(level.with_pod);
                percentage(left.max(0), level.has)
            }),
            Strategy::MostAllocated => mean(levels, |level| {
                percentage(level.with_pod.min(level.has), level.has)
            }),
            Strategy::RequestedToCapacityRatio(shape) => by_shape(levels, shape),
        }
    }
}

/// So much of 100, rounded down.
fn percentage(part: i64, whole: i64) -> i64 {
    match part.checked_mul(SCORE_MAX) {
        Some(product) => product.checked_div(whole).unwrap_or_default(),
        None => part.checked_div(whole / SCORE_MAX).unwrap_or_default(),
    }
}

/// By weight, rounded down.
fn mean(levels: impl Iterator<Item = Level>, score: impl Fn(Level) -> i64) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for level in levels {
        sum += score(level) * level.weight;
        weights += level.weight;
    }
    match weights {
        0 => 0,
        1 => sum,
        weights => sum / weights,
    }
}

/// What the curve gives nothing for does not count at all.
fn by_shape(levels: impl Iterator<Item = Level>, shape: &[ShapePoint]) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for level in levels {
        let use_percentage = match level.with_pod > level.has {
            true => SCORE_MAX,
            false => percentage(level.with_pod, level.has),
        };
        let score = on_curve(shape, use_percentage);
        if score > 0 {
            sum += score * level.weight;
            weights += level.weight;
        }
    }
    match weights {
        0 => 0,
        weights => (sum as f64 / weights as f64).round() as i64,
    }
}

/// The score at so much use: straight lines between the points, and level beyond them.
fn on_curve(shape: &[ShapePoint], at: i64) -> i64 {
    let scale = SCORE_MAX / SHAPE_SCORE_MAX;
    let after = shape.iter().position(|point| at <= point.utilization);
    match after {
        None => shape.last().map_or(0, |last| last.score * scale),
        Some(0) => shape[0].score * scale,
        Some(after) => {
            let (from, to) = (shape[after - 1], shape[after]);
            let (rise, run) = (
                (to.score - from.score) * scale,
                to.utilization - from.utilization,
            );
            let part = rise * (at - from.utilization);
            from.score * scale + part.checked_div(run).unwrap_or_default()
        }
    }
}
