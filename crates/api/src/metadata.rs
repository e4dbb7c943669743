//! Validation of `metadata` for all kinds (upstream: `apimachinery/pkg/api/validation/objectmeta.go`).
//!
//! Entry points: [`validate_create`], [`validate_update`].

mod managed_fields;
mod names;
mod owner_references;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::{gotext, validation};

use crate::{FieldView, Kind, NameRule, checks, selectors};

pub use names::{name_problems, validate_if_set as validate_name};

/// The limit for all annotation keys and values of an object together.
pub const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Validates the metadata of a new object, after `generateName` has been applied.
pub fn validate_create(object: &FieldView<'_>, kind: &Kind, errors: &mut ErrorList) {
    validate_new(
        &object.field("metadata"),
        kind.name_rule,
        kind.is_namespaced(),
        errors,
    );
    validate_known_finalizers(object, kind, errors);
}

/// Validates the metadata of an updated object, after unset system fields were copied from the old object.
///
/// The kind's name rule is not checked again, because the name cannot change.
pub fn validate_update(
    object: &FieldView<'_>,
    old: &FieldView<'_>,
    kind: &Kind,
    errors: &mut ErrorList,
) {
    let metadata = object.field("metadata");
    validate_new(
        &metadata,
        NameRule::PathSegment,
        kind.is_namespaced(),
        errors,
    );
    validate_change(&metadata, &old.field("metadata"), errors);
    validate_known_finalizers(object, kind, errors);
}

/// Repeats the checks that upstream's per-kind validation repeats after [`validate_update`], so that an invalid object
/// gets the same duplicate causes as from upstream.
pub fn revalidate_update(
    object: &FieldView<'_>,
    old: &FieldView<'_>,
    kind: &Kind,
    errors: &mut ErrorList,
) {
    let (metadata, old) = (object.field("metadata"), old.field("metadata"));
    validate_labels_annotations_owners(&metadata, errors);
    validate_change(&metadata, &old, errors);
    validate_labels_annotations_owners(&metadata, errors);
    validate_new(
        &metadata,
        NameRule::PathSegment,
        kind.is_namespaced(),
        errors,
    );
}

/// Validates metadata without an old object: of a new object, or of a template with its own name rule.
pub fn validate_new(
    metadata: &FieldView<'_>,
    rule: NameRule,
    is_namespaced: bool,
    errors: &mut ErrorList,
) {
    let index = metadata.index();
    let metadata = &metadata.with_index(&index);
    names::validate(metadata, rule, errors);
    names::validate_namespace(metadata, is_namespaced, errors);
    checks::not_negative(&metadata.field("generation"), errors);
    validate_labels_annotations_owners(metadata, errors);
    validate_finalizers(&metadata.field("finalizers"), errors);
    managed_fields::validate(&metadata.field("managedFields"), errors);
}

fn validate_labels_annotations_owners(metadata: &FieldView<'_>, errors: &mut ErrorList) {
    selectors::validate_labels(&metadata.field("labels"), errors);
    validate_annotations(&metadata.field("annotations"), errors);
    owner_references::validate(&metadata.field("ownerReferences"), errors);
}

fn validate_change(metadata: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    if old.field("deletionTimestamp").exists() {
        let finalizers = metadata.field("finalizers");
        no_new_finalizers(&finalizers, &old.field("finalizers"), errors);
    }
    let version = metadata.field("resourceVersion");
    if version.is_empty() {
        checks::invalid_text(&version, errors, "must be specified for an update");
    }
    let generation = metadata.field("generation");
    if generation.int().unwrap_or_default() < old.field("generation").int().unwrap_or_default() {
        generation.invalid(errors, "must not be decremented");
    }
    for name in ["name", "namespace", "uid"] {
        checks::immutable_text(&metadata.field(name), &old.field(name), errors);
    }
    for name in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let field = metadata.field(name);
        if !field.same_as(&old.field(name)) {
            field.invalid(errors, checks::IMMUTABLE);
        }
    }
}

/// Validates annotation keys, ignoring case, and the total size of all annotations.
pub fn validate_annotations(annotations: &FieldView<'_>, errors: &mut ErrorList) {
    let mut bytes = 0;
    for (key, value) in annotations.entries() {
        // A key that is valid as written is valid in lower case too.
        if !validation::qualified_name(key).is_empty() {
            let found = validation::qualified_name(&key.to_lowercase());
            push_invalid(annotations, key, found, errors);
        }
        bytes += key.len() + value.len();
    }
    if bytes > ANNOTATIONS_MAX_BYTES {
        errors.push(Error::too_long(annotations.path(), ANNOTATIONS_MAX_BYTES));
    }
}

/// Adds errors for one entry at the path of the whole map or list; upstream does not name the entry.
fn push_invalid(
    whole: &FieldView<'_>,
    part: &str,
    found: validation::ValidationProblems,
    errors: &mut ErrorList,
) {
    for problem in found {
        errors.push(Error::invalid(whole.path(), part, problem));
    }
}

/// Validates finalizer names, and that `orphan` and `foregroundDeletion` are not both set.
pub fn validate_finalizers(finalizers: &FieldView<'_>, errors: &mut ErrorList) {
    let (mut has_orphan, mut has_foreground) = (false, false);
    for finalizer in finalizers.items() {
        let name = finalizer.str();
        push_invalid(finalizers, name, validation::qualified_name(name), errors);
        has_orphan |= name == ORPHAN;
        has_foreground |= name == FOREGROUND;
    }
    if has_orphan && has_foreground {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        finalizers.invalid(errors, detail);
    }
}

fn validate_known_finalizers(object: &FieldView<'_>, kind: &Kind, errors: &mut ErrorList) {
    if !kind.requires_known_finalizers {
        return;
    }
    let metadata = object.field("metadata");
    for finalizer in metadata.field("finalizers").items() {
        if !is_known_finalizer(finalizer.str()) {
            checks::invalid_text(&finalizer, errors, UNKNOWN_FINALIZER);
        }
    }
}

pub(crate) const UNKNOWN_FINALIZER: &str =
    "name is neither a standard finalizer name nor is it fully qualified";

/// Whether a finalizer is domain-qualified or a standard one.
pub(crate) fn is_known_finalizer(name: &str) -> bool {
    name.contains('/') || matches!(name, "kubernetes" | ORPHAN | FOREGROUND)
}

fn no_new_finalizers(finalizers: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let known: BTreeSet<&str> = old.items().map(|item| item.str()).collect();
    let new: BTreeSet<&str> = finalizers
        .items()
        .map(|item| item.str())
        .filter(|name| !known.contains(name))
        .collect();
    if new.is_empty() {
        return;
    }
    let names: Vec<String> = new
        .iter()
        .map(|name| gotext::quote(name).to_string())
        .collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        names.join(", ")
    );
    finalizers.forbidden(errors, detail);
}

/// The error for an update without a resourceVersion of a kind that requires one.
pub fn version_required() -> Error {
    let path = rhumb_meta::field::Path::new("metadata.resourceVersion");
    let zero = BadValue::Rendered("0".to_owned());
    Error::invalid(&path, zero, "must be specified for an update")
}
