//! Names of drivers and their parameters.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use crate::View;
use crate::workloads::checks;

const DRIVER_MAX_BYTES: usize = 63;
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_MAX_BYTES: usize = 256 * 1024;

pub(super) fn validate_driver(field: &View<'_>, errors: &mut ErrorList) {
    let name = field.str();
    if name.is_empty() {
        field.required(errors, "");
        return;
    }
    if name.len() > DRIVER_MAX_BYTES {
        errors.push(Error::too_long(field.path(), DRIVER_MAX_BYTES));
    }
    let problems = validation::dns1123_subdomain(&name.to_lowercase());
    checks::problems(field, problems, errors);
}

/// Who makes volumes, or changes their attributes.
pub(super) fn validate_provisioner(field: &View<'_>, errors: &mut ErrorList) {
    let name = field.str().to_lowercase();
    if name.is_empty() {
        field.required(errors, "");
        return;
    }
    for problem in validation::qualified_name(&name) {
        errors.push(Error::invalid(field.path(), name.as_str(), problem));
    }
}

pub(super) fn validate_parameters(parameters: &View<'_>, errors: &mut ErrorList) {
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
    if size(parameters) > PARAMETERS_MAX_BYTES {
        errors.push(Error::too_long(parameters.path(), PARAMETERS_MAX_BYTES));
    }
}

/// The bytes of all keys and values of a map of texts.
pub(super) fn size(map: &View<'_>) -> usize {
    map.entries()
        .map(|(key, value)| key.len() + value.len())
        .sum()
}
