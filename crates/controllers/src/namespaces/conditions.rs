//! What became of the contents of a namespace, as its conditions tell it. The words are upstream's.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::Left;
use crate::Error;
use crate::resources::Kind;

/// The conditions in their order, with what they say when all is well: type, reason, message.
const WELL: [(&str, &str, &str); 5] = [
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

/// What one look at the contents found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    discovery: Option<String>,
    failures: Vec<String>,
    /// How many objects are left, by resource.
    objects: BTreeMap<String, usize>,
    /// How many objects each finalizer holds.
    finalizers: BTreeMap<String, usize>,
    /// The kinds of these objects.
    pub(super) left: Vec<Kind>,
}

impl Findings {
    pub(super) fn undiscovered(&mut self, failure: String) {
        self.discovery = Some(failure);
    }

    pub(super) fn add(&mut self, kind: Kind, namespace: &str, left: Result<Left, Error>) {
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
        // Upstream's form has the dot also when the group is empty.
        let resource = format!("{}.{}", kind.api.plural, kind.api.group);
        self.objects.insert(resource, left.objects);
        for (finalizer, count) in left.finalizers {
            *self.finalizers.entry(finalizer).or_default() += count;
        }
        self.left.push(kind);
    }

    /// Whether nothing is left, and all could be seen.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_content() && self.discovery.is_none()
    }

    /// Whether something is left, or may be, of the kinds that could be seen.
    pub(super) fn has_content(&self) -> bool {
        !self.objects.is_empty() || !self.failures.is_empty()
    }

    pub(super) fn error(&self) -> Option<Error> {
        let failures = self.discovery.iter().chain(&self.failures);
        let failures: Vec<&str> = failures.map(String::as_str).collect();
        (!failures.is_empty()).then(|| Error::Other(failures.join("; ")))
    }

    /// Brings the conditions up to date; tells whether any changed.
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
        for ((type_, reason, message), bad) in WELL.into_iter().zip(bad) {
            let (is_bad, reason, message) = match bad {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", reason, message.to_owned()),
            };
            has_changed |= set(conditions, type_, is_bad, reason, message);
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
        joined(counts).map(|counts| format!("Some resources are remaining: {counts}"))
    }

    fn finalizers_message(&self) -> Option<String> {
        let counts = self
            .finalizers
            .iter()
            .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
        joined(counts).map(|counts| {
            format!("Some content in the namespace has finalizers remaining: {counts}")
        })
    }
}

fn joined(parts: impl Iterator<Item = String>) -> Option<String> {
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn set(
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
