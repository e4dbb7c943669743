//! Filter plugin `VolumeBinding`, a placeholder: persistent volume claims and device claims are not supported yet.
//!
//! Pods with such claims are unschedulable, with a reason that says so: on a node without the claimed volume or device
//! they would never start.

use super::{ClusterEvent, Plugin, PreFilterRejection, PreFilterResult};
use crate::cluster::{ClusterState, PodInfo};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VolumeBinding;

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn pre_filter<'c>(
        &'c self,
        pod: &'c PodInfo,
        _cluster: &'c ClusterState,
    ) -> Result<PreFilterResult<'c>, PreFilterRejection> {
        let volume = pod
            .pod
            .volume_claims
            .first()
            .map(|claim| ("volumes", claim));
        let device = pod.pod.device_claims.first();
        match volume.or(device.map(|claim| ("devices", claim))) {
            None => Ok(PreFilterResult::default()),
            Some((what, claim)) => Err(PreFilterRejection {
                reason: format!("{what} are not scheduled by this scheduler yet: claim {claim}"),
            }),
        }
    }

    /// A pod's claims are immutable, so no event helps.
    fn queueing_hint(
        &self,
        _event: &ClusterEvent<'_>,
        _pod: &PodInfo,
        _cluster: &ClusterState,
    ) -> bool {
        false
    }

    fn is_event_relevant(&self, _event: &ClusterEvent<'_>, _cluster: &ClusterState) -> bool {
        false
    }
}
