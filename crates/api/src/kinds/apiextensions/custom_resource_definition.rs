//! Declares `CustomResourceDefinition` and its strategy: preparation, validation and warnings, as in
//! upstream's `apiextensions-apiserver` `pkg/apis/apiextensions/validation`.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::go_url::GoUrl;
use rhumb_meta::validation;
use serde_json::{Value, json};

use super::versions;
use crate::validation_helpers::{checks, webhook};
use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope, ResourceStrategy,
    StrategyContext, fields, object_edit,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    )
    .allow_any_finalizer()
    .short_names(&["crd", "crds"])
    .category("api-extensions")
    .storage("apiextensions.k8s.io/customresourcedefinitions")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .status()
    .requires_resource_version()
    .storage_precondition_errors()
    .strategy(CustomResourceDefinitionStrategy)
}

const API_APPROVED_ANNOTATION: &str = "api-approved.kubernetes.io";
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];

#[derive(Debug)]
struct CustomResourceDefinitionStrategy;

impl ResourceStrategy for CustomResourceDefinitionStrategy {
    fn prepare_create(&self, object: &mut JsonObject, _: &StrategyContext<'_>) {
        add_stored_version(object);
    }

    fn prepare_update(&self, object: &mut JsonObject, _: &JsonObject, _: &StrategyContext<'_>) {
        add_stored_version(object);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (metadata, spec) = (object.field("metadata"), object.field("spec"));
        let names = spec.field("names");
        let name = metadata.field("name");
        let wanted = format!(
            "{}.{}",
            names.field("plural").str(),
            spec.field("group").str()
        );
        if name.str() != wanted {
            let detail = "must be spec.names.plural+\".\"+spec.group";
            checks::invalid_text(&name, errors, detail);
        }
        validate_spec(&spec, true, errors);
        validate_outside_spec(object, None, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old_spec) = (object.field("spec"), old.field("spec"));
        let conversion = old_spec.field("conversion");
        let hook = conversion.field("webhook");
        let versions = hook.field("conversionReviewVersions");
        validate_spec(
            &spec,
            versions.is_empty() || has_known_version(&versions),
            errors,
        );
        let (names, old_names) = (spec.field("names"), old_spec.field("names"));
        if is_established(old) {
            checks::immutable(&spec.field("scope"), &old_spec.field("scope"), errors);
            checks::immutable(&names.field("kind"), &old_names.field("kind"), errors);
        }
        checks::immutable(&spec.field("group"), &old_spec.field("group"), errors);
        checks::immutable(&names.field("plural"), &old_names.field("plural"), errors);
        validate_outside_spec(object, Some(old), errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let status = object.field("status");
        validate_names(&status.field("acceptedNames"), errors);
    }
}

/// Adds the storage version to `status.storedVersions`, which keeps every version ever stored until a migration.
fn add_stored_version(object: &mut JsonObject) {
    let stored = fields::objects_mut(object, "spec.versions")
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map(|version| object_edit::text(version, "name").to_owned());
    let Some(stored) = stored else {
        return;
    };
    let mut versions = fields::items(object, "status.storedVersions").to_vec();
    if !versions.contains(&json!(stored)) {
        versions.push(json!(stored));
    }
    object_edit::edit_child(object, &["status"], |status| {
        status.insert("storedVersions".to_owned(), Value::Array(versions));
    });
}

fn is_established(object: &FieldView<'_>) -> bool {
    let status = object.field("status");
    status.field("conditions").items().any(|condition| {
        condition.field("type").str() == "Established" && condition.field("status").str() == "True"
    })
}

fn has_known_version(versions: &FieldView<'_>) -> bool {
    versions
        .items()
        .any(|version| REVIEW_VERSIONS.contains(&version.str()))
}

/// Validates stored versions and API approval. `old` is given on update.
fn validate_outside_spec(
    object: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    errors: &mut ErrorList,
) {
    let (spec, status) = (object.field("spec"), object.field("status"));
    validate_names(&status.field("acceptedNames"), errors);
    validate_stored_versions(
        &status.field("storedVersions"),
        &spec.field("versions"),
        errors,
    );
    validate_approval(object, old, errors);
    let preserve = spec.field("preserveUnknownFields");
    let did_preserve = old.is_some_and(|old| {
        let spec = old.field("spec");
        spec.field("preserveUnknownFields").is_true()
    });
    if preserve.is_true() && !did_preserve {
        preserve.invalid(
            errors,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
             instead",
        );
    }
}

fn validate_stored_versions(
    stored: &FieldView<'_>,
    versions: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    if stored.is_empty() {
        stored.invalid(errors, "must have at least one stored version");
        return;
    }
    for version in versions
        .items()
        .filter(|version| version.field("storage").is_true())
    {
        let name = version.field("name");
        if !stored.items().any(|known| known.str() == name.str()) {
            stored.invalid(
                errors,
                format!("must have the storage version {}", name.str()),
            );
        }
    }
    for known in stored.items() {
        let name = known.str();
        if !versions
            .items()
            .any(|version| version.field("name").str() == name)
        {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and \
                 removes {name} from status.storedVersions"
            );
            checks::invalid_text(&known, errors, detail);
        }
    }
}

/// State of the API approval that a CRD of a protected group (`*.k8s.io`) needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApiApprovalState {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

impl ApiApprovalState {
    fn of_crd(object: &FieldView<'_>) -> ApiApprovalState {
        let metadata = object.field("metadata");
        let annotations = metadata.field("annotations");
        match annotations.key(API_APPROVED_ANNOTATION).str() {
            "" => ApiApprovalState::Missing,
            text if text.starts_with("unapproved") => ApiApprovalState::Bypassed,
            text => match GoUrl::parse(text) {
                Ok(url) if !url.host.is_empty() && !url.scheme.is_empty() => {
                    ApiApprovalState::Approved
                }
                _ => ApiApprovalState::Invalid,
            },
        }
    }
}

fn validate_approval(object: &FieldView<'_>, old: Option<&FieldView<'_>>, errors: &mut ErrorList) {
    let spec = object.field("spec");
    let group = spec.field("group");
    let is_of = |domain: &str| {
        group.str() == domain
            || group
                .str()
                .strip_suffix(domain)
                .is_some_and(|rest| rest.ends_with('.'))
    };
    let approval = ApiApprovalState::of_crd(object);
    if !(is_of("k8s.io") || is_of("kubernetes.io"))
        || old.map(ApiApprovalState::of_crd) == Some(approval)
    {
        return;
    }
    let metadata = object.field("metadata");
    let annotations = metadata.field("annotations");
    let annotation = annotations.key(API_APPROVED_ANNOTATION);
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let must =
        format!("protected groups must have approval annotation \"{API_APPROVED_ANNOTATION}\"");
    match approval {
        ApiApprovalState::Missing => annotation.required(errors, format!("{must}, {see}")),
        ApiApprovalState::Invalid => checks::invalid_text(
            &annotation,
            errors,
            format!("{must} with either a URL or a reason starting with \"unapproved\", {see}"),
        ),
        ApiApprovalState::Bypassed | ApiApprovalState::Approved => {}
    }
}

fn validate_spec(spec: &FieldView<'_>, needs_known_version: bool, errors: &mut ErrorList) {
    let group = spec.field("group");
    let problems = validation::dns1123_subdomain(group.str());
    if group.is_empty() {
        group.required(errors, "");
    } else if !problems.is_empty() {
        checks::invalid_text(&group, errors, problems.join(","));
    } else if !group.str().contains('.') {
        checks::invalid_text(&group, errors, "should be a domain with at least one dot");
    }
    let scope = spec.field("scope");
    if scope.is_empty() {
        scope.required(errors, "");
    } else {
        checks::one_of(&scope, &["Cluster", "Namespaced"], errors);
    }
    versions::validate(&spec.field("versions"), errors);
    let names = spec.field("names");
    for name in ["plural", "singular", "kind", "listKind"] {
        let field = names.field(name);
        if field.is_empty() {
            field.required(errors, "");
        }
    }
    validate_names(&names, errors);
    versions::validate_shared(spec, errors);
    validate_conversion(&spec.field("conversion"), needs_known_version, errors);
}

fn validate_names(names: &FieldView<'_>, errors: &mut ErrorList) {
    let check = |field: &FieldView<'_>, intro: &str, errors: &mut ErrorList| {
        let lowered = field.str().to_lowercase();
        let text = if intro.is_empty() {
            field.str()
        } else {
            &lowered
        };
        let problems = validation::dns1035_label(text);
        if field.exists() && !problems.is_empty() {
            checks::invalid_text(field, errors, format!("{intro}{}", problems.join(",")));
        }
    };
    for name in ["plural", "singular"] {
        let field = names.field(name);
        if !field.is_empty() {
            check(&field, "", errors);
        }
    }
    let mixed = "may have mixed case, but should otherwise match: ";
    for name in ["kind", "listKind"] {
        let field = names.field(name);
        if !field.is_empty() {
            check(&field, mixed, errors);
        }
    }
    for short in names.field("shortNames").items() {
        check(&short, "", errors);
    }
    let (kind, list) = (names.field("kind"), names.field("listKind"));
    if !kind.is_empty() && kind.str() == list.str() {
        checks::invalid_text(&list, errors, "kind and listKind may not be the same");
    }
    for category in names.field("categories").items() {
        check(&category, "", errors);
    }
}

/// Upstream's errors name the webhook fields as its internal type does.
fn validate_conversion(
    conversion: &FieldView<'_>,
    needs_known_version: bool,
    errors: &mut ErrorList,
) {
    if !conversion.exists() {
        return;
    }
    let strategy = conversion.field("strategy");
    if strategy.is_empty() {
        strategy.required(errors, "");
    } else {
        checks::one_of(&strategy, &["None", "Webhook"], errors);
    }
    let hook = conversion.field("webhook");
    let (config, versions) = (
        hook.field("clientConfig"),
        hook.field("conversionReviewVersions"),
    );
    let config = FieldView::at(
        config.value(),
        conversion.path().child("webhookClientConfig"),
    );
    let place = conversion.path().child("conversionReviewVersions");
    let versions = FieldView::at(versions.value(), place);
    if strategy.str() == "Webhook" {
        if config.exists() {
            webhook::validate_client_config(&config, errors);
        } else {
            config.required(errors, "required when strategy is set to Webhook");
        }
        validate_review_versions(&versions, needs_known_version, errors);
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if config.exists() {
        config.forbidden(errors, detail);
    }
    if !versions.is_empty() {
        versions.forbidden(errors, detail);
    }
}

fn validate_review_versions(versions: &FieldView<'_>, needs_known: bool, errors: &mut ErrorList) {
    if versions.is_empty() {
        versions.required(errors, "");
        return;
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        if !seen.insert(version.str().to_owned()) {
            checks::invalid_text(&version, errors, "duplicate version");
            continue;
        }
        for problem in validation::dns1035_label(version.str()) {
            errors.push(Error::invalid(version.path(), version.str(), problem));
        }
    }
    if needs_known && !has_known_version(versions) {
        let detail = format!(
            "must include at least one of {}",
            REVIEW_VERSIONS.join(", ")
        );
        versions.invalid(errors, detail);
    }
}
