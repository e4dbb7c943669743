//! The attributes of a request that the rules of webhooks and policies match on (a part of upstream's `admission.Attributes`).

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

    pub fn from_name(name: &str) -> Option<Operation> {
        Operation::ALL
            .into_iter()
            .find(|operation| operation.as_str() == name)
    }
}

/// A resource and the kind of its objects; one of the equivalent group-versions that serve the same objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceAndKind {
    pub resource: GroupVersionResource,
    /// The kind of the request body; for some subresources it differs from the resource's own.
    pub kind: GroupVersionKind,
}

/// A request as the rules of webhooks and policies see it.
#[derive(Debug, Clone, Copy)]
pub struct MatchAttributes<'a> {
    pub operation: Operation,
    /// The resource and kind that the client requested.
    pub requested: &'a ResourceAndKind,
    /// The other group-versions of the same objects.
    pub equivalents: &'a [ResourceAndKind],
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// Empty if not known yet (`generateName`), and for a collection.
    pub name: &'a str,
    /// Empty for cluster-scoped resources; for a namespace, its own name.
    pub namespace: &'a str,
}

impl MatchAttributes<'_> {
    /// Whether the resource is namespaced. A namespace is not in itself.
    pub fn is_namespaced(&self) -> bool {
        !self.namespace.is_empty() && !is_namespaces_resource(&self.requested.resource)
    }

    /// Whether the request creates or updates a namespace: its labels are then those of the new object. Subresources do
    /// not change the labels.
    pub fn is_namespace_write(&self) -> bool {
        is_namespaces_resource(&self.requested.resource)
            && self.subresource.is_empty()
            && matches!(self.operation, Operation::Create | Operation::Update)
    }

    /// Webhooks never see admission configurations: a broken webhook must not prevent its own removal.
    pub fn is_exempt_from_webhooks(&self) -> bool {
        let kind = &*self.requested.kind.kind;
        let is_webhooks = matches!(
            kind,
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration"
        );
        self.is_admissionregistration() && (is_webhooks || POLICY_KINDS.contains(&kind))
    }

    /// Policies see webhook configurations, but neither policies nor authentication and authorization reviews.
    pub fn is_exempt_from_policies(&self) -> bool {
        let kind = &*self.requested.kind.kind;
        let group = &*self.requested.kind.group;
        let is_review = matches!(group, "authentication.k8s.io" | "authorization.k8s.io")
            && self.subresource.is_empty();
        is_review || (self.is_admissionregistration() && POLICY_KINDS.contains(&kind))
    }

    fn is_admissionregistration(&self) -> bool {
        self.requested.kind.group == "admissionregistration.k8s.io"
    }
}

const POLICY_KINDS: [&str; 4] = [
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

pub(crate) fn is_namespaces_resource(resource: &GroupVersionResource) -> bool {
    resource.group.is_empty() && resource.version == "v1" && resource.resource == "namespaces"
}

/// The labels that selectors are matched against.
#[derive(Clone, Copy)]
pub struct SelectorLabels<'a> {
    /// The labels of the namespace, or the error of looking them up. Unused for cluster-scoped objects.
    pub namespace: Result<&'a dyn Labels, &'a Status>,
    pub object: Option<&'a dyn Labels>,
    pub old_object: Option<&'a dyn Labels>,
}

impl std::fmt::Debug for SelectorLabels<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SelectorLabels")
            .field("namespace", &self.namespace.is_ok())
            .field("object", &self.object.is_some())
            .field("old", &self.old_object.is_some())
            .finish()
    }
}

/// The labels of an object, read in place.
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
