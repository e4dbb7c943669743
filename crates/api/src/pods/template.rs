//! Validation of pod templates.

use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::validation;

use super::{PodValidationOptions, annotations, spec};
use crate::FieldView;
use crate::selectors::{push_problems, validate_labels};

const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

pub(super) fn validate(
    template: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let metadata = template.field("metadata");
    // As upstream, error paths omit the metadata.
    let labels = FieldView::at(metadata.get("labels"), template.path().child("labels"));
    validate_labels(&labels, errors);
    let notes = template.path().child("annotations");
    let notes = FieldView::at(metadata.get("annotations"), notes);
    validate_annotations(&notes, errors);
    let spec = template.field("spec");
    let index = spec.index();
    let spec = spec.with_index(&index);
    annotations::validate(&notes, &spec, options, errors);
    spec::validate(&spec, &FieldView::at(None, Path::NIL), options, errors);
    annotations::validate_profiles_match_fields(&notes, &spec, errors);
    let ephemeral = spec.field("ephemeralContainers");
    if !ephemeral.is_empty() {
        ephemeral.forbidden(errors, "ephemeral containers not allowed in pod template");
    }
}

fn validate_annotations(annotations: &FieldView<'_>, errors: &mut ErrorList) {
    let mut bytes = 0;
    for (key, value) in annotations.object().into_iter().flatten() {
        let problems = validation::qualified_name(&key.to_lowercase());
        push_problems(errors, annotations.path(), key, problems);
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_MAX_BYTES {
        errors.push(Error::too_long(annotations.path(), ANNOTATIONS_MAX_BYTES));
    }
}

/// Validates the metadata of a claim template, which may have only labels and annotations.
pub(super) fn validate_only_labels_and_annotations(
    metadata: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    validate_annotations(&metadata.field("annotations"), errors);
    validate_labels(&metadata.field("labels"), errors);
    for (name, value) in metadata.object().into_iter().flatten() {
        let view = FieldView::at(Some(value), metadata.path().child(name));
        if !matches!(name.as_str(), "annotations" | "labels") && !view.is_empty() {
            view.forbidden(errors, "cannot be set");
        }
    }
}
