//! Namespace.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;
use serde_json::{Value, json};

use crate::gates::Feature;
use crate::{
    Gates, Kind, NameRule, Object, Request, Rules, Scope, Selectable, Selected, SubresourceKind,
    Verb, View, defaults, fields, metadata,
};

const KUBERNETES: &str = "kubernetes";

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "",
        "v1",
        "Namespace",
        "namespaces",
        "io.k8s.api.core.v1.Namespace",
    )
    .returns_deleted()
    .short(&["ns"])
    .names(NameRule::DnsLabel)
    .selectable(SELECTABLE)
    .mend(mend)
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
    .rules(NamespaceRules)
}

const SELECTABLE: &[Selectable] = &[
    Selectable {
        name: "status.phase",
        value: Selected::Text("status.phase"),
    },
    // Not a path of the object, but clients have relied on it since the first release.
    Selectable {
        name: "name",
        value: Selected::Text("metadata.name"),
    },
];

#[derive(Debug)]
struct NamespaceRules;

impl Rules for NamespaceRules {
    fn default(&self, object: &mut Object) {
        fields::fill(object, "status.phase", "Active");
    }

    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        object.insert("status".to_owned(), json!({"phase": "Active"}));
        add_kubernetes_finalizer(object);
        label_with_name(object, request);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        fields::keep(object, old, "spec.finalizers");
        fields::keep(object, old, "status");
        label_with_name(object, request);
    }

    /// A namespace stays until its contents are gone: whoever sees to that takes the finalizers away.
    fn hold_deletion(&self, object: &mut Object) -> bool {
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

    fn prepare_status_update(&self, object: &mut Object, _: &Object, request: &Request<'_>) {
        label_with_name(object, request);
    }

    fn prepare_subresource(
        &self,
        _: &str,
        object: &mut Object,
        old: &Object,
        request: &Request<'_>,
    ) {
        fields::keep(object, old, "status");
        label_with_name(object, request);
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        let spec = object.field("spec");
        let finalizers = spec.field("finalizers");
        for item in finalizers.items() {
            validate_finalizer(&finalizers, item.str(), errors);
        }
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        _: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        _: &View<'_>,
        _: &Request<'_>,
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
        object: &View<'_>,
        _: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let spec = object.field("spec");
        for finalizer in spec.field("finalizers").items() {
            validate_finalizer(&finalizer, finalizer.str(), errors);
        }
    }
}

/// On creation only: the namespace controller takes it away in the end.
fn add_kubernetes_finalizer(namespace: &mut Object) {
    let Some(spec) = fields::object_at(namespace, "spec") else {
        return;
    };
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if finalizers.is_null() {
        *finalizers = json!([]);
    }
    if let Value::Array(names) = finalizers
        && !names.iter().any(|name| name == KUBERNETES)
    {
        names.push(json!(KUBERNETES));
    }
}

/// A namespace that was stored without its name as a label, or with another, has it for every reader: a selector
/// that excludes a name must not find a namespace without one.
fn mend(namespace: &mut Object, gates: &Gates) -> bool {
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

fn label_with_name(namespace: &mut Object, request: &Request<'_>) {
    if request.gates.enabled(Feature::NamespaceDefaultLabelName) {
        defaults::label_namespace(namespace);
    }
}

fn validate_finalizer(at: &View<'_>, name: &str, errors: &mut ErrorList) {
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
    fn a_new_namespace_is_active_labelled_and_held() {
        let (made, errors) = testing::create(
            &namespace(),
            json!({"spec": {"finalizers": ["x/y"]}, "status": {"phase": "Terminating"}}),
            &Gates::default(),
        );
        assert!(errors.is_empty(), "{errors}");
        assert_eq!(made["spec"], json!({"finalizers": ["x/y", "kubernetes"]}));
        assert_eq!(made["status"], json!({"phase": "Active"}));
        let labels = json!({"kubernetes.io/metadata.name": "a"});
        assert_eq!(made["metadata"]["labels"], labels);
    }

    #[test]
    fn the_label_can_be_turned_off() {
        let gates = Gates::default().with(Feature::NamespaceDefaultLabelName, false);
        let (made, _) = testing::create(&namespace(), json!({}), &gates);
        assert_eq!(made["metadata"].get("labels"), None);
    }

    #[test]
    fn finalizers_are_standard_or_qualified() {
        let want = concat!(
            "spec.finalizers: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully ",
            "qualified"
        );
        let object = json!({"spec": {"finalizers": ["mine"]}});
        testing::check_create(&namespace(), object, &[want]);
    }

    #[test]
    fn an_update_keeps_finalizers_status_and_label() {
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
    fn the_phase_follows_the_deletion() {
        let patch = json!({"status": {"phase": "Terminating"}});
        let want = "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty";
        testing::check_status(&namespace(), json!({}), patch, &[want]);
        let deleted = json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}});
        let patch = json!({"status": {"phase": "Active"}});
        let want = "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty";
        testing::check_status(&namespace(), deleted, patch, &[want]);
    }
}
