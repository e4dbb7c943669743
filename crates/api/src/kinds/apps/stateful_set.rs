//! Declares `StatefulSet` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/apps/validation`.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::{gotext, validation};
use serde_json::{Value, json};

use super::workload_validation;
use crate::feature_gates::Feature;
use crate::kinds::core::persistent_volume_claim;
use crate::selectors;
use crate::validation_helpers::checks;
use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, NameRule, ResourceScope, ResourceStrategy,
    StrategyContext, fields, object_edit,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "apps",
        "v1",
        "StatefulSet",
        "statefulsets",
        "io.k8s.api.apps.v1.StatefulSet",
    )
    .short_names(&["sts"])
    .category("all")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .scale("spec.replicas", "status.replicas", "spec.selector")
    .status()
    .names(NameRule::DnsLabel)
    .strategy(StatefulSetStrategy)
}

/// Spec fields that may be updated.
const MUTABLE_SPEC_FIELDS: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

#[derive(Debug)]
struct StatefulSetStrategy;

/// Ratcheting: invalid values that an update may keep because the old object has them.
#[derive(Debug, Clone, Copy, Default)]
struct StatefulSetValidationOptions {
    /// Set on update: the field is immutable.
    allow_invalid_service_name: bool,
    skip_template_validation: bool,
}

impl ResourceStrategy for StatefulSetStrategy {
    /// Sets `apiVersion` and `kind` of the claim templates.
    fn apply_defaults(&self, object: &mut JsonObject) {
        for claim in fields::objects_mut(object, "spec.volumeClaimTemplates") {
            claim.insert("apiVersion".to_owned(), "v1".into());
            claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        }
    }

    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        crate::validation_helpers::template::drop_disabled_fields(object, None, request);
        prepare_max_unavailable(object, None, request);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        crate::validation_helpers::template::drop_disabled_fields(object, Some(old), request);
        prepare_max_unavailable(object, Some(old), request);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(
            &object.field("spec"),
            None,
            StatefulSetValidationOptions::default(),
            errors,
        );
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        let mut options = StatefulSetValidationOptions {
            allow_invalid_service_name: true,
            skip_template_validation: false,
        };
        // An unchanged template is not validated again: older versions had weaker validation.
        let mut old_errors = ErrorList::new();
        validate_spec(&old, Some(&old), options, &mut old_errors);
        options.skip_template_validation = !old_errors.is_empty();
        validate_spec(&spec, Some(&old), options, errors);
        if !immutable_fields_unchanged(&spec, &old) {
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
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_status(&object.field("status"), errors);
        workload_validation::validate_collision_count(object, old, errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        crate::validation_helpers::template::warn(object, old, warnings);
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

/// Defaults `maxUnavailable` to 1 if the feature is enabled; drops it if the feature is disabled and the old object
/// does not use it.
fn prepare_max_unavailable(
    object: &mut JsonObject,
    old: Option<&JsonObject>,
    request: &StrategyContext<'_>,
) {
    let strategy = ["spec", "updateStrategy"];
    let is_rolling = object_edit::find_object(object, &strategy)
        .is_some_and(|strategy| object_edit::text(strategy, "type") == "RollingUpdate");
    let path = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];
    let is_in_use = old.is_some_and(|old| object_edit::get(old, &path).is_some());
    let Some(rolling) = object_edit::find_object(object, &path[..3]) else {
        return;
    };
    if request.gates.enabled(Feature::MaxUnavailableStatefulSet) {
        if is_rolling {
            object_edit::set_default(rolling, "maxUnavailable", 1);
        }
    } else if !is_in_use {
        rolling.remove("maxUnavailable");
    }
}

fn immutable_fields_unchanged(spec: &FieldView<'_>, old: &FieldView<'_>) -> bool {
    let others = |spec: &FieldView<'_>| {
        let mut others = spec.object().cloned().unwrap_or_default();
        others.retain(|name, _| !MUTABLE_SPEC_FIELDS.contains(&name.as_str()));
        Value::Object(others)
    };
    checks::semantically_equal_values(Some(&others(spec)), Some(&others(old)))
}

fn validate_spec(
    spec: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    options: StatefulSetValidationOptions,
    errors: &mut ErrorList,
) {
    let management = spec.field("podManagementPolicy");
    match management.str() {
        "" => management.required(errors, ""),
        "OrderedReady" | "Parallel" => {}
        _ => management.invalid(errors, "must be 'OrderedReady' or 'Parallel'"),
    }
    validate_strategy(&spec.field("updateStrategy"), errors);
    validate_claim_retention(&spec.field("persistentVolumeClaimRetentionPolicy"), errors);
    if !options.allow_invalid_service_name {
        for claim in spec.field("volumeClaimTemplates").items() {
            let selector_options = selectors::Options::default();
            persistent_volume_claim::validate_spec(&claim.field("spec"), selector_options, errors);
        }
    }
    checks::all_nonnegative(spec, &["replicas", "minReadySeconds"], errors);
    checks::nonnegative(&spec.field("ordinals").field("start"), errors);
    let service = spec.field("serviceName");
    if !options.allow_invalid_service_name && !service.is_empty() {
        checks::push_problems(&service, validation::dns1123_label(service.str()), errors);
    }
    validate_selector_and_template(spec, old, options, errors);
}

fn validate_selector_and_template(
    spec: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    options: StatefulSetValidationOptions,
    errors: &mut ErrorList,
) {
    let field = spec.field("selector");
    let template = spec.field("template");
    workload_validation::validate_selector(&field, "statefulset", errors);
    match checks::selector(&field) {
        None => field.invalid(errors, ""),
        Some(selector) => {
            workload_validation::validate_labels(&selector, &template, errors);
            if !options.skip_template_validation {
                let effective = effective_template(spec, &template);
                let effective = FieldView::at(Some(&effective), *template.path());
                let old = old.map(|old| old.field("template"));
                crate::validation_helpers::template::validate(&effective, old.as_ref(), errors);
            }
        }
    }
    workload_validation::validate_restart_always(&template, "StatefulSet", errors);
}

/// Returns the template with the host name and volumes that the controller adds to every pod.
fn effective_template(spec: &FieldView<'_>, template: &FieldView<'_>) -> Value {
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

fn validate_strategy(strategy: &FieldView<'_>, errors: &mut ErrorList) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "" => strategy.required(errors, ""),
        "OnDelete" if rolling.exists() => {
            let value = BadValue::Rendered(go_rolling_update(&rolling));
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(Error::invalid(rolling.path(), value, detail));
        }
        "OnDelete" => {}
        "RollingUpdate" if rolling.exists() => validate_rolling_update(&rolling, errors),
        "RollingUpdate" => {}
        other => {
            let value = checks::go_struct_json(&[
                ("Type", gotext::json(other)),
                ("RollingUpdate", go_rolling_update(&rolling)),
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

/// Renders the value as upstream's internal Go type.
fn go_rolling_update(rolling: &FieldView<'_>) -> String {
    if !rolling.exists() {
        return "null".to_owned();
    }
    let partition = rolling.field("partition").int().unwrap_or(0);
    let unavailable = checks::json_text(&rolling.field("maxUnavailable"));
    checks::go_struct_json(&[
        ("Partition", partition.to_string()),
        ("MaxUnavailable", unavailable),
    ])
}

fn validate_rolling_update(rolling: &FieldView<'_>, errors: &mut ErrorList) {
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

fn validate_claim_retention(policy: &FieldView<'_>, errors: &mut ErrorList) {
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

fn validate_status(status: &FieldView<'_>, errors: &mut ErrorList) {
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
    workload_validation::validate_counter_at_most(status, &parts, "replicas", detail, errors);
    let detail = "cannot be greater than status.readyReplicas";
    workload_validation::validate_counter_at_most(
        status,
        &["availableReplicas"],
        "readyReplicas",
        detail,
        errors,
    );
}
