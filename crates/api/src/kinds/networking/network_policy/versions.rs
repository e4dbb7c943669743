//! `spec.minVersion`: filled in, kept up with what a policy says, and held against it where someone has set it.

use rhumb_meta::field::{Error, ErrorList, Path};
use serde_json::Value;

use super::has_versions;
use crate::gates::Feature;
use crate::network_policies::Catalog;
use crate::{Gates, Object, Request, View, fields};

const MIN_VERSION: &str = "spec.minVersion";

fn required(catalog: &Catalog, policy: &Object) -> &'static str {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    catalog.required(spec).version
}

/// Policies that were stored without a version have one for every reader.
pub(super) fn mend(policy: &mut Object, gates: &Gates) -> bool {
    let is_on = gates.enabled(Feature::NetworkPolicyVersioning);
    if !is_on || !fields::str(policy, MIN_VERSION).is_empty() {
        return false;
    }
    let version = required(&Catalog::builtin(), policy);
    fields::set(policy, MIN_VERSION, version);
    true
}

/// Nothing in a policy tells a version that was filled in from one that was set. So one that is as it was filled in
/// before is filled in again: whoever reads a policy and adds something newer to it has not asked for the old version.
pub(super) fn prepare(
    policy: &mut Object,
    old: Option<&Object>,
    catalog: &Catalog,
    request: &Request<'_>,
) {
    let stored = old.map_or("", |old| fields::str(old, MIN_VERSION));
    if !has_versions(request) && stored.is_empty() {
        fields::remove(policy, MIN_VERSION);
        return;
    }
    let sent = fields::str(policy, MIN_VERSION);
    let was_filled_in = old.is_some_and(|old| sent == stored && sent == required(catalog, old));
    if sent.is_empty() || was_filled_in {
        let version = required(catalog, policy);
        fields::set(policy, MIN_VERSION, version);
    }
}

/// A policy that says what it said before is not judged again: the versions may be others by now.
pub(super) fn validate(
    policy: &View<'_>,
    old: Option<&View<'_>>,
    catalog: &Catalog,
    request: &Request<'_>,
    errors: &mut ErrorList,
) {
    let old = old.map(|old| old.get("spec").unwrap_or(&Value::Null));
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    if old == Some(spec) {
        return;
    }
    refuse_what_is_off(spec, old, catalog, request, errors);
    let at = policy.field("spec");
    let version = at.field("minVersion");
    if !version.is_empty() {
        validate_version(&version, spec, catalog, request, errors);
    }
}

/// An alpha feature whose gate is off is not dropped, as other kinds drop them: what is left of a policy means
/// something else. A policy that has it already keeps it.
fn refuse_what_is_off(
    spec: &Value,
    old: Option<&Value>,
    catalog: &Catalog,
    request: &Request<'_>,
    errors: &mut ErrorList,
) {
    for used in catalog.used(spec) {
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
    version: &View<'_>,
    spec: &Value,
    catalog: &Catalog,
    request: &Request<'_>,
    errors: &mut ErrorList,
) {
    let required = catalog.required(spec).version;
    let offered = catalog.versions_with(request.gates);
    // What a stored policy needs may be off by now.
    let is_known = version.str() == required || offered.contains(&version.str());
    let Some(asked) = version.str().parse().ok().filter(|_| is_known) else {
        return version.not_supported(errors, &offered);
    };
    for used in catalog.used_beyond(asked, spec) {
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
