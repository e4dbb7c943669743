//! Roles and bindings: the parsed form of the index, and the stored form.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rhumb_meta::LabelSelector;
use rhumb_meta::gotext::quote;
use rhumb_meta::labels::Selector;
use serde::{Deserialize, Serialize};

use super::PolicyRule;
use super::rule::null_is_empty;
use crate::user::ServiceAccountName;

/// One of a binding's `subjects`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Subject {
    #[serde(deserialize_with = "null_is_empty")]
    pub kind: String,
    #[serde(
        deserialize_with = "null_is_empty",
        skip_serializing_if = "String::is_empty"
    )]
    pub api_group: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub name: String,
    #[serde(
        deserialize_with = "null_is_empty",
        skip_serializing_if = "String::is_empty"
    )]
    pub namespace: String,
}

/// A binding's `roleRef`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RoleRef {
    #[serde(deserialize_with = "null_is_empty")]
    pub api_group: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub kind: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub name: String,
}

/// The relevant parts of a Role or ClusterRole.
#[derive(Debug)]
pub(super) struct IndexedRole {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) rules: Arc<[PolicyRule]>,
    /// The selectors of the aggregation rule; `None` if there is no rule.
    pub(super) aggregates: Option<Vec<Selector>>,
}

/// The relevant parts of a RoleBinding or ClusterRoleBinding.
#[derive(Debug)]
pub(super) struct IndexedBinding {
    /// Empty for a ClusterRoleBinding.
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) role: RoleRef,
    pub(super) subjects: Vec<Subject>,
}

/// The index key of a subject: the user name (service accounts have one too) or the group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SubjectKey {
    User(Arc<str>),
    Group(Arc<str>),
}

impl IndexedBinding {
    /// The index keys of the binding, each with the index of its subject.
    pub(super) fn keys(&self) -> Vec<(SubjectKey, usize)> {
        let mut keys: Vec<(SubjectKey, usize)> = Vec::with_capacity(self.subjects.len());
        for (at, subject) in self.subjects.iter().enumerate() {
            keys.extend(self.key(subject).map(|key| (key, at)));
        }
        keys
    }

    fn key(&self, subject: &Subject) -> Option<SubjectKey> {
        match subject.kind.as_str() {
            "User" => Some(SubjectKey::User(subject.name.as_str().into())),
            "Group" => Some(SubjectKey::Group(subject.name.as_str().into())),
            "ServiceAccount" => {
                let namespace = self.namespace_of(subject);
                let name = subject.name.as_str();
                let username = ServiceAccountName { namespace, name }.username();
                (!namespace.is_empty()).then(|| SubjectKey::User(username.into()))
            }
            _ => None,
        }
    }

    /// The namespace of a service account subject; defaults to that of the binding.
    fn namespace_of<'a>(&'a self, subject: &'a Subject) -> &'a str {
        match subject.namespace.as_str() {
            "" => &self.namespace,
            namespace => namespace,
        }
    }
}

/// The binding that allowed a request, and the index of the subject that matches the user.
#[derive(Debug, Clone)]
pub struct AllowingBinding {
    pub(super) binding: Arc<IndexedBinding>,
    pub(super) subject: usize,
}

impl fmt::Display for AllowingBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binding = &*self.binding;
        let role = &binding.role;
        if binding.namespace.is_empty() {
            write!(f, "ClusterRoleBinding {}", quote(&binding.name))?;
        } else {
            let name = format!("{}/{}", binding.name, binding.namespace);
            write!(f, "RoleBinding {}", quote(&name))?;
        }
        write!(f, " of {} {}", role.kind, quote(&role.name))?;
        let Some(subject) = binding.subjects.get(self.subject) else {
            return Ok(());
        };
        let name = match subject.kind.as_str() {
            "ServiceAccount" => format!("{}/{}", subject.name, binding.namespace_of(subject)),
            _ => subject.name.clone(),
        };
        write!(f, " to {} {}", subject.kind, quote(&name))
    }
}

/// The parts of a stored Role or ClusterRole that the policy depends on.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StoredRole {
    #[serde(deserialize_with = "null_is_empty")]
    metadata: StoredRoleMetadata,
    #[serde(deserialize_with = "null_is_empty")]
    pub(super) rules: Vec<PolicyRule>,
    aggregation_rule: Option<StoredAggregationRule>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StoredRoleMetadata {
    #[serde(deserialize_with = "null_is_empty")]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct StoredAggregationRule {
    #[serde(deserialize_with = "null_is_empty")]
    cluster_role_selectors: Vec<LabelSelector>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StoredBinding {
    #[serde(deserialize_with = "null_is_empty")]
    pub(super) subjects: Vec<Subject>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(super) role_ref: RoleRef,
}

impl StoredRole {
    pub(super) fn has_selectors(&self) -> bool {
        let aggregation = self.aggregation_rule.as_ref();
        aggregation.is_some_and(|it| !it.cluster_role_selectors.is_empty())
    }

    pub(super) fn into_role(self) -> IndexedRole {
        // An invalid selector matches nothing. Upstream's aggregation controller does not update such a role.
        let selector = |it: &LabelSelector| {
            LabelSelector::to_selector(Some(it)).unwrap_or(Selector::nothing())
        };
        let aggregation = self.aggregation_rule;
        IndexedRole {
            labels: self.metadata.labels,
            rules: self.rules.into(),
            aggregates: aggregation
                .map(|it| it.cluster_role_selectors.iter().map(selector).collect()),
        }
    }
}
