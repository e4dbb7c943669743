//! The words in which the first policy is written down.
//!
//! Lists are words in one string, in the order of the alphabet; `core` is the group without a name.

use serde_json::{Value, json};

use crate::rbac::{GROUP, PolicyRule};

pub(super) const READ: &str = "get list watch";
pub(super) const WRITE: &str = "create delete deletecollection patch update";
pub(super) const READ_WRITE: &str = "create delete deletecollection get list patch update watch";
pub(super) const READ_UPDATE: &str = "get list patch update watch";
pub(super) const EVENTS: Rule = on("create patch update", "core events.k8s.io", "events");

const AGGREGATE_PREFIX: &str = "rbac.authorization.k8s.io/aggregate-to-";

pub(super) struct Role {
    pub(super) name: &'static str,
    rules: &'static [Rule],
    is_aggregated: bool,
    part_of: Option<&'static str>,
}

pub(super) struct Rule {
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
    urls: &'static str,
}

pub(super) enum Subject {
    User(&'static str),
    Group(&'static str),
    Account(&'static str, &'static str),
}

pub(super) const fn role(name: &'static str, rules: &'static [Rule]) -> Role {
    Role {
        name,
        rules,
        is_aggregated: false,
        part_of: None,
    }
}

/// A role that is the union of all roles that are part of it.
pub(super) const fn aggregated(name: &'static str) -> Role {
    Role {
        is_aggregated: true,
        ..role(name, &[])
    }
}

pub(super) const fn on(verbs: &'static str, groups: &'static str, resources: &'static str) -> Rule {
    named(verbs, groups, resources, "")
}

pub(super) const fn named(
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
) -> Rule {
    Rule {
        verbs,
        groups,
        resources,
        names,
        urls: "",
    }
}

pub(super) const fn at(verbs: &'static str, urls: &'static str) -> Rule {
    Rule {
        urls,
        ..named(verbs, "", "", "")
    }
}

pub(super) const fn user(name: &'static str) -> Subject {
    Subject::User(name)
}

pub(super) const fn group(name: &'static str) -> Subject {
    Subject::Group(name)
}

pub(super) const fn account(namespace: &'static str, name: &'static str) -> Subject {
    Subject::Account(namespace, name)
}

fn words(text: &str) -> Vec<String> {
    let word = |word: &str| match word {
        "core" => String::new(),
        word => word.to_owned(),
    };
    text.split_whitespace().map(word).collect()
}

impl Rule {
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

impl Role {
    pub(super) const fn part_of(self, other: &'static str) -> Role {
        Role {
            part_of: Some(other),
            ..self
        }
    }

    /// The label that makes this role a part of another.
    pub(super) fn label(&self) -> Option<String> {
        self.part_of
            .map(|other| format!("{AGGREGATE_PREFIX}{other}"))
    }

    /// What the object has beside its metadata.
    pub(super) fn fields(&self) -> Value {
        let rules: Vec<PolicyRule> = self.rules.iter().map(Rule::policy_rule).collect();
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

impl Subject {
    pub(super) fn value(&self) -> Value {
        match self {
            Subject::User(name) => json!({"apiGroup": GROUP, "kind": "User", "name": name}),
            Subject::Group(name) => json!({"apiGroup": GROUP, "kind": "Group", "name": name}),
            Subject::Account(namespace, name) => {
                json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
            }
        }
    }
}
