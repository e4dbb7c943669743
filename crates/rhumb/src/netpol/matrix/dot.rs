//! The matrix as a Graphviz graph: an edge is an allowed connection.

use std::collections::BTreeMap;

use super::pod_groups::{PairReachability, PodGroup, PodGroups, answers, state};
use super::reachability::ReachabilityMatrix;

/// With more ports than this, only their number is shown.
const PORTS_SHOWN_MAX: usize = 3;

pub(super) fn text(reach: &ReachabilityMatrix<'_>, groups: &PodGroups) -> String {
    let mut text = String::from(
        "digraph reach {\n  rankdir=LR;\n  fontname=\"sans-serif\";\n  \
         node [shape=box, style=\"rounded,filled\", fillcolor=white, color=\"#57606a\", fontname=\"sans-serif\"];\n  \
         edge [color=\"#1f883d\", fontname=\"sans-serif\", fontsize=10];\n",
    );
    let mut namespaces: BTreeMap<&str, Vec<&PodGroup>> = BTreeMap::new();
    for group in &groups.list {
        namespaces.entry(&group.namespace).or_default().push(group);
    }
    for (namespace, groups) in namespaces {
        let cluster = quoted(&format!("cluster_{namespace}"));
        let label = quoted(namespace);
        text.push_str(&format!(
            "  subgraph {cluster} {{\n    label={label};\n    style=\"rounded,filled\";\n    color=\"#d0d7de\";\n    \
             fillcolor=\"#f6f8fa\";\n"
        ));
        for group in groups {
            let (id, label) = (quoted(&group.full_name()), quoted(&group.label));
            text.push_str(&format!("    {id} [label={label}];\n"));
        }
        text.push_str("  }\n");
    }
    for from in &groups.list {
        for to in &groups.list {
            text.push_str(&edge(reach, from, to));
        }
    }
    text.push_str("}\n");
    text
}

fn edge(reach: &ReachabilityMatrix<'_>, from: &PodGroup, to: &PodGroup) -> String {
    let style = match state(reach, from, to) {
        PairReachability::Itself
        | PairReachability::Denied
        | PairReachability::Unrelated
        | PairReachability::Taken => return String::new(),
        PairReachability::Allowed => "",
        PairReachability::Partly => ", style=dashed, color=\"#bf8700\"",
    };
    let allowed = answers(reach, from, to).filter(|(_, answer)| answer.is_allowed());
    let ports: Vec<String> = allowed
        .map(|(queried, _)| queried.port.to_string())
        .collect();
    let label = match ports.len() {
        ..=PORTS_SHOWN_MAX => ports.join("\n"),
        count => format!("{count} ports"),
    };
    format!(
        "  {} -> {} [label={}{style}];\n",
        quoted(&from.full_name()),
        quoted(&to.full_name()),
        quoted(&label)
    )
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\n', "\\n"))
}
