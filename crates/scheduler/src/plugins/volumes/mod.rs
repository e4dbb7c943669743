//! `VolumeBinding`: nodes by the volumes that they reach.
//!
//! What nodes reach is not looked at yet, nor which devices they have. A pod with claims to either goes nowhere, and
//! says so: on a node that does not have what it claims it would never start.

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
        let volume = pod.facts.claims.first().map(|claim| ("volumes", claim));
        let device = pod.facts.device_claims.first();
        match volume.or(device.map(|claim| ("devices", claim))) {
            None => Ok(Filtering::default()),
            Some((what, claim)) => Err(Unschedulable {
                reason: format!("{what} are not scheduled by this scheduler yet: claim {claim}"),
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
