//! Scoring strategies of `NodeResourcesFit`: least allocated, most allocated, or a piecewise linear function of
//! utilization.

use super::NodeResourcesFit;
use super::scored_resources::{NodeResourceUsage, ResourceUsageCalculator, UsageBasis};
use crate::cluster::{NodeId, NodeTable};
use crate::model::Pod;
use crate::plugins::{NodeScorer, SCORE_MAX};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScoringStrategy {
    LeastAllocated,
    MostAllocated,
    /// The points of the function, by increasing utilization.
    RequestedToCapacityRatio(Vec<ShapePoint>),
}

/// Maps a utilization in percent to a score between 0 and 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShapePoint {
    pub utilization: i64,
    pub score: i64,
}

/// The highest score of a shape point.
const SHAPE_SCORE_MAX: i64 = 10;

pub(super) struct ResourceFitScorer<'c> {
    strategy: &'c ScoringStrategy,
    resources: ResourceUsageCalculator<'c>,
}

impl<'c> ResourceFitScorer<'c> {
    pub(super) fn new(
        plugin: &'c NodeResourcesFit,
        pod: &'c Pod,
        nodes: &'c NodeTable,
    ) -> ResourceFitScorer<'c> {
        ResourceFitScorer {
            strategy: &plugin.strategy,
            resources: ResourceUsageCalculator::new(
                &plugin.resources,
                UsageBasis::NonZeroRequested,
                pod,
                nodes,
            ),
        }
    }
}

impl NodeScorer for ResourceFitScorer<'_> {
    fn score(&self, node: NodeId) -> i64 {
        let levels = self.resources.usage_on(self.resources.nodes.get(node));
        match self.strategy {
            ScoringStrategy::LeastAllocated => weighted_mean(levels, |level| {
                let left = level.allocatable.saturating_sub(level.with_pod);
                percentage(left.max(0), level.allocatable)
            }),
            ScoringStrategy::MostAllocated => weighted_mean(levels, |level| {
                percentage(level.with_pod.min(level.allocatable), level.allocatable)
            }),
            ScoringStrategy::RequestedToCapacityRatio(shape) => score_by_shape(levels, shape),
        }
    }
}

/// `part / whole` in percent, rounded down.
fn percentage(part: i64, whole: i64) -> i64 {
    match part.checked_mul(SCORE_MAX) {
        Some(product) => product.checked_div(whole).unwrap_or_default(),
        None => part.checked_div(whole / SCORE_MAX).unwrap_or_default(),
    }
}

/// The weighted mean, rounded down.
fn weighted_mean(
    levels: impl Iterator<Item = NodeResourceUsage>,
    score: impl Fn(NodeResourceUsage) -> i64,
) -> i64 {
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

/// The rounded weighted mean of the shape scores. As upstream, resources that score 0 are left out.
fn score_by_shape(levels: impl Iterator<Item = NodeResourceUsage>, shape: &[ShapePoint]) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for level in levels {
        let use_percentage = match level.with_pod > level.allocatable {
            true => SCORE_MAX,
            false => percentage(level.with_pod, level.allocatable),
        };
        let score = shape_score_at(shape, use_percentage);
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

/// The score at a utilization: linear between the points, constant beyond the first and last.
fn shape_score_at(shape: &[ShapePoint], at: i64) -> i64 {
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
