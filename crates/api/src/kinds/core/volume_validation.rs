//! Validation shared by persistent volumes and claims.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::{Quantity, validation};

use crate::{FieldView, checks, resource_names};

const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// Validates access modes. All errors are at the list itself.
pub(super) fn validate_access_modes(modes: &FieldView<'_>, errors: &mut ErrorList) {
    let mut found = [false; 2];
    for mode in modes.items() {
        let is_known = ACCESS_MODES.contains(&mode.str());
        if !is_known {
            errors.push(Error::not_supported(modes.path(), mode.str(), ACCESS_MODES));
        }
        found[0] |= mode.str() == "ReadWriteOncePod";
        found[1] |= is_known && mode.str() != "ReadWriteOncePod";
    }
    if found == [true, true] {
        modes.forbidden(
            errors,
            "may not use ReadWriteOncePod with other access modes",
        );
    }
}

pub(super) fn validate_class_name(name: &FieldView<'_>, errors: &mut ErrorList) {
    if !name.is_empty() {
        checks::push_problems(name, validation::dns1123_subdomain(name.str()), errors);
    }
}

pub(super) fn validate_volume_mode(mode: &FieldView<'_>, errors: &mut ErrorList) {
    if mode.exists() {
        checks::one_of(mode, &["Block", "Filesystem"], errors);
    }
}

/// Requires a positive quantity; the error is reported at `at`.
pub(super) fn validate_positive(
    amount: &FieldView<'_>,
    at: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    let Some(quantity) = resource_names::quantity(amount) else {
        return;
    };
    if quantity <= Quantity::default() {
        let detail = "must be greater than zero";
        errors.push(Error::invalid(at.path(), quantity.to_string(), detail));
    }
}
