//! Why a webhook or policy would be called or skipped; serialized by `rhumb admission`.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::match_conditions::MatchConditionsResult;
use crate::webhook::FailurePolicy;

/// Whose criteria decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CriteriaOwner {
    Webhook,
    Policy,
    Binding,
}

impl CriteriaOwner {
    const fn as_str(self) -> &'static str {
        match self {
            CriteriaOwner::Webhook => "webhook",
            CriteriaOwner::Policy => "policy",
            CriteriaOwner::Binding => "binding",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all_fields = "camelCase")]
pub enum ParticipantVerdict {
    /// It would be called.
    Called {
        /// The resource as which it matches, if not the requested one.
        #[serde(skip_serializing_if = "Option::is_none")]
        resource: Option<String>,
    },
    /// It would be called, with parameters that decide the result.
    CalledWithParams {
        params: String,
    },
    /// A rule matches, but this exclusion rule excludes the write.
    Excluded {
        by: CriteriaOwner,
        rule: usize,
        /// The exclusion rule in JSON.
        excludes: Value,
    },
    NoRule {
        by: CriteriaOwner,
    },
    OtherNamespace {
        by: CriteriaOwner,
    },
    OtherObject {
        by: CriteriaOwner,
    },
    /// A match condition is false.
    Condition {
        condition: String,
    },
    /// A selector or condition cannot be evaluated, so the request is rejected without a call.
    Rejects {
        error: String,
    },
    /// A selector or condition cannot be evaluated, and the failure policy is `Ignore`.
    Fails {
        error: String,
    },
    /// It has side effects, so a dry run is rejected.
    RefusesDryRun,
    /// Resources that webhooks, or policies, never see.
    Exempt,
    /// A policy without a binding.
    Unbound,
    /// A binding whose policy does not exist.
    NoPolicy,
}

impl ParticipantVerdict {
    /// The verdict that follows from match conditions; `None` if all are true.
    pub(super) fn of_conditions(met: MatchConditionsResult) -> Option<ParticipantVerdict> {
        match met {
            MatchConditionsResult::Matched => None,
            MatchConditionsResult::NotMatched { condition } => {
                Some(ParticipantVerdict::Condition { condition })
            }
            MatchConditionsResult::Error(error) => Some(ParticipantVerdict::Rejects { error }),
            MatchConditionsResult::ErrorIgnored => Some(ParticipantVerdict::Fails {
                error: "a match condition cannot be evaluated".to_owned(),
            }),
        }
    }

    /// The verdict of criteria that cannot be evaluated.
    pub(super) fn of_failed_criteria(error: String, failure: FailurePolicy) -> ParticipantVerdict {
        match failure {
            FailurePolicy::Fail => ParticipantVerdict::Rejects { error },
            FailurePolicy::Ignore => ParticipantVerdict::Fails { error },
        }
    }

    /// Whether the request is rejected before any call.
    pub fn rejects(&self) -> bool {
        matches!(
            self,
            ParticipantVerdict::Rejects { .. } | ParticipantVerdict::RefusesDryRun
        )
    }

    pub fn is_called(&self) -> bool {
        matches!(
            self,
            ParticipantVerdict::Called { .. } | ParticipantVerdict::CalledWithParams { .. }
        )
    }
}

/// One line for text output.
impl fmt::Display for ParticipantVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |by: &CriteriaOwner| match by {
            CriteriaOwner::Binding => " of the binding",
            CriteriaOwner::Webhook | CriteriaOwner::Policy => "",
        };
        match self {
            ParticipantVerdict::Called { resource: None } => f.write_str("called"),
            ParticipantVerdict::Called {
                resource: Some(resource),
            } => write!(f, "called, as {resource}"),
            ParticipantVerdict::CalledWithParams { params } => write!(f, "called, with {params}"),
            ParticipantVerdict::Excluded { by, rule, excludes } => {
                let of = of(by);
                let excludes = one_line(excludes);
                write!(
                    f,
                    "excluded by excludeResourceRules[{rule}]{of}: {excludes}"
                )
            }
            ParticipantVerdict::NoRule { by } => write!(f, "no rule{} matches", of(by)),
            ParticipantVerdict::OtherNamespace { by } => {
                write!(f, "namespaceSelector{} does not match", of(by))
            }
            ParticipantVerdict::OtherObject { by } => {
                write!(f, "objectSelector{} does not match", of(by))
            }
            ParticipantVerdict::Condition { condition } => {
                write!(f, "match condition {condition:?} is false")
            }
            ParticipantVerdict::Rejects { error } => write!(f, "rejects the request: {error}"),
            ParticipantVerdict::Fails { error } => {
                write!(f, "skipped, since failurePolicy is Ignore: {error}")
            }
            ParticipantVerdict::RefusesDryRun => {
                f.write_str("rejects dry runs: it has side effects")
            }
            ParticipantVerdict::Exempt => f.write_str("exempt: never called for this resource"),
            ParticipantVerdict::Unbound => f.write_str("not bound"),
            ParticipantVerdict::NoPolicy => f.write_str("the policy does not exist"),
        }
    }
}

impl fmt::Display for CriteriaOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule in JSON, without its default scope.
fn one_line(rule: &Value) -> String {
    let Value::Object(fields) = rule else {
        return rule.to_string();
    };
    let mut fields = fields.clone();
    fields.retain(|name, value| name != "scope" || value != "*");
    Value::Object(fields).to_string()
}
