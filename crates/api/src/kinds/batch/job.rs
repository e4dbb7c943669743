//! Job.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::labels::ValidationOptions;
use rhumb_meta::validation;
use serde_json::{Value, json};

use super::{job_spec, job_status};
use crate::workloads::checks::{self, LabelsOf};
use crate::workloads::template;
use crate::{
    Generation, Kind, Object, Request, Rules, Scope, Selectable, Selected, View, edit, fields,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "batch",
        "v1",
        "Job",
        "jobs",
        "io.k8s.api.batch.v1.Job",
    )
    .orphans_dependents()
    .warns_of_orphans("child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning")
    .category("all")
    .generation(Generation::Of(&["spec"]))
    .status()
    .selectable(&[Selectable {
        name: "status.successful",
        value: Selected::Count("status.succeeded"),
    }])
    .rules(Job)
}

const NAME: &str = "batch.kubernetes.io/job-name";
const UID: &str = "batch.kubernetes.io/controller-uid";
const LEGACY_NAME: &str = "job-name";
const LEGACY_UID: &str = "controller-uid";
const TEMPLATE_LABELS: &[&str] = &["spec", "template", "metadata", "labels"];

#[derive(Debug)]
struct Job;

impl Rules for Job {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        template::drop_unserved_fields(object, None, request);
        let is_manual = edit::get(object, &["spec", "manualSelector"]) == Some(&json!(true));
        if !is_manual {
            generate_selector(object);
        }
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        template::drop_unserved_fields(object, Some(old), request);
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate_generated_selector(object, true, errors);
        let spec = object.field("spec");
        job_spec::validate(&spec, None, errors);
        validate_selector(&spec, ValidationOptions::default(), errors);
        validate_host_names(object, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old_spec) = (object.field("spec"), old.field("spec"));
        validate_generated_selector(object, has_prefixed_labels(&old_spec), errors);
        // Upstream checks the spec twice, and says twice what is wrong with it.
        let mut spec_errors = ErrorList::new();
        job_spec::validate(&spec, Some(&old_spec), &mut spec_errors);
        let options = checks::selector_options(Some(&old_spec.field("selector")));
        validate_selector(&spec, options, &mut spec_errors);
        errors.extend(spec_errors.clone());
        validate_host_names(object, errors);
        errors.extend(spec_errors);
        validate_changes(&spec, old, errors);
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        job_status::validate(object, old, errors);
    }

    fn warnings(&self, object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
        let spec = object.field("spec");
        match old {
            None => {
                template::warn_of_name(object, warnings);
                job_spec::warnings(&spec, warnings);
            }
            Some(old) if !checks::same(&spec, &old.field("spec")) => {
                job_spec::warnings(&spec, warnings);
            }
            Some(_) => {}
        }
    }
}

/// Marks the pods of the job with its name and its uid, and selects them by the uid. What the user has set is
/// kept, and refused later if it does not fit.
fn generate_selector(object: &mut Object) {
    let text = |name| {
        let value = edit::get(object, &["metadata", name]).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let (name, uid) = (text("name"), text("uid"));
    let has_own_labels = !has_labels_of_template(object);
    edit::within(object, TEMPLATE_LABELS, |labels| {
        for (key, value) in [
            (LEGACY_NAME, &name),
            (NAME, &name),
            (LEGACY_UID, &uid),
            (UID, &uid),
        ] {
            edit::default(labels, key, value.as_str());
        }
    });
    edit::within(object, &["spec", "selector", "matchLabels"], |labels| {
        edit::default(labels, UID, uid);
    });
    // Upstream has one set of labels for both where a job has none of its own.
    if !has_own_labels && let Some(labels) = edit::get(object, TEMPLATE_LABELS).cloned() {
        fields::set(object, "metadata.labels", labels);
    }
}

fn has_labels_of_template(object: &Object) -> bool {
    let labels = |path: &[&str]| edit::get(object, path).filter(|labels| *labels != &json!({}));
    labels(&["metadata", "labels"]) == labels(TEMPLATE_LABELS)
}

/// Jobs that are older than the labels with a prefix have only those without.
fn has_prefixed_labels(spec: &View<'_>) -> bool {
    let template = spec.field("template");
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    labels.key(NAME).exists() && labels.key(UID).exists()
}

fn validate_generated_selector(object: &View<'_>, has_prefixes: bool, errors: &mut ErrorList) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let selector = spec.field("selector");
    if spec.field("manualSelector").is_true() || !selector.exists() {
        return;
    }
    let (name, uid) = (metadata.field("name"), metadata.field("uid"));
    if uid.is_empty() {
        uid.required(errors, "");
    }
    let mut expected = vec![(LEGACY_UID, uid.str()), (LEGACY_NAME, name.str())];
    if has_prefixes {
        expected.extend([(UID, uid.str()), (NAME, name.str())]);
    }
    let template = spec.field("template");
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    for (key, value) in &expected {
        validate_label(&labels, key, value, errors);
    }
    let picks_own = checks::selector(&selector).is_none_or(|selector| selector.matches(&expected));
    if !picks_own {
        selector.invalid(errors, "`selector` not auto-generated");
    }
}

fn validate_label(labels: &View<'_>, key: &str, value: &str, errors: &mut ErrorList) {
    let label = labels.key(key);
    let detail = format!("must be '{value}'");
    if !label.exists() {
        label.required(errors, detail);
    } else if label.str() != value {
        errors.push(Error::invalid(label.path(), labels.bad_value(), detail));
    }
}

fn validate_selector(spec: &View<'_>, options: ValidationOptions, errors: &mut ErrorList) {
    let field = spec.field("selector");
    if !field.exists() {
        field.required(errors, "");
    }
    checks::validate_selector(&field, options, errors);
    let template = spec.field("template");
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    let is_own =
        |selector: rhumb_meta::labels::Selector| selector.matches(&LabelsOf(labels.object()));
    if !checks::selector(&field).is_none_or(is_own) {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
}

/// The pods of an indexed job have its name and their index as host name.
fn validate_host_names(object: &View<'_>, errors: &mut ErrorList) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let completions = spec.field("completions").int().unwrap_or(0);
    if !job_spec::is_indexed(&spec) || completions <= 0 {
        return;
    }
    let name = metadata.field("name");
    let longest = format!("{}-{}", name.str(), completions - 1);
    if !validation::dns1123_label(&longest).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        checks::invalid_text(&name, errors, detail);
    }
}

fn validate_changes(spec: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    let old_spec = old.field("spec");
    validate_completions(spec, &old_spec, errors);
    checks::immutable(&spec.field("selector"), &old_spec.field("selector"), errors);
    validate_template_change(spec, old, errors);
    let lasting = [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ];
    for name in lasting {
        checks::immutable(&spec.field(name), &old_spec.field(name), errors);
    }
}

/// An indexed job may grow and shrink, if it runs all of its pods at once.
fn validate_completions(spec: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    let completions = spec.field("completions");
    let before = old.field("completions");
    if !job_spec::is_indexed(spec) {
        checks::immutable(&completions, &before, errors);
    } else if completions.exists()
        && !checks::same(&completions, &before)
        && !checks::same(&completions, &spec.field("parallelism"))
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        completions.invalid(errors, detail);
    }
}

/// Pods may be placed and sized otherwise as long as the job is suspended and has none.
fn validate_template_change(spec: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    let (old_spec, old_status) = (old.field("spec"), old.field("status"));
    let template = spec.field("template");
    let before = old_spec.field("template");
    let is_idle = old_spec.field("suspend").is_true()
        && job_status::has_condition(&old_status, "Suspended", "True")
        && old_status.field("active").int().unwrap_or(0) == 0;
    if !is_idle {
        checks::immutable(&template, &before, errors);
        return;
    }
    let mut allowed = before.field("spec").value().cloned().unwrap_or_default();
    let wanted = template.field("spec");
    if let (Value::Object(allowed), Some(wanted)) = (&mut allowed, wanted.object()) {
        allow_scheduling(allowed, wanted);
        allow_resources(allowed, wanted);
    }
    if !checks::same_values(wanted.value(), Some(&allowed)) {
        wanted.invalid(errors, "field is immutable");
    }
}

fn allow_scheduling(pod: &mut Object, wanted: &Object) {
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        fields::keep(pod, wanted, name);
    }
    let affinity = wanted.get("affinity").and_then(Value::as_object);
    match affinity {
        Some(affinity) => edit::within(pod, &["affinity"], |pod| {
            fields::keep(pod, affinity, "nodeAffinity");
        }),
        None => {
            if let Some(affinity) = edit::find(pod, &["affinity"]) {
                affinity.remove("nodeAffinity");
                if affinity.is_empty() {
                    pod.remove("affinity");
                }
            }
        }
    }
}

fn allow_resources(pod: &mut Object, wanted: &Object) {
    for list in ["containers", "initContainers"] {
        let wanted = wanted.get(list).and_then(Value::as_array);
        let count = fields::objects_mut(pod, list).count();
        let Some(wanted) = wanted.filter(|wanted| wanted.len() == count) else {
            continue;
        };
        for (container, wanted) in fields::objects_mut(pod, list).zip(wanted) {
            if let Value::Object(wanted) = wanted
                && container.get("name") == wanted.get("name")
            {
                fields::keep(container, wanted, "resources");
            }
        }
    }
}
