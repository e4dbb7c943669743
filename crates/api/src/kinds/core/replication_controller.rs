//! Declares `ReplicationController` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use crate::pods::{self, checks};
use crate::validation_helpers::template;
use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope, ResourceStrategy,
    SelectableField, StrategyContext,
};

const SELECTABLE: &[SelectableField] = &[SelectableField::integer(
    "status.replicas",
    "status.replicas",
)];

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        "io.k8s.api.core.v1.ReplicationController",
    )
    .orphans_dependents()
    .short_names(&["rc"])
    .category("all")
    .storage("controllers")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .selectable(SELECTABLE)
    .strategy(ReplicationControllerStrategy)
    .scale("spec.replicas", "status.replicas", "spec.selector")
    .status()
}

#[derive(Debug)]
struct ReplicationControllerStrategy;

impl ResourceStrategy for ReplicationControllerStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        object.insert("status".to_owned(), serde_json::json!({"replicas": 0}));
        template::drop_disabled_fields(object, None, request);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        template::drop_disabled_fields(object, Some(old), request);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(&object.field("spec"), None, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(&object.field("spec"), Some(&old.field("spec")), errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_status(&object.field("status"), errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        let metadata = object.field("metadata");
        let problems = validation::dns1123_label(metadata.text("name"));
        if old.is_none() && !problems.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
                problems.join(" ")
            ));
        }
        let spec = object.field("spec");
        if old.is_none_or(|old| !old.field("spec").same_as(&spec)) {
            pods::template_warnings(&spec.field("template"), warnings);
        }
    }
}

fn validate_spec(spec: &FieldView<'_>, old: Option<&FieldView<'_>>, errors: &mut ErrorList) {
    checks::non_negative(&spec.field("minReadySeconds"), errors);
    let selector = spec.field("selector");
    checks::required(&selector, errors);
    let replicas = spec.field("replicas");
    if replicas.exists() {
        checks::non_negative(&replicas, errors);
    } else {
        replicas.required(errors, "");
    }
    let template = spec.field("template");
    if !template.exists() {
        template.required(errors, "");
        return;
    }
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    let matches = |(key, value): (&str, FieldView<'_>)| labels.get(key) == value.value();
    if !selector.entries().all(matches) {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
    match old {
        Some(old) => pods::validate_template_update(&template, &old.field("template"), errors),
        None => pods::validate_template(&template, errors),
    }
    validate_restart_always(&template.field("spec"), errors);
}

fn validate_restart_always(pod: &FieldView<'_>, errors: &mut ErrorList) {
    let policy = pod.field("restartPolicy");
    if policy.str() != "Always" {
        errors.push(Error::not_supported(
            policy.path(),
            policy.str(),
            &["Always"],
        ));
    }
    if pod.has("activeDeadlineSeconds") {
        let detail = "activeDeadlineSeconds in ReplicationController is not Supported";
        pod.field("activeDeadlineSeconds").forbidden(errors, detail);
    }
}

fn validate_status(status: &FieldView<'_>, errors: &mut ErrorList) {
    for count in [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ] {
        checks::non_negative(&status.field(count), errors);
    }
    for count in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        if status.number(count) > status.number("replicas") {
            let detail = "cannot be greater than status.replicas";
            checks::invalid_number(&status.field(count), errors, detail);
        }
    }
    if status.number("availableReplicas") > status.number("readyReplicas") {
        let available = status.field("availableReplicas");
        checks::invalid_number(&available, errors, "cannot be greater than readyReplicas");
    }
}
