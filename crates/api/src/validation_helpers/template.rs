//! Validation of pod templates within workload controllers.

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation;

use super::checks;
use crate::{FieldView, JsonObject, StrategyContext, pods};

/// The path of the pod spec within a workload object.
const POD_SPEC: &[&str] = &["spec", "template", "spec"];

/// Drops fields of disabled features, unless the template of `old` already uses them.
pub(crate) fn drop_disabled_fields(
    owner: &mut JsonObject,
    old: Option<&JsonObject>,
    request: &StrategyContext<'_>,
) {
    pods::drop_disabled_template_fields(owner, old, POD_SPEC, request.gates);
}

/// Validates a template; on an update, values that were invalid in `old` already may stay.
pub(crate) fn validate(
    template: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    errors: &mut ErrorList,
) {
    match old {
        None => pods::validate_template(template, errors),
        Some(old) => pods::validate_template_update(template, old, errors),
    }
}

/// Adds template warnings on create, and on updates that change the spec.
pub(crate) fn warn(
    object: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    warnings: &mut Vec<String>,
) {
    let spec = object.field("spec");
    if old.is_none_or(|old| !checks::semantically_equal(&spec, &old.field("spec"))) {
        pods::template_warnings(&spec.field("template"), warnings);
    }
}

/// Warns if the name, which becomes part of pod names, is not a DNS label.
pub(crate) fn warn_non_dns_label_name(object: &FieldView<'_>, warnings: &mut Vec<String>) {
    let metadata = object.field("metadata");
    let problems = validation::dns1123_label(metadata.field("name").str());
    if !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
             a DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
}
