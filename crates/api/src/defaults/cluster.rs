//! Services, endpoints, policies, roles and the rest.

use super::Fill;

pub(super) const TYPES: &[(&str, Fill)] = &[];
