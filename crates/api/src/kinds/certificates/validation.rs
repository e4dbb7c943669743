//! Validation of certificate signing requests.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::{gotext, validation};

use crate::FieldView;
use crate::validation_helpers::{checks, pem};

const EXPIRATION_SECONDS_MIN: i64 = 600;
const DOMAIN_MAX_BYTES: usize = 253;
/// A domain, a slash, and a path that fits a DNS label, a dot and a DNS subdomain.
const SIGNER_MAX_BYTES: usize = DOMAIN_MAX_BYTES + 1 + 253 + 1 + 63;
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Endpoint that receives the update; each one may change other fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CsrUpdateTarget {
    Object,
    Status,
    Approval,
}

/// Ratcheting: invalid values that an update may keep because the old object has them.
#[derive(Debug, Clone, Copy, Default)]
struct CsrValidationOptions {
    allow_both_approved_and_denied: bool,
    allow_legacy_signer: bool,
    allow_duplicate_conditions: bool,
    allow_empty_condition_type: bool,
    allow_arbitrary_certificate: bool,
    allow_duplicate_usages: bool,
    allow_unknown_usages: bool,
}

impl CsrValidationOptions {
    fn for_update_of(object: &FieldView<'_>, old: &FieldView<'_>) -> CsrValidationOptions {
        let (spec, status) = (old.field("spec"), old.field("status"));
        let (usages, conditions) = (spec.field("usages"), status.field("conditions"));
        let types: Vec<String> = conditions
            .items()
            .map(|condition| condition.field("type").str().to_owned())
            .collect();
        let usages: Vec<String> = usages.items().map(|usage| usage.str().to_owned()).collect();
        let has = |kind: &str| types.iter().any(|name| name == kind);
        let certificate = status.field("certificate");
        let is_same = object.field("status").field("certificate").str() == certificate.str();
        CsrValidationOptions {
            allow_both_approved_and_denied: has("Approved") && has("Denied"),
            allow_legacy_signer: spec.field("signerName").str() == LEGACY_SIGNER,
            allow_duplicate_conditions: has_duplicates(&types),
            allow_empty_condition_type: has(""),
            allow_arbitrary_certificate: is_same
                || certificate_problem(certificate.str()).is_some(),
            allow_duplicate_usages: has_duplicates(&usages),
            allow_unknown_usages: usages.iter().any(|usage| !USAGES.contains(&usage.as_str())),
        }
    }
}

fn has_duplicates(texts: &[String]) -> bool {
    let distinct: HashSet<&String> = texts.iter().collect();
    distinct.len() < texts.len()
}

/// Validates the whole object. `old` is given on update.
pub(super) fn validate(
    object: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    errors: &mut ErrorList,
) {
    let options = old.map_or_else(CsrValidationOptions::default, |old| {
        CsrValidationOptions::for_update_of(object, old)
    });
    let (spec, status) = (object.field("spec"), object.field("status"));
    let request = spec.field("request");
    if !is_pem_certificate_request(request.str()) {
        request.invalid(errors, "PEM block type must be CERTIFICATE REQUEST");
    }
    validate_usages(&spec.field("usages"), options, errors);
    validate_signer(&spec.field("signerName"), options, errors);
    let expiration = spec.field("expirationSeconds");
    if expiration
        .int()
        .is_some_and(|seconds| seconds < EXPIRATION_SECONDS_MIN)
    {
        expiration.invalid(
            errors,
            "may not specify a duration less than 600 seconds (10 minutes)",
        );
    }
    validate_conditions(&status.field("conditions"), options, errors);
    let certificate = status.field("certificate");
    if let Some(problem) = certificate_problem(certificate.str())
        && !options.allow_arbitrary_certificate
    {
        let value = "<certificate data>";
        errors.push(Error::invalid(certificate.path(), value, problem));
    }
}

pub(super) fn validate_update(
    object: &FieldView<'_>,
    old: &FieldView<'_>,
    path: CsrUpdateTarget,
    errors: &mut ErrorList,
) {
    validate(object, Some(old), errors);
    let (status, old) = (object.field("status"), old.field("status"));
    let conditions = status.field("conditions");
    for kind in ["Approved", "Denied", "Failed"] {
        if count_conditions(&conditions, kind) < count_conditions(&old.field("conditions"), kind) {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            conditions.forbidden(errors, detail);
        }
    }
    if path != CsrUpdateTarget::Approval {
        validate_no_approval_change(&conditions, &old.field("conditions"), errors);
    }
    let (certificate, before) = (status.field("certificate"), old.field("certificate"));
    if certificate.str() != before.str() {
        if path != CsrUpdateTarget::Status {
            certificate.forbidden(errors, "updates may not set certificate content");
        } else if !before.is_empty() {
            let detail = "updates may not modify existing certificate content";
            certificate.forbidden(errors, detail);
        }
    }
}

fn count_conditions(conditions: &FieldView<'_>, kind: &str) -> usize {
    let conditions = conditions.items();
    conditions
        .filter(|condition| condition.field("type").str() == kind)
        .count()
}

/// Rejects a change of the Approved and Denied conditions outside the `approval` subresource.
fn validate_no_approval_change(
    conditions: &FieldView<'_>,
    before: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    for kind in ["Approved", "Denied"] {
        let of = |condition: &FieldView<'_>| condition.field("type").str() == kind;
        let (now, old) = (
            count_conditions(conditions, kind),
            count_conditions(before, kind),
        );
        let is_same = || {
            let pairs = conditions.items().filter(of).zip(before.items().filter(of));
            pairs
                .into_iter()
                .all(|(ours, theirs)| checks::semantically_equal(&ours, &theirs))
        };
        if now > old {
            let detail = format!("updates may not add a condition of type \"{kind}\"");
            conditions.forbidden(errors, detail);
        } else if now == old && !is_same() {
            let detail = format!("updates may not modify a condition of type \"{kind}\"");
            conditions.forbidden(errors, detail);
        }
    }
}

fn is_pem_certificate_request(base64: &str) -> bool {
    let text = decode_base64(base64);
    let first = pem::blocks(&text).into_iter().next();
    first.is_some_and(|block| block.label == "CERTIFICATE REQUEST")
}

fn decode_base64(base64: &str) -> String {
    let bytes = STANDARD.decode(base64).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

fn certificate_problem(base64: &str) -> Option<String> {
    if base64.is_empty() {
        return None;
    }
    let text = decode_base64(base64);
    let blocks = pem::blocks(&text);
    if blocks.is_empty() {
        return Some("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    blocks.iter().find_map(|block| {
        if block.label != "CERTIFICATE" {
            let found = gotext::quote(block.label);
            return Some(format!(
                "only CERTIFICATE PEM blocks are allowed, found {found}"
            ));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        block
            .data
            .is_empty()
            .then(|| "found CERTIFICATE PEM block containing 0 certificates".to_owned())
    })
}

fn validate_usages(usages: &FieldView<'_>, options: CsrValidationOptions, errors: &mut ErrorList) {
    if usages.is_empty() {
        usages.required(errors, "");
    }
    if !options.allow_unknown_usages {
        for usage in usages.items() {
            checks::one_of(&usage, USAGES, errors);
        }
    }
    let mut seen = HashSet::new();
    for usage in usages.items() {
        if !seen.insert(usage.str().to_owned()) && !options.allow_duplicate_usages {
            usage.duplicate(errors);
        }
    }
}

fn validate_signer(field: &FieldView<'_>, options: CsrValidationOptions, errors: &mut ErrorList) {
    let name = field.str();
    if name == LEGACY_SIGNER && !options.allow_legacy_signer {
        let detail = "the legacy signerName is not allowed via this API version";
        checks::invalid_text(field, errors, detail);
        return;
    }
    if name.is_empty() {
        field.required(errors, "");
        return;
    }
    let parts = name.split_once('/').filter(|(_, path)| !path.contains('/'));
    let Some((domain, path)) = parts else {
        let detail =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        checks::invalid_text(field, errors, detail);
        return;
    };
    if domain.len() > DOMAIN_MAX_BYTES {
        errors.push(Error::too_long(field.path(), DOMAIN_MAX_BYTES));
    }
    validate_labels(field, domain, validation::dns1123_label, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(field.path(), domain, detail));
    }
    validate_labels(field, path, validation::dns1123_subdomain, errors);
    if name.len() > SIGNER_MAX_BYTES {
        errors.push(Error::too_long(field.path(), SIGNER_MAX_BYTES));
    }
}

/// Reports only the first invalid dot-separated segment, because further errors would read the same.
fn validate_labels(
    field: &FieldView<'_>,
    part: &str,
    check: fn(&str) -> validation::ValidationProblems,
    errors: &mut ErrorList,
) {
    let wrong = part.split('.').find(|label| !check(label).is_empty());
    let Some(label) = wrong else {
        return;
    };
    for problem in check(label) {
        let detail = format!("validating label {}: {problem}", gotext::quote(label));
        errors.push(Error::invalid(field.path(), part, detail));
    }
}

fn validate_conditions(
    conditions: &FieldView<'_>,
    options: CsrValidationOptions,
    errors: &mut ErrorList,
) {
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let kind = condition.field("type");
        if kind.is_empty() && !options.allow_empty_condition_type {
            kind.required(errors, "");
        }
        let status = condition.field("status");
        // Approved, Denied and Failed may only be True.
        let allowed: &[&str] = match kind.str() {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        if status.is_empty() {
            status.required(errors, "");
        } else {
            checks::one_of(&status, allowed, errors);
        }
        let other = match kind.str() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !options.allow_both_approved_and_denied && !other.is_empty() && seen.contains(other) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(Error::invalid(conditions.path(), kind.bad_value(), detail));
        }
        if !seen.insert(kind.str().to_owned()) && !options.allow_duplicate_conditions {
            kind.duplicate(errors);
        }
    }
}
