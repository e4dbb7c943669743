//! The rows and columns of the output: single pods, or groups of pods with equal reachability.

use rhumb_netpol::NamespacedName;

use super::queried_ports::EvaluatedPort;
use super::reachability::{DirectionVerdicts, ReachabilityMatrix};

pub(super) struct PodGroups {
    /// Sorted by name.
    pub(super) list: Vec<PodGroup>,
    pub(super) is_merged: bool,
}

pub(super) struct PodGroup {
    pub(super) namespace: String,
    /// The label without namespace: a name, `web-* (3)`, or `cart +2`.
    pub(super) label: String,
    /// Indexes of pods.
    pub(super) members: Vec<usize>,
}

/// Reachability of one pod or group from another, summarized over ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairReachability {
    Allowed,
    Partly,
    Denied,
    /// Source and destination are the same pod.
    Itself,
    /// They have no address family in common.
    Unrelated,
    /// An address in the status of one of them now belongs to another pod.
    Taken,
}

impl PodGroup {
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.label)
    }

    pub(super) fn first(&self) -> usize {
        self.members.first().copied().unwrap_or_default()
    }
}

impl PodGroups {
    /// One group for each pod; with more than `alone_max` pods, those with equal reachability are merged.
    pub(super) fn new(reach: &ReachabilityMatrix<'_>, alone_max: usize) -> PodGroups {
        let is_merged = reach.pods.len() > alone_max;
        let members = match is_merged {
            true => merged(reach),
            false => (0..reach.pods.len()).map(|pod| vec![pod]).collect(),
        };
        let list = members.into_iter().filter_map(|members| {
            let first = reach.pods.get(*members.first()?)?;
            Some(PodGroup {
                namespace: first.namespace.clone(),
                label: label(reach, &members, first),
                members,
            })
        });
        PodGroups {
            list: list.collect(),
            is_merged,
        }
    }
}

/// A pod of each group: different pods unless both groups are the same single pod.
fn examples(from: &PodGroup, to: &PodGroup) -> (usize, usize) {
    let one = from.first();
    let other = match to.first() == one {
        true => to.members.get(1).copied().unwrap_or(one),
        false => to.first(),
    };
    (one, other)
}

/// The ports of the destination with their verdicts.
pub(super) fn answers<'r>(
    reach: &'r ReachabilityMatrix<'_>,
    from: &PodGroup,
    to: &PodGroup,
) -> impl Iterator<Item = (&'r EvaluatedPort, &'r DirectionVerdicts)> + Clone {
    let (one, other) = examples(from, to);
    let queried = reach.queried_ports(other).iter();
    queried.zip(reach.answers(one, other))
}

/// Decided by the ports that the pod declares or the user gave; by all ports if there are none of these.
pub(super) fn state(
    reach: &ReachabilityMatrix<'_>,
    from: &PodGroup,
    to: &PodGroup,
) -> PairReachability {
    let (one, other) = examples(from, to);
    if one == other {
        return PairReachability::Itself;
    }
    let answers = answers(reach, from, to);
    let has_own = answers.clone().any(|(queried, _)| queried.is_own);
    let (mut asked_count, mut allowed_count, mut is_any_allowed) = (0, 0, false);
    for (queried, answer) in answers {
        is_any_allowed |= answer.is_allowed();
        if queried.is_own || !has_own {
            asked_count += 1;
            allowed_count += usize::from(answer.is_allowed());
        }
    }
    match (asked_count, allowed_count) {
        (0, _) if reach.shares_family(one, other) => PairReachability::Taken,
        (0, _) => PairReachability::Unrelated,
        (queried, allowed) if queried == allowed => PairReachability::Allowed,
        (_, 0) if !is_any_allowed => PairReachability::Denied,
        _ => PairReachability::Partly,
    }
}

/// Merges classes of one namespace whose pods have equal verdicts as source and as destination, and among each other.
fn merged(reach: &ReachabilityMatrix<'_>) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for class in 0..reach.classes.len() {
        let alike = |group: &&mut Vec<usize>| {
            let first = group.first();
            first.is_some_and(|first| have_equal_verdicts(reach, *first, class))
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(class),
            None => groups.push(vec![class]),
        }
    }
    let members = |classes: Vec<usize>| {
        let classes = classes.into_iter().filter_map(|at| reach.classes.get(at));
        let mut members: Vec<usize> = classes.flat_map(|class| class.members.clone()).collect();
        members.sort_unstable();
        members
    };
    let mut groups: Vec<Vec<usize>> = groups.into_iter().map(members).collect();
    groups.sort();
    groups
}

fn have_equal_verdicts(reach: &ReachabilityMatrix<'_>, one: usize, other: usize) -> bool {
    let (Some(a), Some(b)) = (reach.classes.get(one), reach.classes.get(other)) else {
        return false;
    };
    let namespace = |members: &[usize]| {
        let pod = members.first().and_then(|pod| reach.pods.get(*pod));
        pod.map(|name| &*name.namespace)
    };
    if namespace(&a.members) != namespace(&b.members) || a.queried != b.queried {
        return false;
    }
    let across = reach.between(one, other);
    let inside = |class: usize, members: &[usize]| {
        members.len() < 2 || reach.between(class, class) == across
    };
    let same_with = |third: usize| {
        reach.between(one, third) == reach.between(other, third)
            && reach.between(third, one) == reach.between(third, other)
    };
    across == reach.between(other, one)
        && inside(one, &a.members)
        && inside(other, &b.members)
        && (0..reach.classes.len()).all(|third| third == one || third == other || same_with(third))
}

/// A name prefix if it matches only these pods; otherwise the first name and the number of others.
fn label(reach: &ReachabilityMatrix<'_>, members: &[usize], first: &NamespacedName) -> String {
    if members.len() == 1 {
        return first.name.clone();
    }
    let names = members.iter().filter_map(|pod| reach.pods.get(*pod));
    let mut prefix = first.name.as_str();
    for name in names {
        let same = prefix.bytes().zip(name.name.bytes());
        let length = same.take_while(|(a, b)| a == b).count();
        prefix = prefix.get(..length).unwrap_or_default();
    }
    let prefix = prefix.rfind('-').map_or("", |dash| &prefix[..=dash]);
    let fits =
        |pod: &&&NamespacedName| pod.namespace == first.namespace && pod.name.starts_with(prefix);
    let count = members.len();
    match reach.pods.iter().filter(fits).count() == count {
        true => format!("{prefix}* ({count})"),
        false => format!("{} +{}", first.name, count - 1),
    }
}
