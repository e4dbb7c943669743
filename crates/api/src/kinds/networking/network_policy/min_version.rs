//! `spec.minVersion` of a network policy: defaulted to the version that its features need, updated with them, and
//! validated if the client set it.

use rhumb_meta::field::{Error, ErrorList, Path};
use serde_json::Value;

use super::versioning_enabled;
use crate::feature_gates::Feature;
use crate::network_policy_versions::FeatureCatalog;
use crate::{DroppedField, FeatureGates, FieldView, JsonObject, StrategyContext, fields};

const MIN_VERSION: &str = "spec.minVersion";

fn required_version(catalog: &FeatureCatalog, policy: &JsonObject) -> &'static str {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    catalog.required_version(spec).version
}

/// The version that a write drops because the gate is disabled.
pub(super) fn disabled_field(
    policy: &JsonObject,
    old: Option<&JsonObject>,
    gates: &FeatureGates,
) -> Option<DroppedField> {
    let has_version = |policy: &JsonObject| !fields::str(policy, MIN_VERSION).is_empty();
    let gate = Feature::NetworkPolicyVersioning;
    let is_dropped = has_version(policy) && !old.is_some_and(has_version) && !gates.enabled(gate);
    is_dropped.then(|| DroppedField {
        path: MIN_VERSION.to_owned(),
        dropped: MIN_VERSION.to_owned(),
        gate,
    })
}

/// Fills in the version when a policy stored without one is read.
pub(super) fn fill_missing_min_version(policy: &mut JsonObject, gates: &FeatureGates) -> bool {
    let is_on = gates.enabled(Feature::NetworkPolicyVersioning);
    if !is_on || !fields::str(policy, MIN_VERSION).is_empty() {
        return false;
    }
    let version = required_version(&FeatureCatalog::builtin(), policy);
    fields::set(policy, MIN_VERSION, version);
    true
}

/// A defaulted version cannot be distinguished from one that the client set. A version equal to the default of the old object
/// is therefore defaulted again: a client that reads a policy and adds a newer feature did not ask for the old version.
/// An update that omits the version and changes nothing else in the spec comes from a client that does not know the field: the
/// version stays. A patch keeps what it does not name, so a patched policy without a version had it removed: it is
/// computed.
pub(super) fn prepare(
    policy: &mut JsonObject,
    old: Option<&JsonObject>,
    catalog: &FeatureCatalog,
    request: &StrategyContext<'_>,
) {
    let stored = old.map_or("", |old| fields::str(old, MIN_VERSION));
    if !versioning_enabled(request) && stored.is_empty() {
        fields::remove(policy, MIN_VERSION);
        return;
    }
    let sent = fields::str(policy, MIN_VERSION);
    let was_filled_in =
        old.is_some_and(|old| sent == stored && sent == required_version(catalog, old));
    if let Some(old) = old
        && !request.is_patch
        && sent.is_empty()
        && !stored.is_empty()
        && differs_only_in_version(policy, old)
    {
        fields::set(policy, MIN_VERSION, stored);
    } else if sent.is_empty() || was_filled_in {
        let version = required_version(catalog, policy);
        fields::set(policy, MIN_VERSION, version);
    }
}

fn differs_only_in_version(policy: &JsonObject, old: &JsonObject) -> bool {
    let without_version = |policy: &JsonObject| {
        let mut spec = policy.get("spec").cloned().unwrap_or_default();
        spec.as_object_mut().map(|spec| spec.remove("minVersion"));
        spec
    };
    without_version(policy) == without_version(old)
}

/// Skips an unchanged policy, because the catalog of versions may have changed since it was stored.
pub(super) fn validate(
    policy: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    catalog: &FeatureCatalog,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let old = old.map(|old| old.get("spec").unwrap_or(&Value::Null));
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    if old == Some(spec) {
        return;
    }
    reject_disabled_features(spec, old, catalog, request, errors);
    let at = policy.field("spec");
    let version = at.field("minVersion");
    if !version.is_empty() {
        validate_version(&version, spec, catalog, request, errors);
    }
}

/// Rejects fields of disabled alpha features instead of dropping them, as other kinds do: without them, the policy
/// would have another meaning. An old policy that has them keeps them.
fn reject_disabled_features(
    spec: &Value,
    old: Option<&Value>,
    catalog: &FeatureCatalog,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    for used in catalog.features_used(spec) {
        let is_new = !old.is_some_and(|old| used.feature.is_used(old));
        let gate = used
            .feature
            .gate
            .filter(|gate| !request.gates.enabled(*gate));
        if let Some(gate) = gate.filter(|_| is_new) {
            let gate = gate.spec().name;
            let detail = format!("may not be set while the feature gate {gate} is off");
            errors.push(Error::forbidden(&Path::new(used.path()), detail));
        }
    }
}

fn validate_version(
    version: &FieldView<'_>,
    spec: &Value,
    catalog: &FeatureCatalog,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let required = catalog.required_version(spec).version;
    let offered = catalog.enabled_versions(request.gates);
    // A feature that the stored policy uses may be disabled by now.
    let is_known = version.str() == required || offered.contains(&version.str());
    let Some(asked) = version.str().parse().ok().filter(|_| is_known) else {
        return version.not_supported(errors, &offered);
    };
    for used in catalog.features_newer_than(asked, spec) {
        let detail = format!(
            "needs version {} of network policies, but {MIN_VERSION} is {}: set that to {required}, or leave it out",
            used.feature.version,
            version.str(),
        );
        errors.push(Error::forbidden(&Path::new(used.path()), detail));
    }
}

#[cfg(test)]
mod tests;
