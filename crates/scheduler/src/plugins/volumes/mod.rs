//! `VolumeBinding`: nodes by the volumes that they reach.
//!
//! What nodes reach is not looked at yet. A pod with claims goes nowhere, and says so: on a node that its volumes do
//! not reach it would never start.

use super::{Event, Filtering, Plugin, Unschedulable};
use crate::cluster::{Cluster, PodSlot};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volumes;

impl Plugin for Volumes {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn filter<'c>(
        &'c self,
        pod: &'c PodSlot,
        _cluster: &'c Cluster,
    ) -> Result<Filtering<'c>, Unschedulable> {
        match pod.facts.claims.first() {
            None => Ok(Filtering::default()),
            Some(claim) => Err(Unschedulable {
                reason: format!("volumes are not scheduled by this scheduler yet: claim {claim}"),
            }),
        }
    }

    /// Claims of a pod stay what they are.
    fn may_help(&self, _event: &Event<'_>, _pod: &PodSlot, _cluster: &Cluster) -> bool {
        false
    }

    fn may_help_some(&self, _event: &Event<'_>, _cluster: &Cluster) -> bool {
        false
    }
}
