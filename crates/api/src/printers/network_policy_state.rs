//! The one-word status of a network policy, from its conditions.

use super::json_view::JsonView;

/// A one-word status and the message of the condition it comes from.
pub(super) struct NetworkPolicyState<'a> {
    pub(super) label: &'static str,
    pub(super) message: &'a str,
}

/// The status by precedence: unsupported, problem, programmed, failed, pending, supported. Implementations may set only
/// some of the conditions.
pub(super) fn state(policy: JsonView<'_>) -> NetworkPolicyState<'_> {
    let conditions = policy.at("status.conditions");
    let current = |kind: &str, status: &str| {
        let condition = conditions.condition(kind)?;
        let is_current = condition.key("status").str() == status && !is_outdated(condition, policy);
        is_current.then_some(condition)
    };
    let words = [
        ("Unsupported", current("Supported", "False")),
        ("Problem", current("Problem", "True")),
        ("Programmed", current("Programmed", "True")),
        ("Failed", current("Programmed", "False")),
        ("Pending", conditions.condition("Programmed")),
        ("Supported", current("Supported", "True")),
    ];
    let mut present = words
        .into_iter()
        .filter_map(|(word, condition)| Some((word, condition?)));
    let (word, condition) = present.next().unwrap_or(("<unknown>", JsonView::Absent));
    NetworkPolicyState {
        label: word,
        message: condition.key("message").str(),
    }
}

/// Whether a condition is about an earlier generation of the policy.
fn is_outdated(condition: JsonView<'_>, policy: JsonView<'_>) -> bool {
    let observed = condition.key("observedGeneration").int();
    observed != 0 && observed < policy.at("metadata.generation").int()
}
