//! The webhooks of both configurations.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::labels::ValidationOptions;
use rhumb_meta::validation;

use super::{exclusion, matching};
use crate::workloads::{checks, webhook};
use crate::{Object, Request, Rules, View};

/// The versions of reviews that this server sends.
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];
const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];

/// The rules of a configuration. That of mutating webhooks has one field more, which the other never has.
#[derive(Debug)]
pub(super) struct Webhooks;

/// What an existing configuration may keep although a new one could not have it.
#[derive(Debug, Clone, Copy, Default)]
struct Tolerance {
    side_effects: bool,
    unknown_versions: bool,
    repeated_names: bool,
    same_conditions: bool,
    selectors: ValidationOptions,
}

impl Rules for Webhooks {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        exclusion::drop_from_webhooks(object, None, request);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        exclusion::drop_from_webhooks(object, Some(old), request);
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate(&object.field("webhooks"), Tolerance::default(), errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let (webhooks, old) = (object.field("webhooks"), old.field("webhooks"));
        validate(&webhooks, Tolerance::of(&webhooks, &old), errors);
    }

    fn warnings(&self, object: &View<'_>, _: Option<&View<'_>>, warnings: &mut Vec<String>) {
        matching::warn_of_name(object, warnings);
    }
}

impl Tolerance {
    fn of(webhooks: &View<'_>, old: &View<'_>) -> Tolerance {
        let mut names = HashSet::new();
        let mut repeated_names = false;
        for webhook in old.items() {
            repeated_names |= !names.insert(webhook.field("name").str().to_owned());
        }
        Tolerance {
            side_effects: old
                .items()
                .any(|webhook| !NO_SIDE_EFFECTS.contains(&webhook.field("sideEffects").str())),
            unknown_versions: old
                .items()
                .any(|webhook| has_only_unknown_versions(&webhook)),
            repeated_names,
            same_conditions: has_same_conditions(webhooks, old),
            selectors: ValidationOptions {
                allow_invalid_label_value: old.items().any(|webhook| has_wrong_selector(&webhook)),
                ..ValidationOptions::default()
            },
        }
    }
}

fn has_only_unknown_versions(webhook: &View<'_>) -> bool {
    let versions = webhook.field("admissionReviewVersions");
    !versions.is_empty()
        && !versions
            .items()
            .any(|version| REVIEW_VERSIONS.contains(&version.str()))
}

fn has_same_conditions(webhooks: &View<'_>, old: &View<'_>) -> bool {
    let same = |(ours, theirs): (View<'_>, View<'_>)| {
        checks::same(
            &ours.field("matchConditions"),
            &theirs.field("matchConditions"),
        )
    };
    webhooks.len() == old.len() && webhooks.items().zip(old.items()).all(same)
}

fn has_wrong_selector(webhook: &View<'_>) -> bool {
    let mut errors = ErrorList::new();
    for name in ["namespaceSelector", "objectSelector"] {
        let selector = webhook.field(name);
        checks::validate_selector(&selector, ValidationOptions::default(), &mut errors);
    }
    !errors.is_empty()
}

fn validate(webhooks: &View<'_>, tolerance: Tolerance, errors: &mut ErrorList) {
    let mut names = HashSet::new();
    for webhook in webhooks.items() {
        validate_webhook(&webhook, tolerance, errors);
        validate_versions(&webhook.field("admissionReviewVersions"), tolerance, errors);
        let name = webhook.field("name");
        let is_new = name.is_empty() || names.insert(name.str().to_owned());
        if !is_new && !tolerance.repeated_names {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
    }
}

fn validate_webhook(hook: &View<'_>, tolerance: Tolerance, errors: &mut ErrorList) {
    validate_name(&hook.field("name"), errors);
    matching::validate_rules(&hook.field("rules"), errors);
    exclusion::validate_of_webhook(hook, errors);
    checks::one_of(
        &hook.field("failurePolicy"),
        matching::FAILURE_POLICIES,
        errors,
    );
    checks::one_of(&hook.field("matchPolicy"), matching::MATCH_POLICIES, errors);
    validate_side_effects(&hook.field("sideEffects"), tolerance, errors);
    let timeout = hook.field("timeoutSeconds");
    if timeout
        .int()
        .is_some_and(|seconds| !(1..=30).contains(&seconds))
    {
        timeout.invalid(errors, "the timeout value must be between 1 and 30 seconds");
    }
    for name in ["namespaceSelector", "objectSelector"] {
        checks::validate_selector(&hook.field(name), tolerance.selectors, errors);
    }
    let reinvocation = hook.field("reinvocationPolicy");
    checks::one_of(&reinvocation, matching::REINVOCATION_POLICIES, errors);
    webhook::validate_client_config(&hook.field("clientConfig"), errors);
    if !tolerance.same_conditions {
        matching::validate_conditions(&hook.field("matchConditions"), errors);
    }
}

/// A name in a domain of the owner's.
fn validate_name(name: &View<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        name.required(errors, "");
        return;
    }
    let problems = validation::dns1123_subdomain(name.str());
    if !problems.is_empty() {
        checks::invalid_text(name, errors, problems.join(","));
    } else if name.str().split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        checks::invalid_text(name, errors, detail);
    }
}

fn validate_side_effects(effects: &View<'_>, tolerance: Tolerance, errors: &mut ErrorList) {
    let supported = if tolerance.side_effects {
        SIDE_EFFECTS
    } else {
        NO_SIDE_EFFECTS
    };
    if effects.exists() {
        checks::one_of(effects, supported, errors);
    } else {
        effects.required(
            errors,
            format!("must specify one of {}", supported.join(", ")),
        );
    }
}

fn validate_versions(versions: &View<'_>, tolerance: Tolerance, errors: &mut ErrorList) {
    let accepted = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        versions.required(errors, format!("must specify one of {accepted}"));
        return;
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        if !seen.insert(version.str().to_owned()) {
            checks::invalid_text(&version, errors, "duplicate version");
            continue;
        }
        checks::problems(&version, validation::dns1035_label(version.str()), errors);
    }
    let has_accepted = REVIEW_VERSIONS
        .iter()
        .any(|version| seen.contains(*version));
    if !has_accepted && !tolerance.unknown_versions {
        versions.invalid(errors, format!("must include at least one of {accepted}"));
    }
}
