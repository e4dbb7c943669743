//! The matrix as text: a grid and a list of sources for each port.

use std::collections::{BTreeMap, BTreeSet};

use super::pod_groups::{PairReachability, PodGroup, PodGroups, answers, state};
use super::queried_ports::EvaluatedPort;
use super::reachability::ReachabilityMatrix;
use crate::netpol::cluster::counted;
use crate::text_table::aligned;

/// Beyond this many groups, no grid is printed.
const GRID_MAX: usize = 20;
/// Width limit of a list of names.
const WIDTH_MAX: usize = 72;

pub(super) fn text(reach: &ReachabilityMatrix<'_>, groups: &PodGroups, policies: usize) -> String {
    let mut text = format!("{}\n\n", headline(reach, groups, policies));
    if groups.list.len() <= GRID_MAX {
        text.push_str(&grid(reach, groups));
        text.push('\n');
    }
    text.push_str(&aligned(&lines(reach, groups)));
    text
}

pub(super) fn headline(
    reach: &ReachabilityMatrix<'_>,
    groups: &PodGroups,
    policies: usize,
) -> String {
    let namespaces: BTreeSet<&str> = reach.pods.iter().map(|pod| &*pod.namespace).collect();
    let together = match groups.is_merged {
        true => "; pods that behave the same are shown as one",
        false => "",
    };
    format!(
        "{} in {}, {}{together}",
        counted(reach.pods.len(), "pod", "pods"),
        counted(namespaces.len(), "namespace", "namespaces"),
        counted(policies, "policy", "policies")
    )
}

/// The grid: sources in rows, destinations in numbered columns.
fn grid(reach: &ReachabilityMatrix<'_>, groups: &PodGroups) -> String {
    let names: Vec<String> = groups.list.iter().map(PodGroup::full_name).collect();
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or_default().max("FROM".len());
    let digits = names.len().to_string().len();
    let mut text = format!("{:digits$}  {:width$}", "", "FROM");
    for number in 1..=names.len() {
        text.push_str(&format!("  {number:>digits$}"));
    }
    text.push('\n');
    let mut shown = BTreeSet::new();
    for (number, (from, name)) in groups.list.iter().zip(&names).enumerate() {
        text.push_str(&format!("{:>digits$}  {name:width$}", number + 1));
        for to in &groups.list {
            let sign = sign(state(reach, from, to));
            shown.insert(sign);
            text.push_str(&format!("  {sign:>digits$}"));
        }
        text.push('\n');
    }
    let legend = SYMBOL_LEGEND
        .iter()
        .filter(|(sign, _)| shown.contains(sign));
    let legend: Vec<String> = legend
        .map(|(sign, what)| format!("{sign} {what}"))
        .collect();
    format!("{text}\n{}\n", legend.join("   "))
}

const SYMBOL_LEGEND: [(char, &str); 6] = [
    ('+', "all ports"),
    ('~', "some ports"),
    ('.', "no port"),
    ('=', "itself, always"),
    ('?', "no address of the same family"),
    ('!', "another pod has the address"),
];

fn sign(state: PairReachability) -> char {
    match state {
        PairReachability::Allowed => '+',
        PairReachability::Partly => '~',
        PairReachability::Denied => '.',
        PairReachability::Itself => '=',
        PairReachability::Unrelated => '?',
        PairReachability::Taken => '!',
    }
}

/// A row for each port with its allowed sources. Ports that only policies name are omitted if no source is allowed.
fn lines(reach: &ReachabilityMatrix<'_>, groups: &PodGroups) -> Vec<[String; 3]> {
    let mut rows = vec![["TO", "PORT", "FROM"].map(str::to_owned)];
    for to in &groups.list {
        let mut name = to.full_name();
        let queried = reach.queried_ports(to.first());
        let has_own = queried.iter().any(|queried| queried.is_own);
        for (at, EvaluatedPort { port, is_own }) in queried.iter().enumerate() {
            let from = allowed_sources(reach, groups, to, at);
            if from == NO_SOURCE && has_own && !is_own {
                continue;
            }
            let mut port = port.to_string();
            for line in wrapped(&from) {
                let labels = [std::mem::take(&mut name), std::mem::take(&mut port)];
                let [name, port] = labels;
                rows.push([name, port, line]);
            }
        }
    }
    rows
}

const NO_SOURCE: &str = "none";
const ALL_SOURCES: &str = "all";

/// The allowed sources of a port, or the denied ones if that list is much shorter.
fn allowed_sources(
    reach: &ReachabilityMatrix<'_>,
    groups: &PodGroups,
    to: &PodGroup,
    port: usize,
) -> String {
    let (mut may, mut may_not) = (Vec::new(), Vec::new());
    for from in &groups.list {
        if state(reach, from, to) == PairReachability::Itself {
            continue;
        }
        let answer = answers(reach, from, to).nth(port);
        match answer.is_some_and(|(_, answer)| answer.is_allowed()) {
            true => may.push(from),
            false => may_not.push(from),
        }
    }
    match (may.len(), may_not.len()) {
        (0, _) => NO_SOURCE.to_owned(),
        (_, 0) => ALL_SOURCES.to_owned(),
        (may_count, not_count) if not_count * 2 < may_count => {
            format!("{ALL_SOURCES} but {}", listed(groups, to, &may_not))
        }
        _ => listed(groups, to, &may),
    }
}

/// Names of groups, with `shop/*` for all groups of a namespace.
fn listed(groups: &PodGroups, to: &PodGroup, some: &[&PodGroup]) -> String {
    let mut by_namespace: BTreeMap<&str, Vec<&&PodGroup>> = BTreeMap::new();
    for group in some {
        by_namespace
            .entry(&group.namespace)
            .or_default()
            .push(group);
    }
    let mut names = Vec::new();
    for (namespace, some) in by_namespace {
        let all = groups.list.iter().filter(|it| it.namespace == namespace);
        let others = all.filter(|it| it.members.len() > 1 || it.first() != to.first());
        match some.len() {
            2.. if some.len() == others.count() => names.push(format!("{namespace}/*")),
            _ => names.extend(some.iter().map(|group| group.full_name())),
        }
    }
    names.join(", ")
}

/// Wraps a list of names at [`WIDTH_MAX`].
fn wrapped(names: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in names.split_inclusive(", ") {
        match lines.last_mut() {
            Some(line) if line.chars().count() + name.chars().count() <= WIDTH_MAX => {
                line.push_str(name);
            }
            _ => lines.push(name.to_owned()),
        }
    }
    lines
}
