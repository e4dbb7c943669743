//! Strategy and validation of both webhook configurations.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::labels::LabelSelectorValidationOptions;
use rhumb_meta::validation;

use super::{exclude_rules, matching};
use crate::validation_helpers::{checks, webhook};
use crate::{DroppedField, FeatureGates, FieldView, JsonObject, ResourceStrategy, StrategyContext};

/// Versions of `AdmissionReview` that this server sends.
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];
const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];

/// Strategy of both webhook configurations. Only mutating webhooks have `reinvocationPolicy`; the schema drops it
/// elsewhere.
#[derive(Debug)]
pub(super) struct WebhookConfigurationStrategy;

/// Ratcheting: invalid values that an update may keep because the old configuration has them.
#[derive(Debug, Clone, Copy, Default)]
struct WebhookValidationOptions {
    allow_side_effects: bool,
    allow_unknown_review_versions: bool,
    allow_duplicate_names: bool,
    skip_match_conditions: bool,
    selectors: LabelSelectorValidationOptions,
}

impl ResourceStrategy for WebhookConfigurationStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        exclude_rules::drop_disabled_webhook_rules(object, None, request);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        exclude_rules::drop_disabled_webhook_rules(object, Some(old), request);
    }

    fn disabled_fields(
        &self,
        object: &JsonObject,
        old: Option<&JsonObject>,
        gates: &FeatureGates,
    ) -> Vec<DroppedField> {
        exclude_rules::disabled_webhook_rules(object, old, gates)
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(
            &object.field("webhooks"),
            WebhookValidationOptions::default(),
            errors,
        );
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (webhooks, old) = (object.field("webhooks"), old.field("webhooks"));
        validate(
            &webhooks,
            WebhookValidationOptions::for_update_of(&webhooks, &old),
            errors,
        );
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        _: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        matching::warn_of_reserved_name(object, warnings);
    }
}

impl WebhookValidationOptions {
    fn for_update_of(webhooks: &FieldView<'_>, old: &FieldView<'_>) -> WebhookValidationOptions {
        let mut names = HashSet::new();
        let mut allow_duplicate_names = false;
        for webhook in old.items() {
            allow_duplicate_names |= !names.insert(webhook.field("name").str().to_owned());
        }
        WebhookValidationOptions {
            allow_side_effects: old
                .items()
                .any(|webhook| !NO_SIDE_EFFECTS.contains(&webhook.field("sideEffects").str())),
            allow_unknown_review_versions: old
                .items()
                .any(|webhook| has_only_unknown_versions(&webhook)),
            allow_duplicate_names,
            skip_match_conditions: has_same_conditions(webhooks, old),
            selectors: LabelSelectorValidationOptions {
                allow_invalid_label_value: old
                    .items()
                    .any(|webhook| has_invalid_selector(&webhook)),
                ..LabelSelectorValidationOptions::default()
            },
        }
    }
}

fn has_only_unknown_versions(webhook: &FieldView<'_>) -> bool {
    let versions = webhook.field("admissionReviewVersions");
    !versions.is_empty()
        && !versions
            .items()
            .any(|version| REVIEW_VERSIONS.contains(&version.str()))
}

fn has_same_conditions(webhooks: &FieldView<'_>, old: &FieldView<'_>) -> bool {
    let same = |(ours, theirs): (FieldView<'_>, FieldView<'_>)| {
        checks::semantically_equal(
            &ours.field("matchConditions"),
            &theirs.field("matchConditions"),
        )
    };
    webhooks.len() == old.len() && webhooks.items().zip(old.items()).all(same)
}

fn has_invalid_selector(webhook: &FieldView<'_>) -> bool {
    let mut errors = ErrorList::new();
    for name in ["namespaceSelector", "objectSelector"] {
        let selector = webhook.field(name);
        checks::validate_selector(
            &selector,
            LabelSelectorValidationOptions::default(),
            &mut errors,
        );
    }
    !errors.is_empty()
}

fn validate(webhooks: &FieldView<'_>, options: WebhookValidationOptions, errors: &mut ErrorList) {
    let mut names = HashSet::new();
    for webhook in webhooks.items() {
        validate_webhook(&webhook, options, errors);
        validate_versions(&webhook.field("admissionReviewVersions"), options, errors);
        let name = webhook.field("name");
        let is_new = name.is_empty() || names.insert(name.str().to_owned());
        if !is_new && !options.allow_duplicate_names {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
    }
}

fn validate_webhook(
    hook: &FieldView<'_>,
    options: WebhookValidationOptions,
    errors: &mut ErrorList,
) {
    validate_name(&hook.field("name"), errors);
    matching::validate_rules(&hook.field("rules"), errors);
    exclude_rules::validate_webhook_rules(hook, errors);
    checks::one_of(
        &hook.field("failurePolicy"),
        matching::FAILURE_POLICIES,
        errors,
    );
    checks::one_of(&hook.field("matchPolicy"), matching::MATCH_POLICIES, errors);
    validate_side_effects(&hook.field("sideEffects"), options, errors);
    let timeout = hook.field("timeoutSeconds");
    if timeout
        .int()
        .is_some_and(|seconds| !(1..=30).contains(&seconds))
    {
        timeout.invalid(errors, "the timeout value must be between 1 and 30 seconds");
    }
    for name in ["namespaceSelector", "objectSelector"] {
        checks::validate_selector(&hook.field(name), options.selectors, errors);
    }
    let reinvocation = hook.field("reinvocationPolicy");
    checks::one_of(&reinvocation, matching::REINVOCATION_POLICIES, errors);
    webhook::validate_client_config(&hook.field("clientConfig"), errors);
    if !options.skip_match_conditions {
        matching::validate_match_conditions(&hook.field("matchConditions"), false, errors);
    }
}

/// Validates a fully qualified name, with at least three segments.
fn validate_name(name: &FieldView<'_>, errors: &mut ErrorList) {
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

fn validate_side_effects(
    effects: &FieldView<'_>,
    options: WebhookValidationOptions,
    errors: &mut ErrorList,
) {
    let supported = if options.allow_side_effects {
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

fn validate_versions(
    versions: &FieldView<'_>,
    options: WebhookValidationOptions,
    errors: &mut ErrorList,
) {
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
        checks::push_problems(&version, validation::dns1035_label(version.str()), errors);
    }
    let has_accepted = REVIEW_VERSIONS
        .iter()
        .any(|version| seen.contains(*version));
    if !has_accepted && !options.allow_unknown_review_versions {
        versions.invalid(errors, format!("must include at least one of {accepted}"));
    }
}
