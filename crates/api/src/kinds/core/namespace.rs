//! Declares `Namespace` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;
use serde_json::{Value, json};

use crate::feature_gates::Feature;
use crate::{
    FeatureGates, FieldView, JsonObject, Kind, NameRule, ResourceScope, ResourceStrategy,
    SelectableField, StrategyContext, SubresourceKind, Verb, defaults, fields, metadata,
};

const KUBERNETES_FINALIZER: &str = "kubernetes";

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "",
        "v1",
        "Namespace",
        "namespaces",
        "io.k8s.api.core.v1.Namespace",
    )
    .returns_deleted()
    .storage_precondition_errors()
    .short_names(&["ns"])
    .names(NameRule::DnsLabel)
    .selectable(SELECTABLE)
    .read_fixup(fix_name_label)
    .verbs(&[
        Verb::Create,
        Verb::Delete,
        Verb::Get,
        Verb::List,
        Verb::Patch,
        Verb::Update,
        Verb::Watch,
    ])
    .subresource("finalize", SubresourceKind::Finalize, &[Verb::Update])
    .status()
    .strategy(NamespaceStrategy)
}

const SELECTABLE: &[SelectableField] = &[
    SelectableField::string("status.phase", "status.phase"),
    // Not a path of the object, but clients have relied on it since the first release.
    SelectableField::string("name", "metadata.name"),
];

#[derive(Debug)]
struct NamespaceStrategy;

impl ResourceStrategy for NamespaceStrategy {
    fn apply_defaults(&self, object: &mut JsonObject) {
        fields::set_if_empty(object, "status.phase", "Active");
    }

    fn input_warnings(
        &self,
        object: &FieldView<'_>,
        is_update: bool,
        gates: &FeatureGates,
        warnings: &mut Vec<String>,
    ) {
        if gates.enabled(Feature::NamespaceDefaultLabelName) {
            warnings.extend(name_label_warning(object, is_update));
        }
    }

    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        object.insert("status".to_owned(), json!({"phase": "Active"}));
        add_kubernetes_finalizer(object);
        set_name_label(object, request);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        fields::restore_from(object, old, "spec.finalizers");
        fields::restore_from(object, old, "status");
        set_name_label(object, request);
    }

    /// Holds the deletion until the namespace controller has deleted the contents and removed the finalizers.
    fn hold_deletion(&self, object: &mut JsonObject) -> bool {
        let held = object
            .get("spec")
            .and_then(|spec| spec.get("finalizers"))
            .and_then(Value::as_array)
            .is_some_and(|finalizers| !finalizers.is_empty());
        if held {
            fields::set(object, "status.phase", "Terminating");
        }
        held
    }

    fn prepare_status_update(
        &self,
        object: &mut JsonObject,
        _: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        set_name_label(object, request);
    }

    fn prepare_subresource(
        &self,
        _: &str,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        fields::restore_from(object, old, "status");
        set_name_label(object, request);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let spec = object.field("spec");
        let finalizers = spec.field("finalizers");
        for item in finalizers.items() {
            validate_finalizer(&finalizers, item.str(), errors);
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let is_deleted = object.field("metadata").field("deletionTimestamp").exists();
        let (want, detail) = if is_deleted {
            (
                "Terminating",
                "may only be 'Terminating' if `deletionTimestamp` is not empty",
            )
        } else {
            (
                "Active",
                "may only be 'Active' if `deletionTimestamp` is empty",
            )
        };
        let status = object.field("status");
        let phase = status.field("phase");
        if phase.str() != want {
            // With a capital, as upstream names it.
            let path = status.field("Phase");
            errors.push(Error::invalid(path.path(), phase.str(), detail));
        }
    }

    fn validate_subresource(
        &self,
        _: &str,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let spec = object.field("spec");
        for finalizer in spec.field("finalizers").items() {
            validate_finalizer(&finalizer, finalizer.str(), errors);
        }
    }
}

/// Only on creation: the namespace controller removes it.
fn add_kubernetes_finalizer(namespace: &mut JsonObject) {
    let Some(spec) = fields::object_or_insert(namespace, "spec") else {
        return;
    };
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if finalizers.is_null() {
        *finalizers = json!([]);
    }
    if let Value::Array(names) = finalizers
        && !names.iter().any(|name| name == KUBERNETES_FINALIZER)
    {
        names.push(json!(KUBERNETES_FINALIZER));
    }
}

/// Sets the `kubernetes.io/metadata.name` label when a namespace stored without it, or with another value, is read:
/// a selector that excludes a name must not match a namespace without the label.
fn fix_name_label(namespace: &mut JsonObject, gates: &FeatureGates) -> bool {
    if !gates.enabled(Feature::NamespaceDefaultLabelName) {
        return false;
    }
    let name = fields::text(namespace, "metadata.name");
    let label = namespace
        .get("metadata")
        .and_then(|metadata| metadata.get("labels")?.get(defaults::NAMESPACE_LABEL));
    if label.and_then(Value::as_str) == Some(&*name) {
        return false;
    }
    defaults::label_namespace(namespace);
    true
}

fn set_name_label(namespace: &mut JsonObject, request: &StrategyContext<'_>) {
    if request.gates.enabled(Feature::NamespaceDefaultLabelName) {
        defaults::label_namespace(namespace);
    }
}

/// The warning for an object that lacks the name label or has another value, which the server corrects.
fn name_label_warning(object: &FieldView<'_>, is_update: bool) -> Option<String> {
    let metadata = object.field("metadata");
    let labels = metadata.field("labels");
    let label = labels.key(defaults::NAMESPACE_LABEL);
    if !label.exists() {
        return is_update.then(|| {
            format!(
                "metadata.labels: {} was not removed: every namespace has its name as this label",
                defaults::NAMESPACE_LABEL
            )
        });
    }
    let is_forged = label.str() != metadata.field("name").str();
    is_forged.then(|| {
        format!(
            "metadata.labels: {} was not set to {:?}: the value is always the name of the namespace",
            defaults::NAMESPACE_LABEL,
            label.str()
        )
    })
}

fn validate_finalizer(at: &FieldView<'_>, name: &str, errors: &mut ErrorList) {
    for problem in validation::qualified_name(name) {
        errors.push(Error::invalid(at.path(), name, problem));
    }
    if !metadata::is_known_finalizer(name) {
        errors.push(Error::invalid(at.path(), name, metadata::UNKNOWN_FINALIZER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn namespace() -> Kind {
        testing::kind("", "Namespace")
    }

    #[test]
    fn new_namespace_is_active_with_label_and_finalizer() {
        let (made, errors) = testing::create(
            &namespace(),
            json!({"spec": {"finalizers": ["x/y"]}, "status": {"phase": "Terminating"}}),
            &FeatureGates::default(),
        );
        assert!(errors.is_empty(), "{errors}");
        assert_eq!(made["spec"], json!({"finalizers": ["x/y", "kubernetes"]}));
        assert_eq!(made["status"], json!({"phase": "Active"}));
        let labels = json!({"kubernetes.io/metadata.name": "a"});
        assert_eq!(made["metadata"]["labels"], labels);
    }

    #[test]
    fn name_label_is_omitted_while_the_gate_is_off() {
        let gates = FeatureGates::default().with(Feature::NamespaceDefaultLabelName, false);
        let (made, _) = testing::create(&namespace(), json!({}), &gates);
        assert_eq!(made["metadata"].get("labels"), None);
    }

    #[test]
    fn finalizers_are_standard_or_qualified_names() {
        let want = concat!(
            "spec.finalizers: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully ",
            "qualified"
        );
        let object = json!({"spec": {"finalizers": ["mine"]}});
        testing::check_create(&namespace(), object, &[want]);
    }

    #[test]
    fn update_keeps_finalizers_status_and_label() {
        let old = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let patch = json!({"spec": null, "status": null,
            "metadata": {"labels": {"kubernetes.io/metadata.name": "b", "x": "y"}}});
        let (made, errors) = testing::update(&namespace(), old, patch);
        assert!(errors.is_empty(), "{errors}");
        assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
        assert_eq!(made["status"]["phase"], "Active");
        let labels = json!({"kubernetes.io/metadata.name": "a", "x": "y"});
        assert_eq!(made["metadata"]["labels"], labels);
    }

    #[test]
    fn phase_must_match_the_deletion_timestamp() {
        let patch = json!({"status": {"phase": "Terminating"}});
        let want = "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty";
        testing::check_status(&namespace(), json!({}), patch, &[want]);
        let deleted = json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}});
        let patch = json!({"status": {"phase": "Active"}});
        let want = "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty";
        testing::check_status(&namespace(), deleted, patch, &[want]);
    }
}
