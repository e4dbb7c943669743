//! Computes the conditions of a policy from what it selects and what agents report. No I/O.
//!
//! Messages contain no pod counts, because every change of a count would cause a write.

use rhumb_netpol::PolicyFeatureSet;
use rhumb_netpol::policy_summary::PolicySummary;

use super::agent_reports::{AgentCapabilities, AgentReports};

/// Longer messages are truncated.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Number of nodes that a message names; the others are counted.
const NAMED_MAX: usize = 3;

/// The condition types that this controller writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConditionType {
    Supported,
    Problem,
    TargetMatch,
    TrafficMatch,
    Programmed,
}

impl ConditionType {
    pub(super) const ALL: [ConditionType; 5] = [
        ConditionType::Supported,
        ConditionType::Problem,
        ConditionType::TargetMatch,
        ConditionType::TrafficMatch,
        ConditionType::Programmed,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            ConditionType::Supported => "Supported",
            ConditionType::Problem => "Problem",
            ConditionType::TargetMatch => "TargetMatch",
            ConditionType::TrafficMatch => "TrafficMatch",
            ConditionType::Programmed => "Programmed",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    pub(super) fn name(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }
}

/// A condition without timestamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PolicyCondition {
    pub(super) type_: ConditionType,
    pub(super) status: ConditionStatus,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl PolicyCondition {
    fn new(
        type_: ConditionType,
        status: ConditionStatus,
        reason: &'static str,
        message: impl Into<String>,
    ) -> PolicyCondition {
        PolicyCondition {
            type_,
            status,
            reason,
            message: cut(message.into()),
        }
    }
}

/// All reasons that this controller gives in the `Programmed` condition.
pub(super) const PROGRAMMED_REASONS: [&str; 6] = [
    "Applied",
    "NoAgent",
    "NodeProblem",
    "NothingToApply",
    "Pending",
    "Unsupported",
];

/// Inputs of a policy's conditions.
pub(super) struct PolicyStatusInputs<'a> {
    pub(super) summary: &'a PolicySummary,
    pub(super) features: PolicyFeatureSet,
    pub(super) agents: &'a AgentReports,
    /// Whether its status has a `Programmed` condition of this controller.
    pub(super) was_programmed: bool,
}

/// Computes all conditions. Without agents it is unknown whether the policy is supported or applied, so `Supported` and
/// `Programmed` are omitted; only an earlier `Programmed` of this controller is reset.
pub(super) fn compute_conditions(inputs: &PolicyStatusInputs<'_>) -> Vec<PolicyCondition> {
    let mut conditions = vec![
        problem(inputs.summary),
        target_match(inputs.summary),
        traffic_match(inputs.summary),
    ];
    if !inputs.agents.is_empty() {
        let lacking = inputs.lacking();
        conditions.push(programmed(inputs, lacking.is_some()));
        let supported = lacking.or_else(|| unimplemented(inputs));
        conditions.push(supported.unwrap_or_else(|| {
            let message =
                "every agent that it is for, of those that report, knows and has all that it uses";
            PolicyCondition::new(
                ConditionType::Supported,
                ConditionStatus::True,
                "Supported",
                message,
            )
        }));
    } else if inputs.was_programmed {
        let message = "no agent reports from any node";
        conditions.push(PolicyCondition::new(
            ConditionType::Programmed,
            ConditionStatus::Unknown,
            "NoAgent",
            message,
        ));
    }
    conditions.sort_by_key(|condition| condition.type_);
    conditions
}

impl<'a> PolicyStatusInputs<'a> {
    /// Existing nodes with pods that the policy selects. Pods of a deleted node may exist a while longer.
    fn nodes(&self) -> impl Iterator<Item = &'a str> {
        let agents = self.agents;
        let nodes = self.summary.pods_per_node.keys().map(String::as_str);
        nodes.filter(|node| agents.has_node(node))
    }

    /// Agents that determine `Supported` and satisfy the predicate: those on nodes with selected pods; if there are
    /// none, all agents, because any may get such a pod next.
    fn agents_that(
        &self,
        predicate: impl Fn(&AgentCapabilities) -> bool,
    ) -> Vec<(&'a str, &'a AgentCapabilities)> {
        let agents = self.agents;
        let own = self
            .nodes()
            .filter_map(|node| Some((node, agents.capabilities(node)?)));
        let mut own = own.peekable();
        if own.peek().is_some() {
            return own
                .filter(|(_, capabilities)| predicate(capabilities))
                .collect();
        }
        let mut all: Vec<_> = agents.with_capabilities(predicate).collect();
        all.sort_unstable_by_key(|(node, _)| *node);
        all
    }

    /// The `Supported` condition, if some agents do not know the version that the policy needs.
    fn lacking(&self) -> Option<PolicyCondition> {
        let version = &self.summary.min_version;
        let lacking = self.agents_that(|capabilities| !capabilities.versions.contains(version));
        let nodes = lacking.iter().map(|(node, capabilities)| {
            let newest = capabilities.versions.last().map_or("none", String::as_str);
            format!("{node} (newest known: {newest})")
        });
        let nodes = some(nodes)?;
        let message =
            format!("version {version} is not known on {nodes}; the policy is ignored there");
        Some(PolicyCondition::new(
            ConditionType::Supported,
            ConditionStatus::False,
            "Version",
            message,
        ))
    }
}

/// The `Supported` condition, if some nodes lack a feature that the policy uses.
fn unimplemented(inputs: &PolicyStatusInputs<'_>) -> Option<PolicyCondition> {
    let missing = inputs.features.names().filter_map(|feature| {
        let lacking =
            inputs.agents_that(|capabilities| capabilities.unimplemented_reason(feature).is_some());
        let why = lacking
            .first()
            .and_then(|(_, capabilities)| capabilities.unimplemented_reason(feature))?;
        let nodes = some(lacking.iter().map(|(node, _)| (*node).to_owned()))?;
        let why = match why {
            "" => String::new(),
            why => format!(": {why}"),
        };
        Some(format!("{feature} is not available on {nodes}{why}"))
    });
    let missing: Vec<String> = missing.collect();
    (!missing.is_empty()).then(|| {
        PolicyCondition::new(
            ConditionType::Supported,
            ConditionStatus::False,
            "Unimplemented",
            missing.join("; "),
        )
    })
}

fn problem(summary: &PolicySummary) -> PolicyCondition {
    let Some(first) = summary.lint_warnings.first() else {
        let message = "nothing is wrong with the policy itself";
        return PolicyCondition::new(
            ConditionType::Problem,
            ConditionStatus::False,
            "NoProblem",
            message,
        );
    };
    let messages: Vec<&str> = summary
        .lint_warnings
        .iter()
        .map(|warning| warning.message.as_str())
        .collect();
    PolicyCondition::new(
        ConditionType::Problem,
        ConditionStatus::True,
        first.reason,
        messages.join("; "),
    )
}

fn target_match(summary: &PolicySummary) -> PolicyCondition {
    let (status, reason, message) = if summary.has_targets() {
        (
            ConditionStatus::True,
            "PodsSelected",
            "at least one pod is selected by spec.podSelector",
        )
    } else {
        (
            ConditionStatus::False,
            "NoPods",
            "no pod is selected by spec.podSelector",
        )
    };
    PolicyCondition::new(ConditionType::TargetMatch, status, reason, message)
}

/// Whether the rules match at least one pod or IP range, as the KEP defines it. A policy without rules, which denies
/// everything, matches none: `False` with its own reason, to distinguish it from rules without matches.
fn traffic_match(summary: &PolicySummary) -> PolicyCondition {
    let (status, reason, message) = match summary.has_matching_peers {
        Some(true) => (
            ConditionStatus::True,
            "PeersMatched",
            "at least one pod or range of addresses is matched by the rules",
        ),
        Some(false) => (
            ConditionStatus::False,
            "NoPeers",
            "no pod and no range of addresses is matched by the rules",
        ),
        None => (ConditionStatus::False, "NoRules", "no rule allows anything"),
    };
    PolicyCondition::new(ConditionType::TrafficMatch, status, reason, message)
}

fn programmed(inputs: &PolicyStatusInputs<'_>, is_ignored: bool) -> PolicyCondition {
    let condition = |status, reason, message| {
        PolicyCondition::new(ConditionType::Programmed, status, reason, message)
    };
    if is_ignored {
        let message = "there are nodes that do not know the version it needs: see Supported";
        return condition(ConditionStatus::False, "Unsupported", message.to_owned());
    }
    let spread = RolloutProgress::of(inputs);
    if spread.nodes == 0 {
        let message = "no pod of any node is selected";
        return condition(ConditionStatus::True, "NothingToApply", message.to_owned());
    }
    if let Some(problems) = some(spread.problems.into_iter()) {
        return condition(ConditionStatus::False, "NodeProblem", problems);
    }
    let applied = spread.nodes - spread.waiting.len();
    let nodes = match spread.nodes {
        1 => "node",
        _ => "nodes",
    };
    let message = format!("applied on {applied} of {} {nodes}", spread.nodes);
    match some(spread.waiting.into_iter()) {
        Some(waiting) => condition(
            ConditionStatus::Unknown,
            "Pending",
            format!("{message}; waiting for {waiting}"),
        ),
        None => condition(ConditionStatus::True, "Applied", message),
    }
}

/// Rollout of a policy's generation to its nodes.
#[derive(Default)]
struct RolloutProgress {
    /// Number of nodes with selected pods.
    nodes: usize,
    /// Nodes that have not reported the generation as applied.
    waiting: Vec<String>,
    /// Nodes that failed to update their rules, with the reason.
    problems: Vec<String>,
}

impl RolloutProgress {
    fn of(inputs: &PolicyStatusInputs<'_>) -> RolloutProgress {
        let PolicySummary {
            uid, generation, ..
        } = inputs.summary;
        let mut spread = RolloutProgress::default();
        for node in inputs.nodes() {
            spread.nodes += 1;
            let Some(report) = inputs.agents.report(node) else {
                let why = match inputs.agents.is_of_another_boot(node) {
                    true => "its agent has not reported since it was started anew",
                    false => "no agent reports from there",
                };
                spread.waiting.push(format!("{node} ({why})"));
                continue;
            };
            if let Some(problem) = &report.problem {
                spread.problems.push(format!("{node}: {problem}"));
            }
            if report.applied.get(uid.as_str()) != Some(generation) {
                spread.waiting.push(node.to_owned());
            }
        }
        spread
    }
}

/// The first few items, and the number of the others; `None` if there are no items.
fn some(items: impl ExactSizeIterator<Item = String>) -> Option<String> {
    let more = items.len().saturating_sub(NAMED_MAX);
    let named: Vec<String> = items.take(NAMED_MAX).collect();
    match more {
        _ if named.is_empty() => None,
        0 => Some(named.join(", ")),
        more => Some(format!("{} and {more} more", named.join(", "))),
    }
}

/// Truncates a message to its maximum length, marked by an ellipsis.
fn cut(mut message: String) -> String {
    const SIGN: &str = "...";
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX - SIGN.len()));
        message.push_str(SIGN);
    }
    message
}

#[cfg(test)]
mod tests;
