//! Pod templates, as all that own pods check them.

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation;

use super::checks;
use crate::{Object, Request, View, pods};

/// Where the owners of pods have the spec of their pods.
const POD_SPEC: &[&str] = &["spec", "template", "spec"];

/// Drops fields of features that are off, unless the template of `old` has them already.
pub(crate) fn drop_unserved_fields(
    owner: &mut Object,
    old: Option<&Object>,
    request: &Request<'_>,
) {
    pods::drop_from_template(owner, old, POD_SPEC, request.gates);
}

/// `old` is the template that was there before, whose sins a changed one may keep.
pub(crate) fn validate(template: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
    match old {
        None => pods::validate_template(template, errors),
        Some(old) => pods::validate_template_update(template, old, errors),
    }
}

/// What to say of the template of a new owner of pods, or of one whose spec has changed.
pub(crate) fn warn(object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
    let spec = object.field("spec");
    if old.is_none_or(|old| !checks::same(&spec, &old.field("spec"))) {
        pods::template_warnings(&spec.field("template"), warnings);
    }
}

/// Pods that are called after a name that is no DNS label may surprise.
pub(crate) fn warn_of_name(object: &View<'_>, warnings: &mut Vec<String>) {
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
