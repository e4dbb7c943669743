//! Deployments, jobs and the other owners of pods; admission configurations.

use super::Fill;

pub(super) const TYPES: &[(&str, Fill)] = &[];
