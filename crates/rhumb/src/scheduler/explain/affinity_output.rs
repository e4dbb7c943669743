//! Formats affinity terms as text: which pods those of the pod match, and which terms of other pods match the pod.

use rhumb_scheduler::explain::{
    AffinityTermDescription, MatchingTermExplanation, OwnTermExplanation, PodLocation,
    PodSchedulingExplanation,
};

/// This many names are listed, and of the others the number.
const NAMES_SHOWN: usize = 5;

/// Both sections, each if it has terms.
pub(super) fn terms(explanation: &PodSchedulingExplanation) -> String {
    let mut text = String::new();
    if !explanation.affinity_terms.is_empty() {
        text.push_str("\naffinity terms of the pod:\n");
        text.extend(explanation.affinity_terms.iter().map(own_term));
    }
    if !explanation.matching_terms.is_empty() {
        text.push_str("\naffinity terms of other pods that match the pod:\n");
        text.extend(explanation.matching_terms.iter().map(matching_term));
    }
    text
}

fn own_term(own: &OwnTermExplanation) -> String {
    let mut text = title(&own.term);
    if let Some(selector) = &own.term.namespace_selector {
        let selected = match own.selected_namespaces.as_slice() {
            [] => format!("no namespace has {selector}"),
            names => first_of(names),
        };
        text.push_str(&format!("    namespaces by selector: {selected}\n"));
    }
    let itself = own.matches_itself.then(|| "the pod itself".to_owned());
    let matching: Vec<String> = itself
        .into_iter()
        .chain(own.matching_pods.iter().map(location))
        .collect();
    let matching = match matching.as_slice() {
        [] => "no pod".to_owned(),
        pods => first_of(pods),
    };
    text.push_str(&format!("    pods that match: {matching}\n"));
    if !own.pods_in_other_namespaces.is_empty() {
        let pods: Vec<String> = own.pods_in_other_namespaces.iter().map(location).collect();
        text.push_str(&format!(
            "    pods with these labels in namespaces that are not selected: {}\n",
            first_of(&pods)
        ));
    }
    text
}

fn matching_term(matching: &MatchingTermExplanation) -> String {
    let pods: Vec<String> = matching.pods.iter().map(location).collect();
    let title = title(&matching.term);
    format!("{title}    pods with this term: {}\n", first_of(&pods))
}

fn title(term: &AffinityTermDescription) -> String {
    let weight = match term.weight {
        Some(weight) => format!(" (weight {weight})"),
        None => String::new(),
    };
    format!(
        "  {}{weight} per {}: {}\n",
        term.kind.text(),
        term.topology_key,
        term.matches
    )
}

fn location(pod: &PodLocation) -> String {
    match &pod.node {
        Some(node) => format!("{}/{} on {node}", pod.namespace, pod.name),
        None => format!("{}/{} without a node", pod.namespace, pod.name),
    }
}

fn first_of(names: &[String]) -> String {
    let (shown, others) = names.split_at(names.len().min(NAMES_SHOWN));
    match others.len() {
        0 => shown.join(", "),
        count => format!("{} and {count} more", shown.join(", ")),
    }
}
