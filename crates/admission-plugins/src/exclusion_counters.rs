//! Counts excluded requests without building a label set per request.

use parking_lot::RwLock;
use std::collections::HashMap;

use prometheus_client::metrics::counter::Counter;
use rhumb_meta::GroupResource;

use super::metrics::{AdmissionMetrics, MetricSubject};

/// The exclusion counters of one webhook or policy: per resource, an array indexed by operation.
#[derive(Debug, Default)]
pub(super) struct ExclusionCounters(RwLock<HashMap<GroupResource, [Option<Counter>; 4]>>);

impl ExclusionCounters {
    pub(super) fn increment(
        &self,
        metrics: &AdmissionMetrics,
        subject: MetricSubject<'_>,
        resource: &GroupResource,
        writes: u64,
    ) {
        let index = subject.operation as usize;
        if let Some(Some(counter)) = self
            .0
            .read()
            .get(resource)
            .and_then(|counters| counters.get(index))
        {
            counter.inc_by(writes);
            return;
        }
        let counter = metrics.exclusion_counter(subject, resource);
        counter.inc_by(writes);
        let mut counters = self.0.write();
        if let Some(slot) = counters.entry(resource.clone()).or_default().get_mut(index) {
            *slot = Some(counter);
        }
    }
}
