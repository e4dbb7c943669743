//! Roles and bindings as the index holds them.

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

/// The role that a binding is for.
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

/// What of a Role or ClusterRole counts.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) rules: Arc<[PolicyRule]>,
    /// The selectors of the aggregation rule; `None` without one.
    pub(super) aggregates: Option<Vec<Selector>>,
}

/// What of a RoleBinding or ClusterRoleBinding counts.
#[derive(Debug)]
pub(super) struct Binding {
    /// Empty for a ClusterRoleBinding.
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) role: RoleRef,
    pub(super) subjects: Vec<Subject>,
}

/// How the index finds a subject: by user name, which service accounts have too, or by group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SubjectKey {
    User(Arc<str>),
    Group(Arc<str>),
}

impl Binding {
    /// What the binding is found by, each with the place of its first subject.
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

    /// A service account without a namespace is one of the binding's own.
    fn namespace_of<'a>(&'a self, subject: &'a Subject) -> &'a str {
        match subject.namespace.as_str() {
            "" => &self.namespace,
            namespace => namespace,
        }
    }
}

/// The binding that allowed a request, and the subject in it that the user is.
#[derive(Debug, Clone)]
pub struct BindingGrant {
    pub(super) binding: Arc<Binding>,
    pub(super) subject: usize,
}

impl fmt::Display for BindingGrant {
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

/// The parts of a stored object that policy is made of. Serde skips the rest.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StoredRole {
    #[serde(deserialize_with = "null_is_empty")]
    metadata: StoredMeta,
    #[serde(deserialize_with = "null_is_empty")]
    pub(super) rules: Vec<PolicyRule>,
    aggregation_rule: Option<StoredAggregation>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StoredMeta {
    #[serde(deserialize_with = "null_is_empty")]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct StoredAggregation {
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

    pub(super) fn into_role(self) -> Role {
        // A selector that cannot be read picks nothing, as in upstream's controller, which leaves such a role be.
        let selector = |it: &LabelSelector| {
            LabelSelector::to_selector(Some(it)).unwrap_or(Selector::nothing())
        };
        let aggregation = self.aggregation_rule;
        Role {
            labels: self.metadata.labels,
            rules: self.rules.into(),
            aggregates: aggregation
                .map(|it| it.cluster_role_selectors.iter().map(selector).collect()),
        }
    }
}
