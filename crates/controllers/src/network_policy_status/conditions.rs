//! Computes the conditions of a policy from what it selects and what agents report. No I/O.
//!
//! Messages contain no pod counts, because every change of a count would cause a write.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_netpol::PolicyFeatureSet;
use rhumb_netpol::lint::LINT_REASONS;
use rhumb_netpol::node_enforcement::{APPLIED, EnforcementGap, NOTHING_TO_APPLY, enforcement_gap};
use rhumb_netpol::policy_summary::PolicySummary;

use super::agent_reports::{AgentCapabilities, AgentReports};
use super::heartbeats::AgentHeartbeats;

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

    /// Whether this controller gives the reason in a condition of this type. Conditions with other reasons belong to
    /// other implementations.
    pub(super) fn has_reason(self, reason: &str) -> bool {
        let own: &[&str] = match self {
            ConditionType::Supported => &["Supported", "Unimplemented", "Version"],
            ConditionType::Problem => {
                return LINT_REASONS.contains(&reason)
                    || [NO_PROBLEM, REPORTED_PROBLEM].contains(&reason);
            }
            ConditionType::TargetMatch => &["NoPods", "PodsSelected"],
            ConditionType::TrafficMatch => &["NoPeers", "NoRules", "PeersMatched"],
            ConditionType::Programmed => &[
                APPLIED,
                "NoAgent",
                NO_HEARTBEAT,
                "NodeProblem",
                NOTHING_TO_APPLY,
                PENDING,
                "Unsupported",
            ],
        };
        own.contains(&reason)
    }
}

const NO_PROBLEM: &str = "NoProblem";
/// The policy has only problems that agents report, each with a reason of its own.
const REPORTED_PROBLEM: &str = "ReportedByAgents";
const NO_HEARTBEAT: &str = "NoHeartbeat";
/// Agents have yet to apply the policy.
pub(super) const PENDING: &str = "Pending";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    pub(super) const ALL: [ConditionStatus; 3] = [
        ConditionStatus::True,
        ConditionStatus::False,
        ConditionStatus::Unknown,
    ];

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
            message: truncated(message.into()),
        }
    }
}

/// Inputs of a policy's conditions.
pub(super) struct PolicyStatusInputs<'a> {
    pub(super) summary: &'a PolicySummary,
    pub(super) features: PolicyFeatureSet,
    pub(super) agents: &'a AgentReports,
    pub(super) heartbeats: &'a AgentHeartbeats,
    /// Nodes with selected pods that their agents have not observed.
    pub(super) uncovered_nodes: &'a BTreeSet<String>,
    pub(super) stored: StoredProgrammedStatus,
}

/// The `Programmed` condition in the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredProgrammedStatus {
    /// There is none, or it belongs to another implementation.
    NotOurs,
    NotTrue,
    /// It is true for the current generation.
    True,
}

/// Computes all conditions. Without agents it is unknown whether the policy is supported or applied, so `Supported` and
/// `Programmed` are omitted; only an earlier `Programmed` of this controller is reset.
pub(super) fn compute_conditions(inputs: &PolicyStatusInputs<'_>) -> Vec<PolicyCondition> {
    let mut conditions = vec![
        problem(inputs),
        target_match(inputs),
        traffic_match(inputs.summary),
    ];
    if !inputs.agents.is_empty() {
        let lacking = inputs.lacking();
        conditions.push(programmed(inputs, lacking.is_some()));
        let supported = lacking.or_else(|| unimplemented(inputs));
        conditions.push(supported.unwrap_or_else(|| {
            let message =
                "all agents that report and have to enforce it support its version and its features";
            PolicyCondition::new(
                ConditionType::Supported,
                ConditionStatus::True,
                "Supported",
                message,
            )
        }));
    } else if inputs.stored != StoredProgrammedStatus::NotOurs {
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

    /// Whether the policy selects a pod that is not scheduled yet, or is on a node that exists.
    fn has_targets(&self) -> bool {
        self.summary.unscheduled_pods > 0 || self.nodes().next().is_some()
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

    /// Why the policy does not count as enforced on a node.
    fn enforcement_gap(&self, node: &str) -> Option<EnforcementGap<'a>> {
        let report = self.agents.policy_report(
            node,
            &self.summary.uid,
            self.heartbeats.liveness(node),
            self.uncovered_nodes.contains(node),
        );
        let was_programmed = self.stored == StoredProgrammedStatus::True;
        enforcement_gap(self.summary, report, was_programmed)
    }

    /// A node, and when its agent sent the last heartbeat.
    fn last_heartbeat_of(&self, node: &str) -> String {
        match self.heartbeats.last_time(node) {
            Some(time) => format!("{node} (last at {})", time.0.strftime("%FT%TZ")),
            None => format!("{node} (never)"),
        }
    }

    /// The `Supported` condition, if some agents do not know the version that the policy needs.
    fn lacking(&self) -> Option<PolicyCondition> {
        let version = &self.summary.min_version;
        let lacking = self.agents_that(|capabilities| !capabilities.versions.contains(version));
        let nodes = lacking.iter().map(|(node, capabilities)| {
            let newest = capabilities.versions.last().map_or("none", String::as_str);
            format!("{node} (newest supported: {newest})")
        });
        let nodes = first_named(nodes)?;
        let message =
            format!("version {version} is not supported on {nodes}; the policy is ignored there");
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
        let nodes = first_named(lacking.iter().map(|(node, _)| (*node).to_owned()))?;
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

/// Static defects, found here or by agents.
fn problem(inputs: &PolicyStatusInputs<'_>) -> PolicyCondition {
    let warnings = &inputs.summary.lint_warnings;
    let own = warnings.iter().map(|warning| warning.message.clone());
    let messages: Vec<String> = own.chain(reported_problems(inputs)).collect();
    let condition = |status, reason, message| {
        PolicyCondition::new(ConditionType::Problem, status, reason, message)
    };
    if messages.is_empty() {
        let message = "nothing is wrong with the policy itself".to_owned();
        return condition(ConditionStatus::False, NO_PROBLEM, message);
    }
    let first = warnings.first().map(|warning| warning.reason);
    condition(
        ConditionStatus::True,
        first.unwrap_or(REPORTED_PROBLEM),
        messages.join("; "),
    )
}

/// What agents found wrong with the policy; equal messages once, with the nodes.
fn reported_problems<'a>(
    inputs: &PolicyStatusInputs<'a>,
) -> impl Iterator<Item = String> + use<'a> {
    let summary = inputs.summary;
    let mut nodes: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (node, problem) in inputs
        .agents
        .policy_problems(&summary.uid, summary.generation)
    {
        let nodes = nodes
            .entry((&problem.reason, &problem.message))
            .or_default();
        nodes.push(node.to_owned());
    }
    nodes.into_iter().filter_map(|((reason, message), nodes)| {
        let nodes = first_named(nodes.into_iter())?;
        Some(match message {
            "" => format!("{reason} (reported by {nodes})"),
            message => format!("{reason}: {message} (reported by {nodes})"),
        })
    })
}

fn target_match(inputs: &PolicyStatusInputs<'_>) -> PolicyCondition {
    let (status, reason, message) = if inputs.has_targets() {
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
        let message = "some nodes do not support its version: see Supported";
        return condition(ConditionStatus::False, "Unsupported", message.to_owned());
    }
    let progress = RolloutProgress::of(inputs);
    if progress.nodes == 0 {
        let message = "no pod of any node is selected";
        return condition(ConditionStatus::True, NOTHING_TO_APPLY, message.to_owned());
    }
    if let Some(problems) = first_named(progress.problems.into_iter()) {
        return condition(ConditionStatus::False, "NodeProblem", problems);
    }
    let applied = progress.nodes - progress.waiting.len() - progress.silent.len();
    let nodes = match progress.nodes {
        1 => "node",
        _ => "nodes",
    };
    let mut message = format!("applied on {applied} of {} {nodes}", progress.nodes);
    let is_silent = !progress.silent.is_empty();
    if let Some(waiting) = first_named(progress.waiting.into_iter()) {
        message.push_str(&format!("; waiting for {waiting}"));
    } else if !is_silent {
        return condition(ConditionStatus::True, APPLIED, message);
    }
    if let Some(silent) = first_named(progress.silent.into_iter()) {
        message.push_str(&format!("; no heartbeat from the agents of {silent}"));
    }
    let reason = match is_silent {
        true => NO_HEARTBEAT,
        false => PENDING,
    };
    condition(ConditionStatus::Unknown, reason, message)
}

/// Rollout of a policy's generation to its nodes.
#[derive(Default)]
struct RolloutProgress {
    /// Number of nodes with selected pods.
    nodes: usize,
    /// Nodes that have not reported the generation as applied to all selected pods.
    waiting: Vec<String>,
    /// Nodes whose agents have stopped to send heartbeats, with the time of the last one.
    silent: Vec<String>,
    /// Nodes that failed to update their rules, with the reason.
    problems: Vec<String>,
}

impl RolloutProgress {
    fn of(inputs: &PolicyStatusInputs<'_>) -> RolloutProgress {
        let mut progress = RolloutProgress::default();
        for node in inputs.nodes() {
            progress.nodes += 1;
            let Some(gap) = inputs.enforcement_gap(node) else {
                continue;
            };
            let why = match gap {
                EnforcementGap::NodeProblem(problem) => {
                    progress.problems.push(format!("{node}: {problem}"));
                    continue;
                }
                EnforcementGap::NoHeartbeat => {
                    progress.silent.push(inputs.last_heartbeat_of(node));
                    continue;
                }
                EnforcementGap::NotApplied | EnforcementGap::UnsupportedVersion { .. } => {
                    progress.waiting.push(node.to_owned());
                    continue;
                }
                EnforcementGap::NoReport => "no agent reports from there",
                EnforcementGap::ReportOfAnotherBoot => {
                    "its agent has not reported since the node was rebooted"
                }
                EnforcementGap::UnobservedPods => "its agent has not observed all pods there",
                EnforcementGap::UnconfirmedHeartbeat => "its agent has to renew its heartbeat",
            };
            progress.waiting.push(format!("{node} ({why})"));
        }
        progress
    }
}

/// The first few items, and the number of the others; `None` if there are no items.
fn first_named(items: impl ExactSizeIterator<Item = String>) -> Option<String> {
    let more = items.len().saturating_sub(NAMED_MAX);
    let named: Vec<String> = items.take(NAMED_MAX).collect();
    match more {
        _ if named.is_empty() => None,
        0 => Some(named.join(", ")),
        more => Some(format!("{} and {more} more", named.join(", "))),
    }
}

/// Truncates a message to its maximum length, marked by an ellipsis.
fn truncated(mut message: String) -> String {
    const SIGN: &str = "...";
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX - SIGN.len()));
        message.push_str(SIGN);
    }
    message
}

#[cfg(test)]
mod tests;
