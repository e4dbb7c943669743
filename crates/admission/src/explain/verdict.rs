//! Why somebody would be asked or not.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::conditions::Met;

/// Whose rules and selectors decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    Webhook,
    Policy,
    Binding,
}

impl Part {
    const fn as_str(self) -> &'static str {
        match self {
            Part::Webhook => "webhook",
            Part::Policy => "policy",
            Part::Binding => "binding",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all_fields = "camelCase")]
pub enum Verdict {
    /// It would be asked.
    Called {
        /// Under which name, if not under the one that was asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        resource: Option<String>,
    },
    /// It would be asked, with parameters that decide what it says.
    CalledWithParams {
        params: String,
    },
    /// A rule is about the write, and this exclusion rule leaves it out.
    Excluded {
        by: Part,
        rule: usize,
        /// The rule as it is written.
        excludes: Value,
    },
    NoRule {
        by: Part,
    },
    OtherNamespace {
        by: Part,
    },
    OtherObject {
        by: Part,
    },
    /// A match condition does not hold.
    Condition {
        condition: String,
    },
    /// Selectors or conditions cannot be evaluated: the failure policy decides.
    Fails {
        error: String,
    },
    /// It has side effects, so that a dry run is refused.
    RefusesDryRun,
    /// What nobody of this kind may judge.
    Exempt,
    /// A policy without a binding.
    Unbound,
    /// A binding whose policy is not there.
    NoPolicy,
}

impl Verdict {
    /// What follows from conditions; `None` if all hold.
    pub(super) fn of_conditions(met: Met) -> Option<Verdict> {
        match met {
            Met::Yes => None,
            Met::No { condition } => Some(Verdict::Condition { condition }),
            Met::Failed(error) => Some(Verdict::Fails { error }),
            Met::Ignored => Some(Verdict::Fails {
                error: "a match condition cannot be evaluated".to_owned(),
            }),
        }
    }

    pub fn is_called(&self) -> bool {
        matches!(
            self,
            Verdict::Called { .. } | Verdict::CalledWithParams { .. }
        )
    }
}

/// For people, in one line.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |by: &Part| match by {
            Part::Binding => " of the binding",
            Part::Webhook | Part::Policy => "",
        };
        match self {
            Verdict::Called { resource: None } => f.write_str("called"),
            Verdict::Called {
                resource: Some(resource),
            } => write!(f, "called, as {resource}"),
            Verdict::CalledWithParams { params } => write!(f, "called, with {params}"),
            Verdict::Excluded { by, rule, excludes } => {
                let of = of(by);
                let excludes = one_line(excludes);
                write!(
                    f,
                    "excluded by excludeResourceRules[{rule}]{of}: {excludes}"
                )
            }
            Verdict::NoRule { by } => write!(f, "no rule{} matches", of(by)),
            Verdict::OtherNamespace { by } => {
                write!(f, "namespaceSelector{} does not match", of(by))
            }
            Verdict::OtherObject { by } => write!(f, "objectSelector{} does not match", of(by)),
            Verdict::Condition { condition } => {
                write!(f, "match condition {condition:?} is false")
            }
            Verdict::Fails { error } => write!(f, "fails: {error}"),
            Verdict::RefusesDryRun => f.write_str("refuses dry runs: it has side effects"),
            Verdict::Exempt => f.write_str("exempt: never judged"),
            Verdict::Unbound => f.write_str("not bound"),
            Verdict::NoPolicy => f.write_str("the policy does not exist"),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule without what every rule has.
fn one_line(rule: &Value) -> String {
    let Value::Object(fields) = rule else {
        return rule.to_string();
    };
    let mut fields = fields.clone();
    fields.retain(|name, value| name != "scope" || value != "*");
    Value::Object(fields).to_string()
}
