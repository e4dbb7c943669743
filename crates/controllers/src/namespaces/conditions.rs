//! Conditions of a terminating namespace, with upstream's texts (`NamespaceConditionUpdater`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::RemainingObjects;
use crate::Error;
use crate::api_resources::DiscoveredResource;

/// Type, reason and message of each condition when there is nothing to report, in upstream's order.
const CONDITIONS_ON_SUCCESS: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        "NamespaceContentRemaining",
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

/// Outcome of one attempt to delete the contents of a namespace.
#[derive(Debug, Default)]
pub(super) struct ContentDeletionOutcome {
    discovery: Option<String>,
    failures: Vec<String>,
    /// Number of remaining objects, by resource.
    objects: BTreeMap<String, usize>,
    /// Number of remaining objects, by finalizer.
    finalizers: BTreeMap<String, usize>,
    /// Resources with remaining objects.
    pub(super) left: Vec<DiscoveredResource>,
}

impl ContentDeletionOutcome {
    pub(super) fn add_discovery_failure(&mut self, failure: String) {
        self.discovery = Some(failure);
    }

    pub(super) fn add(
        &mut self,
        kind: DiscoveredResource,
        namespace: &str,
        left: Result<RemainingObjects, Error>,
    ) {
        let left = match left {
            Ok(left) => left,
            Err(error) => {
                self.failures.push(error.to_string());
                return;
            }
        };
        if left.objects == 0 {
            return;
        }
        if left.awaited == 0 {
            self.failures.push(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={}",
                kind.api.group, kind.api.version, kind.api.plural
            ));
        }
        // Upstream writes the dot even if the group is empty.
        let resource = format!("{}.{}", kind.api.plural, kind.api.group);
        self.objects.insert(resource, left.objects);
        for (finalizer, count) in left.finalizers {
            *self.finalizers.entry(finalizer).or_default() += count;
        }
        self.left.push(kind);
    }

    /// Whether nothing remains and discovery was complete.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_content() && self.discovery.is_none()
    }

    /// Whether objects of the discovered resources remain, or may remain because a deletion failed.
    pub(super) fn has_content(&self) -> bool {
        !self.objects.is_empty() || !self.failures.is_empty()
    }

    pub(super) fn error(&self) -> Option<Error> {
        let failures = self.discovery.iter().chain(&self.failures);
        let failures: Vec<&str> = failures.map(String::as_str).collect();
        (!failures.is_empty()).then(|| Error::Other(failures.join("; ")))
    }

    /// Updates the namespace's conditions; returns whether any changed.
    pub(super) fn update(&self, namespace: &mut Namespace) -> bool {
        let bad = [
            self.discovery
                .as_ref()
                .map(|error| ("DiscoveryFailed", error.clone())),
            None,
            self.failures_message()
                .map(|message| ("ContentDeletionFailed", message)),
            self.objects_message()
                .map(|message| ("SomeResourcesRemain", message)),
            self.finalizers_message()
                .map(|message| ("SomeFinalizersRemain", message)),
        ];
        let status = namespace.status.get_or_insert_default();
        let conditions = status.conditions.get_or_insert_default();
        let mut has_changed = false;
        for ((type_, reason, message), bad) in CONDITIONS_ON_SUCCESS.into_iter().zip(bad) {
            let (is_bad, reason, message) = match bad {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", reason, message.to_owned()),
            };
            has_changed |= set_condition(conditions, type_, is_bad, reason, message);
        }
        has_changed
    }

    fn failures_message(&self) -> Option<String> {
        let mut failures = self.failures.clone();
        failures.sort();
        (!failures.is_empty()).then(|| {
            format!(
                "Failed to delete all resource types, {} remaining: {}",
                failures.len(),
                failures.join(", ")
            )
        })
    }

    fn objects_message(&self) -> Option<String> {
        let counts = self
            .objects
            .iter()
            .map(|(resource, count)| format!("{resource} has {count} resource instances"));
        join_non_empty(counts).map(|counts| format!("Some resources are remaining: {counts}"))
    }

    fn finalizers_message(&self) -> Option<String> {
        let counts = self
            .finalizers
            .iter()
            .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
        join_non_empty(counts).map(|counts| {
            format!("Some content in the namespace has finalizers remaining: {counts}")
        })
    }
}

fn join_non_empty(parts: impl Iterator<Item = String>) -> Option<String> {
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn set_condition(
    conditions: &mut Vec<NamespaceCondition>,
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
) -> bool {
    let now = || Some(Time(Timestamp::now()));
    let Some(old) = conditions.iter_mut().find(|own| own.type_ == type_) else {
        conditions.push(NamespaceCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: now(),
        });
        return true;
    };
    let is_same = old.status == status
        && old.reason.as_deref() == Some(reason)
        && old.message.as_ref() == Some(&message);
    if is_same {
        return false;
    }
    if old.status != status {
        old.last_transition_time = now();
    }
    old.status = status.to_owned();
    old.reason = Some(reason.to_owned());
    old.message = Some(message);
    true
}
