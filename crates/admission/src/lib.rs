//! Admission webhooks and policies: parses their configurations, decides which of them match a request, evaluates their
//! expressions, and encodes and decodes `AdmissionReview`.
//!
//! The crate is pure: it makes no calls and reads neither caches nor the clock, except for deadlines. The API server
//! describes a request ([`MatchAttributes`]) and passes the labels that selectors need ([`SelectorLabels`]);
//! [`MatchCriteria`] decides whether a webhook or policy matches, and as which resource and kind. [`review`] holds the
//! webhook protocol, [`explain`] the dry evaluation for `rhumb admission`, [`critical_resources`] the warnings about
//! risky webhooks, [`compile`] the translation of exclusion rules into match conditions for other servers. Upstream
//! counterpart: `k8s.io/apiserver/pkg/admission/plugin/{webhook,policy}`.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod compile;
mod configuration;
pub mod critical_resources;
mod exclusion_rule;
mod exclusion_warnings;
pub mod explain;
mod match_attributes;
mod match_conditions;
mod match_criteria;
#[cfg(test)]
mod match_criteria_oracle;
mod policy;
pub mod review;
mod rule;
#[cfg(test)]
mod tests;
mod webhook;

pub use configuration::{PluginConfigSource, plugin_configuration};
pub use exclusion_rule::ExclusionRule;
pub use exclusion_warnings::ExclusionRuleCheck;
pub use match_attributes::{
    MatchAttributes, ObjectLabels, Operation, ResourceAndKind, SelectorLabels,
};
pub use match_conditions::{MatchConditions, MatchConditionsEvaluation, MatchConditionsResult};
pub use match_criteria::{CriteriaFeatures, MatchCriteria, MatchOutcome};
pub use policy::{
    CommonPolicySpec, EvaluatedMutation, MutatingPolicy, ParamKind, ParamRef, ParamSelection,
    PolicyAuditAnnotation, PolicyBinding, PolicyDecision, PolicyType, PolicyValidationResult,
    SchemaResolver, ValidatingPolicy, expression_warnings,
};
pub use rule::RuleWithOperations;
pub use webhook::{
    FailurePolicy, ServiceReference, SideEffects, Webhook, WebhookAddress, WebhookType,
    parse_webhooks,
};

/// A JSON object.
pub type Object = serde_json::Map<String, serde_json::Value>;
