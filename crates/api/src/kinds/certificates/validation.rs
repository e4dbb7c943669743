//! What is right and wrong with requests for certificates.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::{gotext, validation};

use crate::View;
use crate::workloads::{checks, pem};

const EXPIRATION_SECONDS_MIN: i64 = 600;
const DOMAIN_MAX_BYTES: usize = 253;
/// A domain, a slash, and a path that can hold a DNS label, a dot and a DNS subdomain.
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

/// Through which path an update comes: each may change another part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    Object,
    Status,
    Approval,
}

/// What an existing request may keep although a new one could not have it.
#[derive(Debug, Clone, Copy, Default)]
struct Tolerance {
    both_decisions: bool,
    legacy_signer: bool,
    repeated_conditions: bool,
    nameless_conditions: bool,
    any_certificate: bool,
    repeated_usages: bool,
    unknown_usages: bool,
}

impl Tolerance {
    fn of(object: &View<'_>, old: &View<'_>) -> Tolerance {
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
        Tolerance {
            both_decisions: has("Approved") && has("Denied"),
            legacy_signer: spec.field("signerName").str() == LEGACY_SIGNER,
            repeated_conditions: has_repeats(&types),
            nameless_conditions: has(""),
            any_certificate: is_same || certificate_problem(certificate.str()).is_some(),
            repeated_usages: has_repeats(&usages),
            unknown_usages: usages.iter().any(|usage| !USAGES.contains(&usage.as_str())),
        }
    }
}

fn has_repeats(texts: &[String]) -> bool {
    let distinct: HashSet<&String> = texts.iter().collect();
    distinct.len() < texts.len()
}

/// `old` is there in an update.
pub(super) fn validate(object: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
    let tolerance = old.map_or_else(Tolerance::default, |old| Tolerance::of(object, old));
    let (spec, status) = (object.field("spec"), object.field("status"));
    let request = spec.field("request");
    if !is_request(request.str()) {
        request.invalid(errors, "PEM block type must be CERTIFICATE REQUEST");
    }
    validate_usages(&spec.field("usages"), tolerance, errors);
    validate_signer(&spec.field("signerName"), tolerance, errors);
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
    validate_conditions(&status.field("conditions"), tolerance, errors);
    let certificate = status.field("certificate");
    if let Some(problem) = certificate_problem(certificate.str())
        && !tolerance.any_certificate
    {
        let value = "<certificate data>";
        errors.push(Error::invalid(certificate.path(), value, problem));
    }
}

pub(super) fn validate_update(
    object: &View<'_>,
    old: &View<'_>,
    path: Path,
    errors: &mut ErrorList,
) {
    validate(object, Some(old), errors);
    let (status, old) = (object.field("status"), old.field("status"));
    let conditions = status.field("conditions");
    for kind in ["Approved", "Denied", "Failed"] {
        if count(&conditions, kind) < count(&old.field("conditions"), kind) {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            conditions.forbidden(errors, detail);
        }
    }
    if path != Path::Approval {
        validate_no_decision(&conditions, &old.field("conditions"), errors);
    }
    let (certificate, before) = (status.field("certificate"), old.field("certificate"));
    if certificate.str() != before.str() {
        if path != Path::Status {
            certificate.forbidden(errors, "updates may not set certificate content");
        } else if !before.is_empty() {
            let detail = "updates may not modify existing certificate content";
            certificate.forbidden(errors, detail);
        }
    }
}

fn count(conditions: &View<'_>, kind: &str) -> usize {
    let conditions = conditions.items();
    conditions
        .filter(|condition| condition.field("type").str() == kind)
        .count()
}

/// Only an approval may approve or deny.
fn validate_no_decision(conditions: &View<'_>, before: &View<'_>, errors: &mut ErrorList) {
    for kind in ["Approved", "Denied"] {
        let of = |condition: &View<'_>| condition.field("type").str() == kind;
        let (now, old) = (count(conditions, kind), count(before, kind));
        let is_same = || {
            let pairs = conditions.items().filter(of).zip(before.items().filter(of));
            pairs
                .into_iter()
                .all(|(ours, theirs)| checks::same(&ours, &theirs))
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

fn is_request(base64: &str) -> bool {
    let text = decoded(base64);
    let first = pem::blocks(&text).into_iter().next();
    first.is_some_and(|block| block.label == "CERTIFICATE REQUEST")
}

fn decoded(base64: &str) -> String {
    let bytes = STANDARD.decode(base64).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

fn certificate_problem(base64: &str) -> Option<String> {
    if base64.is_empty() {
        return None;
    }
    let text = decoded(base64);
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

fn validate_usages(usages: &View<'_>, tolerance: Tolerance, errors: &mut ErrorList) {
    if usages.is_empty() {
        usages.required(errors, "");
    }
    if !tolerance.unknown_usages {
        for usage in usages.items() {
            checks::one_of(&usage, USAGES, errors);
        }
    }
    let mut seen = HashSet::new();
    for usage in usages.items() {
        if !seen.insert(usage.str().to_owned()) && !tolerance.repeated_usages {
            usage.duplicate(errors);
        }
    }
}

fn validate_signer(field: &View<'_>, tolerance: Tolerance, errors: &mut ErrorList) {
    let name = field.str();
    if name == LEGACY_SIGNER && !tolerance.legacy_signer {
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

/// The first part between dots that is wrong; further ones would read the same.
fn validate_labels(
    field: &View<'_>,
    part: &str,
    check: fn(&str) -> validation::Problems,
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

fn validate_conditions(conditions: &View<'_>, tolerance: Tolerance, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let kind = condition.field("type");
        if kind.is_empty() && !tolerance.nameless_conditions {
            kind.required(errors, "");
        }
        let status = condition.field("status");
        // A decision is made or not made, but never made to be false.
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
        if !tolerance.both_decisions && !other.is_empty() && seen.contains(other) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(Error::invalid(conditions.path(), kind.bad_value(), detail));
        }
        if !seen.insert(kind.str().to_owned()) && !tolerance.repeated_conditions {
            kind.duplicate(errors);
        }
    }
}
