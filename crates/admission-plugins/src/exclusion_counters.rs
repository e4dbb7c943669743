//! Counts excluded requests without building a label set per request.

use parking_lot::RwLock;
use std::collections::HashMap;

use prometheus_client::metrics::counter::Counter;
use rhumb_meta::GroupResource;

use super::metrics::{AdmissionMetrics, ExclusionSubject};

/// The exclusion counters of one rule on one resource, indexed by operation.
type OperationCounters = [Option<Counter>; 4];

/// The exclusion counters of one webhook or policy: per resource, a list indexed by rule.
#[derive(Debug, Default)]
pub(super) struct ExclusionCounters(RwLock<HashMap<GroupResource, Vec<OperationCounters>>>);

impl ExclusionCounters {
    pub(super) fn increment(
        &self,
        metrics: &AdmissionMetrics,
        subject: ExclusionSubject<'_>,
        resource: &GroupResource,
        writes: u64,
    ) {
        let index = subject.operation as usize;
        if let Some(Some(counter)) = self
            .0
            .read()
            .get(resource)
            .and_then(|rules| rules.get(subject.rule))
            .and_then(|counters| counters.get(index))
        {
            counter.inc_by(writes);
            return;
        }
        let counter = metrics.exclusion_counter(subject, resource);
        counter.inc_by(writes);
        let mut counters = self.0.write();
        let rules = counters.entry(resource.clone()).or_default();
        if rules.len() <= subject.rule {
            rules.resize_with(subject.rule + 1, OperationCounters::default);
        }
        let of_rule = rules.get_mut(subject.rule);
        if let Some(slot) = of_rule.and_then(|counters| counters.get_mut(index)) {
            *slot = Some(counter);
        }
    }
}
