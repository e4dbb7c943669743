//! Pods and everything in a pod template.

use super::Fill;

pub(super) const TYPES: &[(&str, Fill)] = &[];
