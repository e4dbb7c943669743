//! Resource names (`cpu`, `hugepages-2Mi`, `example.com/gpu`): classification and validation.
//!
//! Corresponds to upstream's `pkg/apis/core/helper` and `ValidateResourceQuotaResourceName` and its siblings.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::{Quantity, validation};

use crate::{FieldView, checks};

const OBJECT_COUNTS: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

const COMPUTE: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "requests.storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// A standard resource that a quota can track.
pub fn is_standard_for_quota(name: &str) -> bool {
    OBJECT_COUNTS.contains(&name)
        || COMPUTE.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

fn is_standard(name: &str) -> bool {
    name == "storage" || is_standard_for_quota(name)
}

/// A standard resource that a container can request.
pub fn is_standard_for_containers(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// A resource in the `kubernetes.io` namespace or without a domain.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// An extended resource, advertised by a device plugin or an operator.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && validation::qualified_name(&format!("requests.{name}")).is_empty()
}

/// A resource whose quantity must be an integer.
pub fn is_integer(name: &str) -> bool {
    OBJECT_COUNTS.contains(&name) || is_extended(name)
}

/// A resource whose limit may exceed its request.
pub fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

/// Validates any resource name; `at` is the map entry with the name as its key.
pub fn validate(name: &str, at: &FieldView<'_>, errors: &mut ErrorList) {
    let found = validation::qualified_name(name);
    if found.is_empty() && !name.contains('/') && !is_standard(name) {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(Error::invalid(at.path(), BadValue::json(name), detail));
    }
    for problem in found {
        errors.push(Error::invalid(at.path(), BadValue::json(name), problem));
    }
}

pub fn validate_for_container(name: &str, at: &FieldView<'_>, errors: &mut ErrorList) {
    validate(name, at, errors);
    let is_bare = !name.contains('/');
    if is_bare && !is_standard_for_containers(name) {
        let detail = "must be a standard resource for containers";
        errors.push(Error::invalid(at.path(), BadValue::json(name), detail));
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(Error::invalid(at.path(), BadValue::json(name), detail));
    }
}

pub fn validate_for_quota(name: &str, at: &FieldView<'_>, errors: &mut ErrorList) {
    validate(name, at, errors);
    if !name.contains('/') && !is_standard_for_quota(name) {
        let detail = "must be a standard resource for quota";
        errors.push(Error::invalid(at.path(), BadValue::json(name), detail));
    }
}

/// The quantity in a field; `None` if absent. The schema has already rejected invalid quantities.
pub fn quantity(view: &FieldView<'_>) -> Option<Quantity> {
    Quantity::from_json(view.value()?).ok()
}

/// Validates that a quantity is not negative, and an integer where the resource requires it.
pub fn validate_amount(name: &str, at: &FieldView<'_>, errors: &mut ErrorList) {
    let Some(amount) = quantity(at) else {
        return;
    };
    if amount < Quantity::default() {
        errors.push(Error::invalid(
            at.path(),
            amount.to_string(),
            checks::NOT_NEGATIVE,
        ));
    }
    if is_integer(name) && !amount.is_integer_at_milli() {
        errors.push(Error::invalid(
            at.path(),
            amount.to_string(),
            "must be an integer",
        ));
    }
}
