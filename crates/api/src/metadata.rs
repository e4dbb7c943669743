//! What must hold for the metadata of every object, whatever its kind.

mod managed;
mod names;
mod owners;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::{gotext, validation};

use crate::{Kind, NameRule, View, checks, selectors};

pub use names::{name_problems, validate_given as validate_name};

/// All annotations of an object together, keys and values.
pub const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Checks the metadata of a new object, whose name has been generated if it was to be.
pub fn validate_create(object: &View<'_>, kind: &Kind, errors: &mut ErrorList) {
    validate_new(
        &object.field("metadata"),
        kind.names,
        kind.is_namespaced(),
        errors,
    );
    validate_known_finalizers(object, kind, errors);
}

/// Checks the metadata of a changed object, which has the old one's system fields where it had none.
///
/// The kind's own rule for names is not asked again: the name is the old one.
pub fn validate_update(object: &View<'_>, old: &View<'_>, kind: &Kind, errors: &mut ErrorList) {
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

/// What upstream checks again once all of [`validate_update`] is checked: the validation of a kind looks at the
/// metadata too, and what is wrong has a cause for each time.
pub fn validate_update_again(
    object: &View<'_>,
    old: &View<'_>,
    kind: &Kind,
    errors: &mut ErrorList,
) {
    let (metadata, old) = (object.field("metadata"), old.field("metadata"));
    validate_maps(&metadata, errors);
    validate_change(&metadata, &old, errors);
    validate_maps(&metadata, errors);
    validate_new(
        &metadata,
        NameRule::PathSegment,
        kind.is_namespaced(),
        errors,
    );
}

/// Checks metadata by itself: that of a new object, or of a template with a rule of its own for names.
pub fn validate_new(
    metadata: &View<'_>,
    rule: NameRule,
    is_namespaced: bool,
    errors: &mut ErrorList,
) {
    let index = metadata.index();
    let metadata = &metadata.with(&index);
    names::validate(metadata, rule, errors);
    names::validate_namespace(metadata, is_namespaced, errors);
    checks::not_negative(&metadata.field("generation"), errors);
    validate_maps(metadata, errors);
    validate_finalizers(&metadata.field("finalizers"), errors);
    managed::validate(&metadata.field("managedFields"), errors);
}

fn validate_maps(metadata: &View<'_>, errors: &mut ErrorList) {
    selectors::validate_labels(&metadata.field("labels"), errors);
    validate_annotations(&metadata.field("annotations"), errors);
    owners::validate(&metadata.field("ownerReferences"), errors);
}

fn validate_change(metadata: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
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

/// Checks the keys of annotations, in which case does not matter, and how much they are together.
pub fn validate_annotations(annotations: &View<'_>, errors: &mut ErrorList) {
    let mut bytes = 0;
    for (key, value) in annotations.entries() {
        // What is right as it is stays so in lower case.
        if !validation::qualified_name(key).is_empty() {
            let found = validation::qualified_name(&key.to_lowercase());
            refuse(annotations, key, found, errors);
        }
        bytes += key.len() + value.len();
    }
    if bytes > ANNOTATIONS_MAX_BYTES {
        errors.push(Error::too_long(annotations.path(), ANNOTATIONS_MAX_BYTES));
    }
}

/// Refuses a part of a map or list, at the path of the whole: upstream does not say which entry it is.
fn refuse(whole: &View<'_>, part: &str, found: validation::Problems, errors: &mut ErrorList) {
    for problem in found {
        errors.push(Error::invalid(whole.path(), part, problem));
    }
}

/// Checks the names of finalizers, and that not both ways to treat dependents are asked for.
pub fn validate_finalizers(finalizers: &View<'_>, errors: &mut ErrorList) {
    let mut ways = [false; 2];
    for finalizer in finalizers.items() {
        let name = finalizer.str();
        refuse(finalizers, name, validation::qualified_name(name), errors);
        ways[0] |= name == ORPHAN;
        ways[1] |= name == FOREGROUND;
    }
    if ways == [true, true] {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        finalizers.invalid(errors, detail);
    }
}

fn validate_known_finalizers(object: &View<'_>, kind: &Kind, errors: &mut ErrorList) {
    if !kind.known_finalizers {
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

/// Whether a finalizer has a domain, or is one of Kubernetes itself.
pub(crate) fn is_known_finalizer(name: &str) -> bool {
    name.contains('/') || matches!(name, "kubernetes" | ORPHAN | FOREGROUND)
}

fn no_new_finalizers(finalizers: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
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

/// The error for an update that names no version, of a kind that asks for one.
pub fn version_required() -> Error {
    let path = rhumb_meta::field::Path::new("metadata.resourceVersion");
    let zero = BadValue::Rendered("0".to_owned());
    Error::invalid(&path, zero, "must be specified for an update")
}
