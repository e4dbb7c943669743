//! What admission may know of a write to decide who is to see it.

use rhumb_meta::labels::Labels;
use rhumb_meta::{GroupVersionKind, GroupVersionResource, Status};
use serde::Serialize;
use serde_json::Value;

use crate::Object;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub const ALL: [Operation; 4] = [
        Operation::Create,
        Operation::Update,
        Operation::Delete,
        Operation::Connect,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    pub fn named(name: &str) -> Option<Operation> {
        Operation::ALL
            .into_iter()
            .find(|operation| operation.as_str() == name)
    }
}

/// One of the names under which the same objects can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub resource: GroupVersionResource,
    /// What is sent there; for some subresources that is another kind than the resource's own.
    pub kind: GroupVersionKind,
}

/// A write as the rules of webhooks and policies see it.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub operation: Operation,
    /// As the client asked.
    pub asked: &'a Names,
    /// The other names of the same objects.
    pub equivalents: &'a [Names],
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty where nobody knows it yet, and for a collection.
    pub name: &'a str,
    /// Empty outside of namespaces. That of a namespace is its own name.
    pub namespace: &'a str,
}

impl Facts<'_> {
    /// Whether it is about objects that are in a namespace. A namespace is not in itself.
    pub fn is_namespaced(&self) -> bool {
        !self.namespace.is_empty() && !is_namespaces(&self.asked.resource)
    }

    /// Whether it is a namespace that is made or changed: its labels are those that it is to have. Its subresources
    /// leave them as they are.
    pub fn has_namespace_in_object(&self) -> bool {
        is_namespaces(&self.asked.resource)
            && self.subresource.is_empty()
            && matches!(self.operation, Operation::Create | Operation::Update)
    }

    /// No webhook may stand between a cluster and the configuration that could break it.
    pub fn is_exempt_from_webhooks(&self) -> bool {
        let kind = &*self.asked.kind.kind;
        let is_webhooks = matches!(
            kind,
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration"
        );
        self.is_admission() && (is_webhooks || POLICIES.contains(&kind))
    }

    /// Policies may judge webhooks, but not policies, and not the questions that others ask before they do anything.
    pub fn is_exempt_from_policies(&self) -> bool {
        let kind = &*self.asked.kind.kind;
        let group = &*self.asked.kind.group;
        let is_review = matches!(group, "authentication.k8s.io" | "authorization.k8s.io")
            && self.subresource.is_empty();
        is_review || (self.is_admission() && POLICIES.contains(&kind))
    }

    fn is_admission(&self) -> bool {
        self.asked.kind.group == "admissionregistration.k8s.io"
    }
}

const POLICIES: [&str; 4] = [
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

pub(crate) fn is_namespaces(resource: &GroupVersionResource) -> bool {
    resource.group.is_empty() && resource.version == "v1" && resource.resource == "namespaces"
}

/// The labels that selectors look at.
#[derive(Clone, Copy)]
pub struct LabelSets<'a> {
    /// Those of the namespace, or why nobody knows them. Of no meaning for what is outside of namespaces.
    pub namespace: Result<&'a dyn Labels, &'a Status>,
    pub object: Option<&'a dyn Labels>,
    pub old: Option<&'a dyn Labels>,
}

impl std::fmt::Debug for LabelSets<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LabelSets")
            .field("namespace", &self.namespace.is_ok())
            .field("object", &self.object.is_some())
            .field("old", &self.old.is_some())
            .finish()
    }
}

/// The labels of an object, where they are.
#[derive(Debug, Clone, Copy)]
pub struct ObjectLabels<'a>(pub &'a Object);

impl Labels for ObjectLabels<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0
            .get("metadata")?
            .get("labels")?
            .get(key)
            .and_then(Value::as_str)
    }
}
