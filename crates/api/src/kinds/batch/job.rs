//! Declares `Job` and its strategy: preparation, validation and warnings, as in upstream's `pkg/apis/batch/validation`.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::labels::LabelSelectorValidationOptions;
use rhumb_meta::validation;
use serde_json::{Value, json};

use super::{job_spec, job_status};
use crate::validation_helpers::checks::{self, JsonLabels};
use crate::validation_helpers::template;
use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope, ResourceStrategy,
    SelectableField, StrategyContext, fields, object_edit,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "batch",
        "v1",
        "Job",
        "jobs",
        "io.k8s.api.batch.v1.Job",
    )
    .orphans_dependents()
    .orphan_warning("child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning")
    .category("all")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .status()
    .selectable(&[SelectableField::integer("status.successful", "status.succeeded")])
    .strategy(JobStrategy)
}

const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
const CONTROLLER_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
const LEGACY_JOB_NAME_LABEL: &str = "job-name";
const LEGACY_CONTROLLER_UID_LABEL: &str = "controller-uid";
const TEMPLATE_LABELS: &[&str] = &["spec", "template", "metadata", "labels"];

#[derive(Debug)]
struct JobStrategy;

impl ResourceStrategy for JobStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        template::drop_disabled_fields(object, None, request);
        let is_manual = object_edit::get(object, &["spec", "manualSelector"]) == Some(&json!(true));
        if !is_manual {
            generate_selector(object);
        }
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
        validate_generated_selector(object, true, errors);
        let spec = object.field("spec");
        job_spec::validate(&spec, None, errors);
        validate_selector(&spec, LabelSelectorValidationOptions::default(), errors);
        validate_host_names(object, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old_spec) = (object.field("spec"), old.field("spec"));
        validate_generated_selector(object, has_prefixed_labels(&old_spec), errors);
        // Upstream validates the spec twice and reports its errors twice.
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
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        job_status::validate(object, old, errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        let spec = object.field("spec");
        match old {
            None => {
                template::warn_non_dns_label_name(object, warnings);
                job_spec::warnings(&spec, warnings);
            }
            Some(old) if !checks::semantically_equal(&spec, &old.field("spec")) => {
                job_spec::warnings(&spec, warnings);
            }
            Some(_) => {}
        }
    }
}

/// Labels the pods of the job with its name and uid, and selects them by the uid. Values set by the user are kept;
/// validation rejects them if they differ.
fn generate_selector(object: &mut JsonObject) {
    let text = |name| {
        let value = object_edit::get(object, &["metadata", name]).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let (name, uid) = (text("name"), text("uid"));
    let has_own_labels = !has_labels_of_template(object);
    object_edit::edit_child(object, TEMPLATE_LABELS, |labels| {
        for (key, value) in [
            (LEGACY_JOB_NAME_LABEL, &name),
            (JOB_NAME_LABEL, &name),
            (LEGACY_CONTROLLER_UID_LABEL, &uid),
            (CONTROLLER_UID_LABEL, &uid),
        ] {
            object_edit::set_default(labels, key, value.as_str());
        }
    });
    object_edit::edit_child(object, &["spec", "selector", "matchLabels"], |labels| {
        object_edit::set_default(labels, CONTROLLER_UID_LABEL, uid);
    });
    // Upstream shares the label map of the template with a job that has no labels.
    if !has_own_labels && let Some(labels) = object_edit::get(object, TEMPLATE_LABELS).cloned() {
        fields::set(object, "metadata.labels", labels);
    }
}

fn has_labels_of_template(object: &JsonObject) -> bool {
    let labels =
        |path: &[&str]| object_edit::get(object, path).filter(|labels| *labels != &json!({}));
    labels(&["metadata", "labels"]) == labels(TEMPLATE_LABELS)
}

/// Returns whether the job has the prefixed labels; older jobs have only the unprefixed ones.
fn has_prefixed_labels(spec: &FieldView<'_>) -> bool {
    let template = spec.field("template");
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    labels.key(JOB_NAME_LABEL).exists() && labels.key(CONTROLLER_UID_LABEL).exists()
}

fn validate_generated_selector(object: &FieldView<'_>, has_prefixes: bool, errors: &mut ErrorList) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let selector = spec.field("selector");
    if spec.field("manualSelector").is_true() || !selector.exists() {
        return;
    }
    let (name, uid) = (metadata.field("name"), metadata.field("uid"));
    if uid.is_empty() {
        uid.required(errors, "");
    }
    let mut expected = vec![
        (LEGACY_CONTROLLER_UID_LABEL, uid.str()),
        (LEGACY_JOB_NAME_LABEL, name.str()),
    ];
    if has_prefixes {
        expected.extend([
            (CONTROLLER_UID_LABEL, uid.str()),
            (JOB_NAME_LABEL, name.str()),
        ]);
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

fn validate_label(labels: &FieldView<'_>, key: &str, value: &str, errors: &mut ErrorList) {
    let label = labels.key(key);
    let detail = format!("must be '{value}'");
    if !label.exists() {
        label.required(errors, detail);
    } else if label.str() != value {
        errors.push(Error::invalid(label.path(), labels.bad_value(), detail));
    }
}

fn validate_selector(
    spec: &FieldView<'_>,
    options: LabelSelectorValidationOptions,
    errors: &mut ErrorList,
) {
    let field = spec.field("selector");
    if !field.exists() {
        field.required(errors, "");
    }
    checks::validate_selector(&field, options, errors);
    let template = spec.field("template");
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    let is_own =
        |selector: rhumb_meta::labels::Selector| selector.matches(&JsonLabels(labels.object()));
    if !checks::selector(&field).is_none_or(is_own) {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
}

/// Validates the host names of the pods of an indexed job: the name of the job and the index.
fn validate_host_names(object: &FieldView<'_>, errors: &mut ErrorList) {
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

fn validate_changes(spec: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
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

/// Allows an indexed job to change `completions` together with `parallelism` (elastic indexed job).
fn validate_completions(spec: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let completions = spec.field("completions");
    let before = old.field("completions");
    if !job_spec::is_indexed(spec) {
        checks::immutable(&completions, &before, errors);
    } else if completions.exists()
        && !checks::semantically_equal(&completions, &before)
        && !checks::semantically_equal(&completions, &spec.field("parallelism"))
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        completions.invalid(errors, detail);
    }
}

/// Allows changes of scheduling directives and resources while the job is suspended and has no pods.
fn validate_template_change(spec: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
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
        copy_mutable_scheduling_fields(allowed, wanted);
        copy_container_resources(allowed, wanted);
    }
    if !checks::semantically_equal_values(wanted.value(), Some(&allowed)) {
        wanted.invalid(errors, "field is immutable");
    }
}

fn copy_mutable_scheduling_fields(pod: &mut JsonObject, wanted: &JsonObject) {
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        fields::restore_from(pod, wanted, name);
    }
    let affinity = wanted.get("affinity").and_then(Value::as_object);
    match affinity {
        Some(affinity) => object_edit::edit_child(pod, &["affinity"], |pod| {
            fields::restore_from(pod, affinity, "nodeAffinity");
        }),
        None => {
            if let Some(affinity) = object_edit::find_object(pod, &["affinity"]) {
                affinity.remove("nodeAffinity");
                if affinity.is_empty() {
                    pod.remove("affinity");
                }
            }
        }
    }
}

fn copy_container_resources(pod: &mut JsonObject, wanted: &JsonObject) {
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
                fields::restore_from(container, wanted, "resources");
            }
        }
    }
}
