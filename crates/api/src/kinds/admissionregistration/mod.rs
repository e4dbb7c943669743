//! Built-in kinds of API group `admissionregistration.k8s.io`, one module each.

mod admission_policies;
mod exclude_rules;
#[cfg(test)]
mod exclude_rules_tests;
mod matching;
mod mutating_admission_policy;
mod mutating_admission_policy_binding;
mod mutating_webhook_configuration;
mod policy_expressions;
#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod tests;
mod validating_admission_policy;
mod validating_admission_policy_binding;
mod validating_webhook_configuration;
mod webhooks;

use crate::Kind;

pub use exclude_rules::exclusion_rule_problems;

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        mutating_admission_policy::kind(),
        mutating_admission_policy_binding::kind(),
        mutating_webhook_configuration::kind(),
        validating_admission_policy::kind(),
        validating_admission_policy_binding::kind(),
        validating_webhook_configuration::kind(),
    ]
}
