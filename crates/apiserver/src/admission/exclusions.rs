//! What exclusion rules keep away, counted without making a label.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use prometheus_client::metrics::counter::Counter;
use rhumb_meta::GroupResource;

use super::counts::{Counted, Counts};

/// The counters of one webhook or policy, by operation, for each resource that was ever excluded.
#[derive(Debug, Default)]
pub(super) struct Exclusions(RwLock<HashMap<GroupResource, [Option<Counter>; 4]>>);

impl Exclusions {
    pub(super) fn count(
        &self,
        counts: &Counts,
        of: Counted<'_>,
        resource: &GroupResource,
        writes: u64,
    ) {
        let at = of.operation as usize;
        if let Some(Some(counter)) = self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(resource)
            .and_then(|counters| counters.get(at))
        {
            counter.inc_by(writes);
            return;
        }
        let counter = counts.exclusions(of, resource);
        counter.inc_by(writes);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.entry(resource.clone()).or_default().get_mut(at) {
            *place = Some(counter);
        }
    }
}
