//! Const constructors for the tables of default roles and bindings.
//!
//! Lists are space-separated words in one string, sorted; `core` is the empty API group.

use serde_json::{Value, json};

use crate::rbac::{GROUP, PolicyRule};

pub(super) const READ: &str = "get list watch";
pub(super) const WRITE: &str = "create delete deletecollection patch update";
pub(super) const READ_WRITE: &str = "create delete deletecollection get list patch update watch";
pub(super) const READ_UPDATE: &str = "get list patch update watch";
pub(super) const EVENTS: RuleDeclaration =
    on("create patch update", "core events.k8s.io", "events");

const AGGREGATE_PREFIX: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// A default Role or ClusterRole.
pub(super) struct RoleDeclaration {
    pub(super) name: &'static str,
    rules: &'static [RuleDeclaration],
    is_aggregated: bool,
    part_of: Option<&'static str>,
}

/// A rule of a default role.
pub(super) struct RuleDeclaration {
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
    urls: &'static str,
}

/// A subject of a default binding.
pub(super) enum SubjectDeclaration {
    User(&'static str),
    Group(&'static str),
    Account(&'static str, &'static str),
}

pub(super) const fn role(name: &'static str, rules: &'static [RuleDeclaration]) -> RoleDeclaration {
    RoleDeclaration {
        name,
        rules,
        is_aggregated: false,
        part_of: None,
    }
}

/// An aggregated role: the union of all roles with the label `aggregate-to-<name>`.
pub(super) const fn aggregated(name: &'static str) -> RoleDeclaration {
    RoleDeclaration {
        is_aggregated: true,
        ..role(name, &[])
    }
}

pub(super) const fn on(
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
) -> RuleDeclaration {
    named(verbs, groups, resources, "")
}

pub(super) const fn named(
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
) -> RuleDeclaration {
    RuleDeclaration {
        verbs,
        groups,
        resources,
        names,
        urls: "",
    }
}

pub(super) const fn at(verbs: &'static str, urls: &'static str) -> RuleDeclaration {
    RuleDeclaration {
        urls,
        ..named(verbs, "", "", "")
    }
}

pub(super) const fn user(name: &'static str) -> SubjectDeclaration {
    SubjectDeclaration::User(name)
}

pub(super) const fn group(name: &'static str) -> SubjectDeclaration {
    SubjectDeclaration::Group(name)
}

pub(super) const fn account(namespace: &'static str, name: &'static str) -> SubjectDeclaration {
    SubjectDeclaration::Account(namespace, name)
}

fn words(text: &str) -> Vec<String> {
    let word = |word: &str| match word {
        "core" => String::new(),
        word => word.to_owned(),
    };
    text.split_whitespace().map(word).collect()
}

impl RuleDeclaration {
    fn policy_rule(&self) -> PolicyRule {
        PolicyRule {
            api_groups: words(self.groups),
            non_resource_urls: words(self.urls),
            resource_names: words(self.names),
            resources: words(self.resources),
            verbs: words(self.verbs),
        }
    }
}

impl RoleDeclaration {
    pub(super) const fn part_of(self, other: &'static str) -> RoleDeclaration {
        RoleDeclaration {
            part_of: Some(other),
            ..self
        }
    }

    /// The label by which another role aggregates this one.
    pub(super) fn label(&self) -> Option<String> {
        self.part_of
            .map(|other| format!("{AGGREGATE_PREFIX}{other}"))
    }

    /// The fields of the object other than its metadata, without the rules of an aggregated role.
    pub(super) fn fields(&self) -> Value {
        let rules: Vec<PolicyRule> = self
            .rules
            .iter()
            .map(RuleDeclaration::policy_rule)
            .collect();
        if !self.is_aggregated {
            return json!({ "rules": rules });
        }
        let label = format!("{AGGREGATE_PREFIX}{}", self.name);
        json!({
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
            "rules": null,
        })
    }
}

impl SubjectDeclaration {
    pub(super) fn value(&self) -> Value {
        match self {
            SubjectDeclaration::User(name) => {
                json!({"apiGroup": GROUP, "kind": "User", "name": name})
            }
            SubjectDeclaration::Group(name) => {
                json!({"apiGroup": GROUP, "kind": "Group", "name": name})
            }
            SubjectDeclaration::Account(namespace, name) => {
                json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
            }
        }
    }
}
