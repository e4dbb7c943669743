//! The name of who is to sign: a domain, and a path below it.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::{gotext, validation};

use crate::{View, checks};

const DOMAIN_MAX_BYTES: usize = validation::DNS1123_SUBDOMAIN_MAX_BYTES;
const PATH_MAX_BYTES: usize = DOMAIN_MAX_BYTES + validation::DNS1123_LABEL_MAX_BYTES + 1;
const NAME_MAX_BYTES: usize = DOMAIN_MAX_BYTES + PATH_MAX_BYTES + 1;

/// `is_stored` lets a name pass that old versions of the API had for want of any.
pub(super) fn validate(name: &View<'_>, is_stored: bool, errors: &mut ErrorList) {
    if name.is_empty() {
        return name.required(errors, "");
    }
    if name.str() == "kubernetes.io/legacy-unknown" && !is_stored {
        let detail = "the legacy signerName is not allowed via this API version";
        return checks::invalid_text(name, errors, detail);
    }
    let parts: Vec<&str> = name.str().split('/').collect();
    let [domain, path] = parts.as_slice() else {
        let detail =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return checks::invalid_text(name, errors, detail);
    };
    if domain.len() > DOMAIN_MAX_BYTES {
        errors.push(Error::too_long(name.path(), DOMAIN_MAX_BYTES));
    }
    validate_labels(name, domain, validation::dns1123_label, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(name.path(), *domain, detail));
    }
    validate_labels(name, path, validation::dns1123_subdomain, errors);
    if name.len() > NAME_MAX_BYTES {
        errors.push(Error::too_long(name.path(), NAME_MAX_BYTES));
    }
}

/// Says what is wrong with the first label that is; others would only repeat it.
fn validate_labels(
    name: &View<'_>,
    part: &str,
    problems: fn(&str) -> validation::Problems,
    errors: &mut ErrorList,
) {
    for label in part.split('.') {
        let found = problems(label);
        for problem in &found {
            let detail = format!("validating label {}: {problem}", gotext::quote(label));
            errors.push(Error::invalid(name.path(), part, detail));
        }
        if !found.is_empty() {
            return;
        }
    }
}
