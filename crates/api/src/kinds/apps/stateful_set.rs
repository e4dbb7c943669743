//! StatefulSet.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::{gotext, validation};
use serde_json::{Value, json};

use super::template;
use crate::gates::Feature;
use crate::kinds::core::persistent_volume_claim;
use crate::selectors;
use crate::workloads::checks;
use crate::{Generation, Kind, NameRule, Object, Request, Rules, Scope, View, edit, fields};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "apps",
        "v1",
        "StatefulSet",
        "statefulsets",
        "io.k8s.api.apps.v1.StatefulSet",
    )
    .short(&["sts"])
    .category("all")
    .generation(Generation::Of(&["spec"]))
    .scale("spec.replicas", "status.replicas", "spec.selector")
    .status()
    .names(NameRule::DnsLabel)
    .rules(StatefulSet)
}

/// What may change in a spec.
const MUTABLE: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

#[derive(Debug)]
struct StatefulSet;

/// What an existing object may keep although a new one could not have it.
#[derive(Debug, Clone, Copy, Default)]
struct Tolerance {
    /// Neither it nor the claims can change.
    service_name: bool,
    template: bool,
}

impl Rules for StatefulSet {
    /// Claim templates say what they are.
    fn default(&self, object: &mut Object) {
        for claim in fields::objects_mut(object, "spec.volumeClaimTemplates") {
            claim.insert("apiVersion".to_owned(), "v1".into());
            claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        }
    }

    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        crate::workloads::template::drop_unserved_fields(object, None, request);
        prepare_max_unavailable(object, None, request);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        crate::workloads::template::drop_unserved_fields(object, Some(old), request);
        prepare_max_unavailable(object, Some(old), request);
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate_spec(&object.field("spec"), None, Tolerance::default(), errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        let mut tolerance = Tolerance {
            service_name: true,
            template: false,
        };
        // A template that was stored under weaker rules may stay as it is.
        let mut old_errors = ErrorList::new();
        validate_spec(&old, Some(&old), tolerance, &mut old_errors);
        tolerance.template = !old_errors.is_empty();
        validate_spec(&spec, Some(&old), tolerance, errors);
        if !is_same_otherwise(&spec, &old) {
            spec.forbidden(
                errors,
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                 'minReadySeconds' are forbidden",
            );
        }
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate_status(&object.field("status"), errors);
        template::validate_collision_count(object, old, errors);
    }

    fn warnings(&self, object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
        crate::workloads::template::warn(object, old, warnings);
        let spec = object.field("spec");
        let limit = spec.field("revisionHistoryLimit").int();
        if limit.is_some_and(|limit| limit < 0) {
            warnings.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; \
                 a value >= 0 is recommended"
                    .to_owned(),
            );
        }
    }
}

/// One pod at a time where the feature is on and nothing else is said; dropped where it is off, unless the old
/// object has it.
fn prepare_max_unavailable(object: &mut Object, old: Option<&Object>, request: &Request<'_>) {
    let strategy = ["spec", "updateStrategy"];
    let is_rolling = edit::find(object, &strategy)
        .is_some_and(|strategy| edit::text(strategy, "type") == "RollingUpdate");
    let path = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];
    let is_in_use = old.is_some_and(|old| edit::get(old, &path).is_some());
    let Some(rolling) = edit::find(object, &path[..3]) else {
        return;
    };
    if request.gates.enabled(Feature::MaxUnavailableStatefulSet) {
        if is_rolling {
            edit::default(rolling, "maxUnavailable", 1);
        }
    } else if !is_in_use {
        rolling.remove("maxUnavailable");
    }
}

fn is_same_otherwise(spec: &View<'_>, old: &View<'_>) -> bool {
    let others = |spec: &View<'_>| {
        let mut others = spec.object().cloned().unwrap_or_default();
        others.retain(|name, _| !MUTABLE.contains(&name.as_str()));
        Value::Object(others)
    };
    checks::same_values(Some(&others(spec)), Some(&others(old)))
}

fn validate_spec(
    spec: &View<'_>,
    old: Option<&View<'_>>,
    tolerance: Tolerance,
    errors: &mut ErrorList,
) {
    let management = spec.field("podManagementPolicy");
    match management.str() {
        "" => management.required(errors, ""),
        "OrderedReady" | "Parallel" => {}
        _ => management.invalid(errors, "must be 'OrderedReady' or 'Parallel'"),
    }
    validate_strategy(&spec.field("updateStrategy"), errors);
    validate_retention(&spec.field("persistentVolumeClaimRetentionPolicy"), errors);
    if !tolerance.service_name {
        for claim in spec.field("volumeClaimTemplates").items() {
            let options = selectors::Options::default();
            persistent_volume_claim::validate_spec(&claim.field("spec"), options, errors);
        }
    }
    checks::all_nonnegative(spec, &["replicas", "minReadySeconds"], errors);
    checks::nonnegative(&spec.field("ordinals").field("start"), errors);
    let service = spec.field("serviceName");
    if !tolerance.service_name && !service.is_empty() {
        checks::problems(&service, validation::dns1123_label(service.str()), errors);
    }
    validate_selector_and_template(spec, old, tolerance, errors);
}

fn validate_selector_and_template(
    spec: &View<'_>,
    old: Option<&View<'_>>,
    tolerance: Tolerance,
    errors: &mut ErrorList,
) {
    let field = spec.field("selector");
    let template = spec.field("template");
    template::validate_selector(&field, "statefulset", errors);
    match checks::selector(&field) {
        None => field.invalid(errors, ""),
        Some(selector) => {
            template::validate_labels(&selector, &template, errors);
            if !tolerance.template {
                let effective = effective_template(spec, &template);
                let effective = View::at(Some(&effective), *template.path());
                let old = old.map(|old| old.field("template"));
                crate::workloads::template::validate(&effective, old.as_ref(), errors);
            }
        }
    }
    template::validate_runs_forever(&template, "StatefulSet", errors);
}

/// The template with the host names and volumes that the controller gives to every pod.
fn effective_template(spec: &View<'_>, template: &View<'_>) -> Value {
    let mut template = template.value().cloned().unwrap_or(json!({}));
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return template;
    };
    pod.remove("subdomain");
    pod.remove("hostname");
    let claims = spec.field("volumeClaimTemplates");
    if claims.is_empty() {
        return template;
    }
    let names: Vec<String> = claims
        .items()
        .map(|claim| claim.field("metadata").field("name").str().to_owned())
        .collect();
    let mut volumes: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    if let Some(Value::Array(own)) = pod.remove("volumes") {
        let is_claimed = |volume: &Value| {
            let name = volume.get("name").and_then(Value::as_str);
            names.iter().any(|claim| name == Some(claim.as_str()))
        };
        volumes.extend(own.into_iter().filter(|volume| !is_claimed(volume)));
    }
    pod.insert("volumes".to_owned(), Value::Array(volumes));
    template
}

fn validate_strategy(strategy: &View<'_>, errors: &mut ErrorList) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "" => strategy.required(errors, ""),
        "OnDelete" if rolling.exists() => {
            let value = BadValue::Rendered(internal_rolling_update(&rolling));
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(Error::invalid(rolling.path(), value, detail));
        }
        "OnDelete" => {}
        "RollingUpdate" if rolling.exists() => validate_rolling_update(&rolling, errors),
        "RollingUpdate" => {}
        other => {
            let value = checks::go_struct(&[
                ("Type", gotext::json(other)),
                ("RollingUpdate", internal_rolling_update(&rolling)),
            ]);
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(Error::invalid(
                strategy.path(),
                BadValue::Rendered(value),
                detail,
            ));
        }
    }
}

/// Upstream shows its internal type, whose fields are named as in Go.
fn internal_rolling_update(rolling: &View<'_>) -> String {
    if !rolling.exists() {
        return "null".to_owned();
    }
    let partition = rolling.field("partition").int().unwrap_or(0);
    let unavailable = checks::json_text(&rolling.field("maxUnavailable"));
    checks::go_struct(&[
        ("Partition", partition.to_string()),
        ("MaxUnavailable", unavailable),
    ])
}

fn validate_rolling_update(rolling: &View<'_>, errors: &mut ErrorList) {
    checks::nonnegative(&rolling.field("partition"), errors);
    let unavailable = rolling.field("maxUnavailable");
    if unavailable.exists() {
        checks::int_or_percent(&unavailable, errors);
        if checks::int_or_percent_value(&unavailable) == 0 {
            unavailable.invalid(errors, "cannot be 0");
        }
        checks::at_most_100_percent(&unavailable, errors);
    }
}

fn validate_retention(policy: &View<'_>, errors: &mut ErrorList) {
    if !policy.exists() {
        return;
    }
    for name in ["whenDeleted", "whenScaled"] {
        let when = policy.field(name);
        if !["Retain", "Delete"].contains(&when.str()) {
            checks::not_supported_text(&when, &["Retain", "Delete"], errors);
        }
    }
}

fn validate_status(status: &View<'_>, errors: &mut ErrorList) {
    let counters = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    checks::all_nonnegative(status, &counters, errors);
    let parts = [
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    let detail = "cannot be greater than status.replicas";
    template::at_most(status, &parts, "replicas", detail, errors);
    let detail = "cannot be greater than status.readyReplicas";
    template::at_most(
        status,
        &["availableReplicas"],
        "readyReplicas",
        detail,
        errors,
    );
}
