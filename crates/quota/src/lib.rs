//! Evaluation of ResourceQuotas, their scopes, and LimitRanges (upstream: `k8s.io/apiserver/pkg/quota/v1`,
//! `pkg/quota/v1/evaluator` and the LimitRanger plugin).
//!
//! Pure functions: no caches, no waiting, no clock. An [`Evaluator`] computes the usage of an object
//! ([`ObjectUsage`]); a [`ScopeRequirement`] decides whether a quota counts it; a [`NamespaceUsage`] sums up a
//! namespace and checks writes against its quotas.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod evaluator;
mod extended_resources;
mod limit_range;
mod limited_resource;
mod object_usage;
mod quota;
mod resource_quantities;
mod scope;
mod usage;

pub use evaluator::Evaluator;
pub use extended_resources::{
    DeviceClassMapping, ExtendedResourceClaim, ExtendedResourceLink, ExtendedResourcePod,
};
pub use limit_range::{LimitRange, LimitRangeViolations};
pub use limited_resource::{LimitedResource, ResourceQuotaConfiguration};
pub use object_usage::{ObjectUsage, ScopeAttributes};
pub use quota::{ResourceQuota, updated_status};
pub use resource_quantities::{ResourceName, ResourceQuantities};
pub use scope::{QuotaScope, ScopeOperator, ScopeRequirement};
pub use usage::{
    DecodableObject, NamespaceUsage, QuotaDenial, QuotaVerdict, ReservationId, UsageRequest,
};
