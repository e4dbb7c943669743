//! Validation of CSI driver names, provisioners and parameters.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use crate::FieldView;
use crate::validation_helpers::checks;

const DRIVER_MAX_BYTES: usize = 63;
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_MAX_BYTES: usize = 256 * 1024;

pub(super) fn validate_driver(field: &FieldView<'_>, errors: &mut ErrorList) {
    let name = field.str();
    if name.is_empty() {
        field.required(errors, "");
        return;
    }
    if name.len() > DRIVER_MAX_BYTES {
        errors.push(Error::too_long(field.path(), DRIVER_MAX_BYTES));
    }
    let problems = validation::dns1123_subdomain(&name.to_lowercase());
    checks::push_problems(field, problems, errors);
}

/// Validates the provisioner or driver name of a class.
pub(super) fn validate_provisioner(field: &FieldView<'_>, errors: &mut ErrorList) {
    let name = field.str().to_lowercase();
    if name.is_empty() {
        field.required(errors, "");
        return;
    }
    for problem in validation::qualified_name(&name) {
        errors.push(Error::invalid(field.path(), name.as_str(), problem));
    }
}

pub(super) fn validate_parameters(parameters: &FieldView<'_>, errors: &mut ErrorList) {
    if parameters.len() > PARAMETERS_MAX {
        errors.push(Error::too_long(parameters.path(), PARAMETERS_MAX));
        return;
    }
    if parameters.key("").exists() {
        errors.push(Error::invalid(
            parameters.path(),
            "",
            "field can not be empty.",
        ));
    }
    if total_bytes(parameters) > PARAMETERS_MAX_BYTES {
        errors.push(Error::too_long(parameters.path(), PARAMETERS_MAX_BYTES));
    }
}

/// Total size in bytes of the keys and values of a string map.
pub(super) fn total_bytes(map: &FieldView<'_>) -> usize {
    map.entries()
        .map(|(key, value)| key.len() + value.len())
        .sum()
}
