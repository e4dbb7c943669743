//! Strategies of roles and role bindings, namespaced and cluster-wide, as in upstream's `pkg/apis/rbac/validation`.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::{LabelSelector, validation};
use serde::{Deserialize, Serialize};

use crate::{FieldView, ResourceStrategy, StrategyContext, checks, selectors};

const GROUP: &str = "rbac.authorization.k8s.io";

#[derive(Debug)]
pub(super) struct RoleStrategy {
    pub(super) is_namespaced: bool,
}

impl ResourceStrategy for RoleStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate(object, selectors::Options::default(), errors);
    }

    /// Aggregation selectors that were stored with invalid label values may keep them.
    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let aggregation = old.field("aggregationRule");
        let chosen = aggregation.field("clusterRoleSelectors");
        let chosen: Vec<FieldView<'_>> = chosen.items().collect();
        let options = checks::selector_validation_options(&chosen);
        self.validate(object, options, errors);
    }
}

impl RoleStrategy {
    fn validate(&self, role: &FieldView<'_>, options: selectors::Options, errors: &mut ErrorList) {
        for rule in role.field("rules").items() {
            validate_rule(&rule, self.is_namespaced, errors);
        }
        let aggregation = role.field("aggregationRule");
        if !aggregation.exists() {
            return;
        }
        let chosen = aggregation.field("clusterRoleSelectors");
        if chosen.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            chosen.required(errors, detail);
        }
        for selector in chosen.items() {
            selectors::validate_label_selector(&selector, options, errors);
            if !can_be_matched(&selector) {
                let shown = BadValue::json(&());
                errors.push(Error::invalid(
                    selector.path(),
                    shown,
                    "invalid label selector.",
                ));
            }
        }
    }
}

fn can_be_matched(selector: &FieldView<'_>) -> bool {
    let read = selector.value().map(LabelSelector::deserialize);
    match read {
        Some(Ok(selector)) => LabelSelector::to_selector(Some(&selector)).is_ok(),
        Some(Err(_)) => false,
        None => true,
    }
}

fn validate_rule(rule: &FieldView<'_>, is_namespaced: bool, errors: &mut ErrorList) {
    let verbs = rule.field("verbs");
    if verbs.is_empty() {
        verbs.required(errors, "verbs must contain at least one value");
    }
    let (groups, resources) = (rule.field("apiGroups"), rule.field("resources"));
    let urls = rule.field("nonResourceURLs");
    if !urls.is_empty() {
        if is_namespaced {
            urls.invalid(errors, "namespaced rules cannot apply to non-resource URLs");
        }
        if ![&groups, &resources, &rule.field("resourceNames")]
            .iter()
            .all(|field| field.is_empty())
        {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            urls.invalid(errors, detail);
        }
        return;
    }
    if groups.is_empty() {
        groups.required(errors, "resource rules must supply at least one api group");
    }
    if resources.is_empty() {
        resources.required(errors, "resource rules must supply at least one resource");
    }
}

#[derive(Debug)]
pub(super) struct RoleBindingStrategy {
    pub(super) is_namespaced: bool,
}

impl ResourceStrategy for RoleBindingStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let role = object.field("roleRef");
        checks::one_of_texts(&role.field("apiGroup"), &[GROUP], errors);
        let kinds: &[&str] = if self.is_namespaced {
            &["Role", "ClusterRole"]
        } else {
            &["ClusterRole"]
        };
        checks::one_of_texts(&role.field("kind"), kinds, errors);
        let name = role.field("name");
        if name.is_empty() {
            name.required(errors, "");
        } else {
            checks::push_problems(&name, validation::path_segment_name(name.str()), errors);
        }
        for subject in object.field("subjects").items() {
            validate_subject(&subject, self.is_namespaced, errors);
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
        let role = object.field("roleRef");
        if !role.same_as(&old.field("roleRef")) {
            let shown = RoleRefBadValue {
                group: role.field("apiGroup").str().to_owned(),
                kind: role.field("kind").str().to_owned(),
                name: role.field("name").str().to_owned(),
            };
            let shown = BadValue::json(&shown);
            errors.push(Error::invalid(role.path(), shown, "cannot change roleRef"));
        }
    }
}

/// `roleRef` as rendered in errors, with upstream's Go field names.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct RoleRefBadValue {
    #[serde(rename = "APIGroup")]
    group: String,
    kind: String,
    name: String,
}

fn validate_subject(subject: &FieldView<'_>, is_namespaced: bool, errors: &mut ErrorList) {
    let (name, group) = (subject.field("name"), subject.field("apiGroup"));
    if name.is_empty() {
        name.required(errors, "");
    }
    let kind = subject.field("kind");
    match kind.str() {
        "ServiceAccount" => {
            if !name.is_empty() {
                checks::push_problems(&name, validation::dns1123_subdomain(name.str()), errors);
            }
            if !group.is_empty() {
                checks::one_of_texts(&group, &[""], errors);
            }
            let namespace = subject.field("namespace");
            if !is_namespaced && namespace.is_empty() {
                namespace.required(errors, "");
            }
        }
        "User" | "Group" => checks::one_of_texts(&group, &[GROUP], errors),
        _ => checks::one_of_texts(&kind, &["ServiceAccount", "User", "Group"], errors),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, check_update, kind};

    const GROUP: &str = super::GROUP;

    #[test]
    fn rules_have_resources_or_non_resource_urls() {
        let check = |name: &str, rule: Value, want: &[&str]| {
            check_create(&kind(GROUP, name), json!({"rules": [rule]}), want);
        };
        check(
            "Role",
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}),
            &[],
        );
        check(
            "ClusterRole",
            json!({"verbs": ["get"], "nonResourceURLs": ["/healthz"]}),
            &[],
        );
        check(
            "Role",
            json!({}),
            &[
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        );
        check(
            "Role",
            json!({"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["pods"]}),
            &[
                concat!(
                    "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: namespaced rules cannot apply to ",
                    "non-resource URLs"
                ),
                concat!(
                    "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular ",
                    "resources and non-resource URLs"
                ),
            ],
        );
    }

    #[test]
    fn role_names_are_path_segments() {
        let named = |name: &str| json!({"metadata": {"name": name}});
        check_create(&kind(GROUP, "ClusterRole"), named("system:node"), &[]);
        let want = "metadata.name: Invalid value: \"a/b\": may not contain '/'";
        check_create(&kind(GROUP, "ClusterRole"), named("a/b"), &[want]);
    }

    #[test]
    fn aggregation_rule_requires_a_selector() {
        let want = concat!(
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if ",
            "aggregationRule is non-nil"
        );
        let role = json!({"aggregationRule": {}});
        check_create(&kind(GROUP, "ClusterRole"), role, &[want]);
    }

    fn binding(kind: &str, subject: Value) -> Value {
        json!({"roleRef": {"apiGroup": GROUP, "kind": kind, "name": "r"}, "subjects": [subject]})
    }

    #[test]
    fn binding_role_and_subjects_are_validated() {
        let user = json!({"kind": "User", "apiGroup": GROUP, "name": "u"});
        check_create(
            &kind(GROUP, "RoleBinding"),
            binding("Role", user.clone()),
            &[],
        );
        let want = "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"";
        check_create(
            &kind(GROUP, "ClusterRoleBinding"),
            binding("Role", user),
            &[want],
        );
        check_create(
            &kind(GROUP, "ClusterRoleBinding"),
            binding(
                "ClusterRole",
                json!({"kind": "ServiceAccount", "apiGroup": "x", "name": "a"}),
            ),
            &[
                "subjects[0].apiGroup: Unsupported value: \"x\": supported values: \"\"",
                "subjects[0].namespace: Required value",
            ],
        );
        check_create(
            &kind(GROUP, "RoleBinding"),
            binding("Role", json!({"kind": "Odd"})),
            &[
                "subjects[0].name: Required value",
                concat!(
                    "subjects[0].kind: Unsupported value: \"Odd\": supported values: \"ServiceAccount\", \"User\", ",
                    "\"Group\""
                ),
            ],
        );
    }

    #[test]
    fn role_ref_is_immutable() {
        let user = json!({"kind": "User", "apiGroup": GROUP, "name": "u"});
        let want = concat!(
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"s\"}: ",
            "cannot change roleRef"
        );
        let patch = json!({"roleRef": {"name": "s"}});
        check_update(
            &kind(GROUP, "RoleBinding"),
            binding("Role", user),
            patch,
            &[want],
        );
    }
}
