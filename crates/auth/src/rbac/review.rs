//! The rules of a user in a namespace, for SelfSubjectRulesReview (upstream: `RulesFor` of `RBACAuthorizer`).

use serde::Serialize;

use super::policy::RbacPolicy;
use crate::user::User;

/// The `status` of a SelfSubjectRulesReview.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectRulesReviewStatus {
    pub resource_rules: Vec<ResourceRule>,
    pub non_resource_rules: Vec<NonResourceRule>,
    pub incomplete: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub evaluation_error: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRule {
    pub verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NonResourceRule {
    pub verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

impl RbacPolicy {
    /// All rules that apply to the user in the namespace.
    pub fn rules_status(&self, user: &User, namespace: &str) -> SubjectRulesReviewStatus {
        let (rules, missing) = self.rules_of_user(user, namespace);
        let mut status = SubjectRulesReviewStatus {
            evaluation_error: missing.text(),
            ..SubjectRulesReviewStatus::default()
        };
        for rule in rules {
            if !rule.non_resource_urls.is_empty() {
                status.non_resource_rules.push(NonResourceRule {
                    verbs: rule.verbs.clone(),
                    non_resource_urls: rule.non_resource_urls,
                });
            }
            if !rule.resources.is_empty() {
                status.resource_rules.push(ResourceRule {
                    verbs: rule.verbs,
                    api_groups: rule.api_groups,
                    resources: rule.resources,
                    resource_names: rule.resource_names,
                });
            }
        }
        status
    }
}
