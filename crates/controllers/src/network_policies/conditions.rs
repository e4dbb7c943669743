//! What the status of a policy is to say, from what it selects and what agents report. Pure.
//!
//! Messages name what a person can act on, and no counts of pods: those change with every pod, and each change would be
//! a write.

use rhumb_netpol::Features;
use rhumb_netpol::summary::Summary;

use super::agents::{Ability, Agents};

/// Longer messages are cut.
const MESSAGE_BYTES_MAX: usize = 1024;
/// As many are named, of nodes that have something in common; the others are counted.
const NAMED_MAX: usize = 3;

/// Those that are written here. Conditions of other types belong to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Type {
    Supported,
    Problem,
    TargetMatch,
    TrafficMatch,
    Programmed,
}

impl Type {
    pub(super) const ALL: [Type; 5] = [
        Type::Supported,
        Type::Problem,
        Type::TargetMatch,
        Type::TrafficMatch,
        Type::Programmed,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Supported => "Supported",
            Type::Problem => "Problem",
            Type::TargetMatch => "TargetMatch",
            Type::TrafficMatch => "TrafficMatch",
            Type::Programmed => "Programmed",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    True,
    False,
    Unknown,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Status::True => "True",
            Status::False => "False",
            Status::Unknown => "Unknown",
        }
    }
}

/// A condition without its times: what it says does not depend on when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) type_: Type,
    pub(super) status: Status,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Condition {
    fn new(
        type_: Type,
        status: Status,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Condition {
        Condition {
            type_,
            status,
            reason,
            message: cut(message.into()),
        }
    }
}

/// All reasons that are given for being programmed or not.
pub(super) const PROGRAMMED_REASONS: [&str; 6] = [
    "Applied",
    "NoAgent",
    "NodeProblem",
    "NothingToApply",
    "Pending",
    "Unsupported",
];

/// What is known of a policy and of those who enforce it.
pub(super) struct Facts<'a> {
    pub(super) summary: &'a Summary,
    pub(super) features: Features,
    pub(super) agents: &'a Agents,
    /// Whether its status says what agents told of it.
    pub(super) was_programmed: bool,
}

/// All that can be said now. Without agents nobody knows whether the policy is supported or in force, so nothing is
/// said of it; only what was said of agents that are gone is taken back.
pub(super) fn decide(facts: &Facts<'_>) -> Vec<Condition> {
    let mut conditions = vec![
        problem(facts.summary),
        target_match(facts.summary),
        traffic_match(facts.summary),
    ];
    if !facts.agents.is_empty() {
        let lacking = facts.lacking();
        conditions.push(programmed(facts, lacking.is_some()));
        let supported = lacking.or_else(|| unimplemented(facts));
        conditions.push(supported.unwrap_or_else(|| {
            let message =
                "every agent that it is for, of those that report, knows and has all that it uses";
            Condition::new(Type::Supported, Status::True, "Supported", message)
        }));
    } else if facts.was_programmed {
        let message = "no agent reports from any node";
        conditions.push(Condition::new(
            Type::Programmed,
            Status::Unknown,
            "NoAgent",
            message,
        ));
    }
    conditions.sort_by_key(|condition| condition.type_);
    conditions
}

impl<'a> Facts<'a> {
    /// The nodes that have pods which the policy selects. One that is gone is none of them, though its pods may be
    /// there a while longer.
    fn nodes(&self) -> impl Iterator<Item = &'a str> {
        let agents = self.agents;
        let nodes = self.summary.nodes.keys().map(String::as_str);
        nodes.filter(|node| agents.has_node(node))
    }

    /// The agents whose word counts for what is supported, as long as they are like this: those of nodes that the
    /// policy is for. If there is none of them, any agent may be the next.
    fn agents_that(&self, is_like: impl Fn(&Ability) -> bool) -> Vec<(&'a str, &'a Ability)> {
        let agents = self.agents;
        let own = self
            .nodes()
            .filter_map(|node| Some((node, agents.ability(node)?)));
        let mut own = own.peekable();
        if own.peek().is_some() {
            return own.filter(|(_, ability)| is_like(ability)).collect();
        }
        let mut all: Vec<_> = agents.that(is_like).collect();
        all.sort_unstable_by_key(|(node, _)| *node);
        all
    }

    /// `Supported`, if there are agents that do not know the version that the policy needs.
    fn lacking(&self) -> Option<Condition> {
        let version = &self.summary.min_version;
        let lacking = self.agents_that(|ability| !ability.versions.contains(version));
        let nodes = lacking.iter().map(|(node, ability)| {
            let newest = ability.versions.last().map_or("none", String::as_str);
            format!("{node} (newest known: {newest})")
        });
        let nodes = some(nodes)?;
        let message =
            format!("version {version} is not known on {nodes}; the policy is ignored there");
        Some(Condition::new(
            Type::Supported,
            Status::False,
            "Version",
            message,
        ))
    }
}

/// `Supported`, if there are nodes that lack something that the policy uses.
fn unimplemented(facts: &Facts<'_>) -> Option<Condition> {
    let missing = facts.features.names().filter_map(|feature| {
        let lacking = facts.agents_that(|ability| ability.lacks(feature).is_some());
        let why = lacking
            .first()
            .and_then(|(_, ability)| ability.lacks(feature))?;
        let nodes = some(lacking.iter().map(|(node, _)| (*node).to_owned()))?;
        let why = match why {
            "" => String::new(),
            why => format!(": {why}"),
        };
        Some(format!("{feature} is not available on {nodes}{why}"))
    });
    let missing: Vec<String> = missing.collect();
    (!missing.is_empty()).then(|| {
        Condition::new(
            Type::Supported,
            Status::False,
            "Unimplemented",
            missing.join("; "),
        )
    })
}

fn problem(summary: &Summary) -> Condition {
    let Some(first) = summary.flaws.first() else {
        let message = "nothing is wrong with the policy itself";
        return Condition::new(Type::Problem, Status::False, "NoProblem", message);
    };
    let messages: Vec<&str> = summary
        .flaws
        .iter()
        .map(|flaw| flaw.message.as_str())
        .collect();
    Condition::new(
        Type::Problem,
        Status::True,
        first.reason,
        messages.join("; "),
    )
}

fn target_match(summary: &Summary) -> Condition {
    let (status, reason, message) = if summary.has_targets() {
        (
            Status::True,
            "PodsSelected",
            "at least one pod is selected by spec.podSelector",
        )
    } else {
        (
            Status::False,
            "NoPods",
            "no pod is selected by spec.podSelector",
        )
    };
    Condition::new(Type::TargetMatch, status, reason, message)
}

/// The KEP asks whether at least one pod or range is matched by the rules. A policy without rules, which denies all,
/// matches none: that is `False`, with a reason by which it can be told from rules that find nobody.
fn traffic_match(summary: &Summary) -> Condition {
    let (status, reason, message) = match summary.traffic {
        Some(true) => (
            Status::True,
            "PeersMatched",
            "at least one pod or range of addresses is matched by the rules",
        ),
        Some(false) => (
            Status::False,
            "NoPeers",
            "no pod and no range of addresses is matched by the rules",
        ),
        None => (Status::False, "NoRules", "no rule allows anything"),
    };
    Condition::new(Type::TrafficMatch, status, reason, message)
}

fn programmed(facts: &Facts<'_>, is_ignored: bool) -> Condition {
    let condition =
        |status, reason, message| Condition::new(Type::Programmed, status, reason, message);
    if is_ignored {
        let message = "there are nodes that do not know the version it needs: see Supported";
        return condition(Status::False, "Unsupported", message.to_owned());
    }
    let spread = Spread::of(facts);
    if spread.nodes == 0 {
        let message = "no pod of any node is selected";
        return condition(Status::True, "NothingToApply", message.to_owned());
    }
    if let Some(problems) = some(spread.problems.into_iter()) {
        return condition(Status::False, "NodeProblem", problems);
    }
    let applied = spread.nodes - spread.waiting.len();
    let nodes = match spread.nodes {
        1 => "node",
        _ => "nodes",
    };
    let message = format!("applied on {applied} of {} {nodes}", spread.nodes);
    match some(spread.waiting.into_iter()) {
        Some(waiting) => condition(
            Status::Unknown,
            "Pending",
            format!("{message}; waiting for {waiting}"),
        ),
        None => condition(Status::True, "Applied", message),
    }
}

/// How far a generation of a policy has come.
#[derive(Default)]
struct Spread {
    /// How many it is to be applied on.
    nodes: usize,
    /// Those that have not said that they have.
    waiting: Vec<String>,
    /// Those that could not bring their rules up to date, and why.
    problems: Vec<String>,
}

impl Spread {
    fn of(facts: &Facts<'_>) -> Spread {
        let Summary {
            uid, generation, ..
        } = facts.summary;
        let mut spread = Spread::default();
        for node in facts.nodes() {
            spread.nodes += 1;
            let Some(report) = facts.agents.report(node) else {
                let why = match facts.agents.is_of_another_boot(node) {
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

/// The first few in words, and how many more there are; `None` if there are none.
fn some(items: impl ExactSizeIterator<Item = String>) -> Option<String> {
    let more = items.len().saturating_sub(NAMED_MAX);
    let named: Vec<String> = items.take(NAMED_MAX).collect();
    match more {
        _ if named.is_empty() => None,
        0 => Some(named.join(", ")),
        more => Some(format!("{} and {more} more", named.join(", "))),
    }
}

/// At most as long as a message may be, with a sign where something is missing.
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
