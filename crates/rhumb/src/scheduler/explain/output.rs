//! Formats a scheduling explanation as text.

use std::collections::BTreeMap;

use rhumb_scheduler::explain::{NodeExplanation, PodSchedulingExplanation, RejectionReason};

use crate::text_table::aligned;

/// Up to this many nodes, each has its own row.
const EACH_MAX: usize = 25;
/// With more nodes, this many of the best feasible ones are shown.
const BEST_NODES_SHOWN: usize = 5;

/// The state of the pod, and the number of nodes that fit. `is_created`: the pod exists, and is not from a file.
pub(super) fn headline(explanation: &PodSchedulingExplanation, is_created: bool) -> String {
    let fitting = explanation.nodes.iter().filter(|node| node.fits).count();
    let nominated = &explanation.nominated_node;
    let state = match (&explanation.node, explanation.scheduling_gates.as_slice()) {
        (Some(node), _) if is_created => format!("is on {node}"),
        (_, gates) if !gates.is_empty() => {
            format!("is held back by its scheduling gates: {}", gates.join(", "))
        }
        _ if !is_created => "is not created yet".to_owned(),
        _ => match nominated {
            Some(node) => format!("waits until others have left {node}"),
            None => "waits for a node".to_owned(),
        },
    };
    let head = format!(
        "pod {}/{} {state}\n",
        explanation.namespace, explanation.name
    );
    match &explanation.everywhere {
        None => format!("{head}{fitting} of {} nodes fit\n", explanation.nodes.len()),
        Some(rejection) => format!("{head}no node is feasible: {}\n", rejection_text(rejection)),
    }
}

/// The table of nodes: the named ones, or all. Empty if there are none.
pub(super) fn nodes(explanation: &PodSchedulingExplanation, names: &[String], all: bool) -> String {
    let asked = |answer: &&NodeExplanation| names.is_empty() || names.contains(&answer.name);
    let answers: Vec<&NodeExplanation> = explanation.nodes.iter().filter(asked).collect();
    if answers.is_empty() {
        return String::new();
    }
    let table = if !names.is_empty() || all || answers.len() <= EACH_MAX {
        node_table(&answers)
    } else {
        grouped(&answers)
    };
    format!("\n{table}")
}

fn node_table(answers: &[&NodeExplanation]) -> String {
    let mut rows = vec![["NODE", "FITS", "SCORE", "WHY"].map(str::to_owned)];
    for answer in answers {
        let fits = if answer.fits { "yes" } else { "no" };
        let score = answer
            .score
            .map_or_else(|| "-".to_owned(), |score| score.to_string());
        let mut lines = reason_lines(answer).into_iter();
        let first = lines.next().unwrap_or_default();
        rows.push([answer.name.clone(), fits.to_owned(), score, first]);
        for line in lines {
            rows.push([String::new(), String::new(), String::new(), line]);
        }
    }
    aligned(&rows)
}

/// One line for each reason to reject the node; for a feasible node, the scores of the plugins.
fn reason_lines(answer: &NodeExplanation) -> Vec<String> {
    if !answer.fits {
        let mut lines: Vec<String> = answer.rejections.iter().map(rejection_text).collect();
        if !answer.reserved_for.is_empty() {
            lines.push(kept_for(answer));
        }
        return lines;
    }
    let parts = answer.scores.iter().filter(|part| part.score != 0);
    let parts: Vec<String> = parts
        .map(|part| format!("{} {}", part.plugin, part.score))
        .collect();
    vec![parts.join(", ")]
}

fn kept_for(answer: &NodeExplanation) -> String {
    format!("room is kept for {}", answer.reserved_for.join(", "))
}

/// Groups rejected nodes by reasons, with one node of each group as an example.
fn grouped(answers: &[&NodeExplanation]) -> String {
    let mut groups: BTreeMap<Vec<String>, Vec<&NodeExplanation>> = BTreeMap::new();
    for answer in answers.iter().filter(|answer| !answer.fits) {
        let reasons = answer.rejections.iter().map(without_detail).collect();
        groups.entry(reasons).or_default().push(answer);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let mut text = String::new();
    for (reasons, nodes) in groups {
        let [example, ..] = nodes.as_slice() else {
            continue;
        };
        text.push_str(&format!("{} nodes: {}\n", nodes.len(), reasons.join("; ")));
        let details = example
            .rejections
            .iter()
            .filter_map(|rejection| rejection.detail.as_deref());
        let kept = (!example.reserved_for.is_empty()).then(|| kept_for(example));
        let details: Vec<&str> = details.chain(kept.as_deref()).collect();
        let details = if details.is_empty() {
            String::new()
        } else {
            format!(": {}", details.join("; "))
        };
        text.push_str(&format!("  such as {}{details}\n", example.name));
    }
    let mut fitting: Vec<&NodeExplanation> =
        answers.iter().copied().filter(|node| node.fits).collect();
    fitting.sort_by_key(|node| std::cmp::Reverse(node.score));
    if !fitting.is_empty() {
        fitting.truncate(BEST_NODES_SHOWN);
        text.push_str("\nthe best of those that fit:\n");
        text.push_str(&node_table(&fitting));
    }
    text.push_str("\n(--node NAME shows one, --all shows all, -o json has everything)\n");
    text
}

fn rejection_text(rejection: &RejectionReason) -> String {
    match &rejection.detail {
        Some(detail) => format!("{}: {detail}", without_detail(rejection)),
        None => without_detail(rejection),
    }
}

fn without_detail(rejection: &RejectionReason) -> String {
    format!("{}: {}", rejection.plugin, rejection.reasons.join(", "))
}
