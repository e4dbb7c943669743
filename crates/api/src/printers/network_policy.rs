//! The state of a network policy in one word.

use super::part::Part;

pub(super) struct State<'a> {
    pub(super) word: &'static str,
    pub(super) message: &'a str,
}

/// What counts most comes first: that it is ignored, that something in it is wrong, that it is in force or not yet.
/// Whoever enforces policies may leave out what they have nothing to say about.
pub(super) fn state(policy: Part<'_>) -> State<'_> {
    let conditions = policy.at("status.conditions");
    let current = |kind: &str, status: &str| {
        let condition = conditions.condition(kind)?;
        let is_so = condition.key("status").str() == status && !is_outdated(condition, policy);
        is_so.then_some(condition)
    };
    let words = [
        ("Unsupported", current("Supported", "False")),
        ("Problem", current("Problem", "True")),
        ("Programmed", current("Programmed", "True")),
        ("Failed", current("Programmed", "False")),
        ("Pending", conditions.condition("Programmed")),
        ("Supported", current("Supported", "True")),
    ];
    let mut said = words
        .into_iter()
        .filter_map(|(word, condition)| Some((word, condition?)));
    let (word, condition) = said.next().unwrap_or(("<unknown>", Part::Absent));
    State {
        word,
        message: condition.key("message").str(),
    }
}

/// Whether a condition is about what the policy said before.
fn is_outdated(condition: Part<'_>, policy: Part<'_>) -> bool {
    let observed = condition.key("observedGeneration").int();
    observed != 0 && observed < policy.at("metadata.generation").int()
}
