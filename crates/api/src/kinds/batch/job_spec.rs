//! Validation of a job spec, in a job or in the template of a cron job.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::{gotext, validation};

use super::job_policies;
use crate::validation_helpers::{checks, template};
use crate::{FieldView, pods};

const INDEXED_PARALLELISM_MAX: i64 = 100_000;
const INDEXED_FAILURES_MAX: i64 = 100_000;
/// Above this number of completions, lower limits apply.
pub(super) const COMPLETIONS_SOFT_MAX: i64 = 100_000;
const PARALLELISM_MAX_ABOVE_SOFT_LIMIT: i64 = 10_000;
const FAILURES_MAX_ABOVE_SOFT_LIMIT: i64 = 10_000;
const MANAGED_BY_MAX_BYTES: usize = 63;

pub(super) fn is_indexed(spec: &FieldView<'_>) -> bool {
    spec.field("completionMode").str() == "Indexed"
}

/// Validates everything but the selector, which the job template of a cron job does not have.
pub(super) fn validate(spec: &FieldView<'_>, old: Option<&FieldView<'_>>, errors: &mut ErrorList) {
    let counters = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    checks::all_nonnegative(spec, &counters, errors);
    let limit_per_index = spec.field("backoffLimitPerIndex");
    if spec.field("maxFailedIndexes").exists() && !limit_per_index.exists() {
        limit_per_index.required(errors, "when maxFailedIndexes is specified");
    }
    validate_managed_by(&spec.field("managedBy"), errors);
    validate_completion_mode(spec, errors);
    job_policies::validate_pod_failure_policy(spec, errors);
    job_policies::validate_success_policy(spec, errors);
    validate_pod_replacement_policy(spec, errors);
    let pods = spec.field("template");
    let old = old.map(|old| old.field("template"));
    template::validate(&pods, old.as_ref(), errors);
    validate_restart_policy(spec, &pods, errors);
}

fn validate_managed_by(manager: &FieldView<'_>, errors: &mut ErrorList) {
    let Some(name) = manager.opt_str() else {
        return;
    };
    validate_domain_prefixed_path(manager, name, errors);
    if name.len() > MANAGED_BY_MAX_BYTES {
        errors.push(Error::too_long(manager.path(), MANAGED_BY_MAX_BYTES));
    }
}

/// Validates a name such as `acme.io/foo`.
fn validate_domain_prefixed_path(field: &FieldView<'_>, name: &str, errors: &mut ErrorList) {
    if name.is_empty() {
        field.required(errors, "");
        return;
    }
    let parts = name
        .split_once('/')
        .filter(|(host, path)| !host.is_empty() && !path.is_empty());
    let Some((host, path)) = parts else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        checks::invalid_text(field, errors, detail);
        return;
    };
    for problem in validation::dns1123_subdomain(host) {
        errors.push(Error::invalid(field.path(), host, problem));
    }
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(is_allowed) {
        let detail =
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.push(Error::invalid(field.path(), path, detail));
    }
}

fn validate_completion_mode(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let mode = spec.field("completionMode");
    checks::one_of(&mode, &["NonIndexed", "Indexed"], errors);
    match mode.opt_str() {
        Some("Indexed") => validate_indexed(spec, errors),
        None | Some("NonIndexed") => {
            for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                let field = spec.field(name);
                if field.exists() {
                    field.invalid(errors, "requires indexed completion mode");
                }
            }
        }
        Some(_) => {}
    }
}

fn validate_indexed(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let completions = spec.field("completions");
    let parallelism = spec.field("parallelism");
    let failures = spec.field("maxFailedIndexes");
    if !completions.exists() {
        completions.required(errors, "when completion mode is Indexed");
    }
    at_most(&parallelism, INDEXED_PARALLELISM_MAX, errors, |max| {
        format!("must be less than or equal to {max} when completion mode is Indexed")
    });
    if let Some(count) = completions.int() {
        at_most(&failures, count, errors, |_| {
            "must be less than or equal to completions".to_owned()
        });
    }
    at_most(&failures, INDEXED_FAILURES_MAX, errors, |max| {
        format!("must be less than or equal to {max}")
    });
    let has_many = completions.int().is_some_and(|n| n > COMPLETIONS_SOFT_MAX);
    if has_many && spec.field("backoffLimitPerIndex").exists() {
        let of_many = |max| {
            format!(
                "must be less than or equal to {max} when completions are above {COMPLETIONS_SOFT_MAX} and \
                 used with backoff limit per index"
            )
        };
        if !failures.exists() {
            let detail =
                format!("must be specified when completions is above {COMPLETIONS_SOFT_MAX}");
            failures.required(errors, detail);
        }
        at_most(
            &parallelism,
            PARALLELISM_MAX_ABOVE_SOFT_LIMIT,
            errors,
            of_many,
        );
        at_most(&failures, FAILURES_MAX_ABOVE_SOFT_LIMIT, errors, of_many);
    }
}

fn at_most(
    field: &FieldView<'_>,
    max: i64,
    errors: &mut ErrorList,
    detail: impl Fn(i64) -> String,
) {
    if field.int().is_some_and(|value| value > max) {
        field.invalid(errors, detail(max));
    }
}

fn validate_pod_replacement_policy(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let supported: &[&str] = if spec.field("podFailurePolicy").exists() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    checks::one_of(&spec.field("podReplacementPolicy"), supported, errors);
}

fn validate_restart_policy(spec: &FieldView<'_>, pods: &FieldView<'_>, errors: &mut ErrorList) {
    let pod = pods.field("spec");
    let restart = pod.field("restartPolicy");
    match restart.str() {
        "" | "Always" => restart.required(errors, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" if spec.field("podFailurePolicy").exists() => restart.invalid(
            errors,
            "only \"Never\" is supported when podFailurePolicy is specified",
        ),
        "OnFailure" => {}
        other => {
            let value = BadValue::Rendered(gotext::json(other));
            let supported = ["OnFailure", "Never"];
            errors.push(Error::not_supported(restart.path(), value, &supported));
        }
    }
}

/// Adds the warnings for a new or changed spec.
pub(super) fn warnings(spec: &FieldView<'_>, warnings: &mut Vec<String>) {
    let is_above = |name: &str, limit| spec.field(name).int().is_some_and(|value| value > limit);
    if is_indexed(spec)
        && is_above("completions", COMPLETIONS_SOFT_MAX)
        && is_above("parallelism", PARALLELISM_MAX_ABOVE_SOFT_LIMIT)
    {
        warnings.push(format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than \
             10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
            spec.path()
        ));
    }
    pods::template_warnings(&spec.field("template"), warnings);
}
