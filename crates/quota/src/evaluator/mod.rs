//! Quota evaluators: compute the usage of objects, one evaluator per resource (upstream: `quota.Evaluator`).

mod object_count;
mod pods;
mod resource_claims;
mod services;
mod volume_claims;

#[cfg(test)]
mod tests;

use rhumb_api::JsonObject;

use crate::{ObjectUsage, ResourceName, ResourceQuantities};

/// Computes the usage of objects of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluator {
    kind: EvaluatorKind,
}

/// How usage is computed, by resource.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EvaluatorKind {
    Pods,
    Services,
    VolumeClaims,
    ResourceClaims,
    /// Each object counts as one, under these names.
    ObjectCount(Vec<ResourceName>),
}

/// Resources that quotas ignore: those that are not stored, and events, as upstream.
const IGNORED_RESOURCES: &[(&str, &str)] = &[
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];

impl Evaluator {
    /// The evaluator of a resource; `None` if quotas ignore the resource.
    pub fn for_resource(group: &str, plural: &str) -> Option<Evaluator> {
        if IGNORED_RESOURCES.contains(&(group, plural)) {
            return None;
        }
        let kind = match (group, plural) {
            ("", "pods") => EvaluatorKind::Pods,
            ("", "services") => EvaluatorKind::Services,
            ("", "persistentvolumeclaims") => EvaluatorKind::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => EvaluatorKind::ResourceClaims,
            _ => EvaluatorKind::ObjectCount(object_count::names(group, plural)),
        };
        Some(Evaluator { kind })
    }

    pub(crate) fn is_for_pods(&self) -> bool {
        self.kind == EvaluatorKind::Pods
    }

    pub(crate) fn is_for_resource_claims(&self) -> bool {
        self.kind == EvaluatorKind::ResourceClaims
    }

    /// Whether this evaluator computes usage for a resource name (upstream: `MatchingResources`).
    pub fn covers(&self, name: &str) -> bool {
        match &self.kind {
            EvaluatorKind::Pods => pods::covers(name),
            EvaluatorKind::Services => services::covers(name),
            EvaluatorKind::VolumeClaims => volume_claims::covers(name),
            EvaluatorKind::ResourceClaims => resource_claims::covers(name),
            EvaluatorKind::ObjectCount(names) => names.iter().any(|count| count == name),
        }
    }

    /// Whether the usage for a resource name depends on device classes
    /// ([`NamespaceUsage::set_device_classes`](crate::NamespaceUsage::set_device_classes)).
    pub fn uses_device_classes(&self, name: &str) -> bool {
        self.is_for_resource_claims() && pods::is_extended_resource_request(name)
    }

    /// The usage of an object. Objects that do not match the schema, which decoding rejects earlier, count as empty
    /// ones.
    pub fn usage(&self, object: &JsonObject) -> ObjectUsage {
        match &self.kind {
            EvaluatorKind::Pods => pods::usage(object),
            EvaluatorKind::Services => services::usage(object),
            EvaluatorKind::VolumeClaims => volume_claims::usage(object),
            EvaluatorKind::ResourceClaims => resource_claims::usage(object),
            EvaluatorKind::ObjectCount(names) => object_count::usage(names),
        }
    }

    /// The usage of an object in JSON, without building a tree.
    pub fn usage_from_json(&self, json: &[u8]) -> Result<ObjectUsage, serde_json::Error> {
        match &self.kind {
            EvaluatorKind::Pods => pods::usage_from_json(json),
            EvaluatorKind::Services => services::usage_from_json(json),
            EvaluatorKind::VolumeClaims => volume_claims::usage_from_json(json),
            EvaluatorKind::ResourceClaims => resource_claims::usage_from_json(json),
            EvaluatorKind::ObjectCount(names) => Ok(object_count::usage(names)),
        }
    }

    /// The error message if the object does not specify one of the required resources (upstream: `Constraints`).
    pub fn missing_constraints(
        &self,
        required: &ResourceQuantities,
        object: &JsonObject,
    ) -> Option<String> {
        match &self.kind {
            EvaluatorKind::Pods => pods::missing_constraints(required, object),
            _ => None,
        }
    }

    /// Whether an update of an object or its subresource may increase its usage (upstream: `Handles`).
    pub fn handles_update(&self, subresource: &str, old: &JsonObject, new: &JsonObject) -> bool {
        match (&self.kind, subresource) {
            (EvaluatorKind::Pods, _) => pods::handles_update(subresource, old, new),
            (EvaluatorKind::VolumeClaims, "status") => {
                volume_claims::handles_status_update(old, new)
            }
            (
                EvaluatorKind::Services
                | EvaluatorKind::VolumeClaims
                | EvaluatorKind::ResourceClaims,
                "",
            ) => true,
            _ => false,
        }
    }
}
