//! ReplicationController.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use crate::pods::{self, checks};
use crate::workloads::template;
use crate::{Generation, Kind, Object, Request, Rules, Scope, Selectable, Selected, View};

const SELECTABLE: &[Selectable] = &[Selectable {
    name: "status.replicas",
    value: Selected::Count("status.replicas"),
}];

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        "io.k8s.api.core.v1.ReplicationController",
    )
    .orphans_dependents()
    .short(&["rc"])
    .category("all")
    .storage("controllers")
    .generation(Generation::Of(&["spec"]))
    .selectable(SELECTABLE)
    .rules(ReplicationControllerRules)
    .scale("spec.replicas", "status.replicas", "spec.selector")
    .status()
}

#[derive(Debug)]
struct ReplicationControllerRules;

impl Rules for ReplicationControllerRules {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        object.insert("status".to_owned(), serde_json::json!({"replicas": 0}));
        template::drop_unserved_fields(object, None, request);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        template::drop_unserved_fields(object, Some(old), request);
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate_spec(&object.field("spec"), None, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(&object.field("spec"), Some(&old.field("spec")), errors);
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        _: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate_status(&object.field("status"), errors);
    }

    fn warnings(&self, object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
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

fn validate_spec(spec: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
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
    let matches = |(key, value): (&str, View<'_>)| labels.get(key) == value.value();
    if !selector.entries().all(matches) {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
    match old {
        Some(old) => pods::validate_template_update(&template, &old.field("template"), errors),
        None => pods::validate_template(&template, errors),
    }
    validate_runs_forever(&template.field("spec"), errors);
}

fn validate_runs_forever(pod: &View<'_>, errors: &mut ErrorList) {
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

fn validate_status(status: &View<'_>, errors: &mut ErrorList) {
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
            checks::bad_number(&status.field(count), errors, detail);
        }
    }
    if status.number("availableReplicas") > status.number("readyReplicas") {
        let available = status.field("availableReplicas");
        checks::bad_number(&available, errors, "cannot be greater than readyReplicas");
    }
}
