//! What is shown as one: a pod, or many that behave the same.

use rhumb_netpol::Name;

use super::ports::Asked;
use super::reach::{Answer, Reach};

pub(super) struct Groups {
    /// In order of names.
    pub(super) list: Vec<Group>,
    pub(super) is_merged: bool,
}

pub(super) struct Group {
    pub(super) namespace: String,
    /// Without the namespace: a name, `web-* (3)`, or `cart +2`.
    pub(super) label: String,
    /// Positions of pods.
    pub(super) members: Vec<usize>,
}

/// What a pair looks like at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Allowed,
    Partly,
    Denied,
    /// A single pod and itself.
    Itself,
    /// They have no family of addresses in common.
    Unrelated,
    /// An address that one of them says to have is another pod's by now.
    Taken,
}

impl Group {
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.label)
    }

    pub(super) fn first(&self) -> usize {
        self.members.first().copied().unwrap_or_default()
    }
}

impl Groups {
    /// One for each pod, unless there are more than `alone_max`.
    pub(super) fn new(reach: &Reach<'_>, alone_max: usize) -> Groups {
        let is_merged = reach.pods.len() > alone_max;
        let members = match is_merged {
            true => merged(reach),
            false => (0..reach.pods.len()).map(|pod| vec![pod]).collect(),
        };
        let list = members.into_iter().filter_map(|members| {
            let first = reach.pods.get(*members.first()?)?;
            Some(Group {
                namespace: first.namespace.clone(),
                label: label(reach, &members, first),
                members,
            })
        });
        Groups {
            list: list.collect(),
            is_merged,
        }
    }
}

/// Two pods, one of each: the same pod only if there is no other.
fn examples(from: &Group, to: &Group) -> (usize, usize) {
    let one = from.first();
    let other = match to.first() == one {
        true => to.members.get(1).copied().unwrap_or(one),
        false => to.first(),
    };
    (one, other)
}

/// What is asked about the second, and what the answers are.
pub(super) fn answers<'r>(
    reach: &'r Reach<'_>,
    from: &Group,
    to: &Group,
) -> impl Iterator<Item = (&'r Asked, &'r Answer)> + Clone {
    let (one, other) = examples(from, to);
    let asked = reach.asked(other).iter();
    asked.zip(reach.answers(one, other))
}

/// By the ports that the pod declares or the user asks about; by all if there are none.
pub(super) fn state(reach: &Reach<'_>, from: &Group, to: &Group) -> State {
    let (one, other) = examples(from, to);
    if one == other {
        return State::Itself;
    }
    let answers = answers(reach, from, to);
    let has_own = answers.clone().any(|(asked, _)| asked.is_own);
    let (mut asked_count, mut allowed_count, mut is_any_allowed) = (0, 0, false);
    for (asked, answer) in answers {
        is_any_allowed |= answer.is_allowed();
        if asked.is_own || !has_own {
            asked_count += 1;
            allowed_count += usize::from(answer.is_allowed());
        }
    }
    match (asked_count, allowed_count) {
        (0, _) if reach.shares_family(one, other) => State::Taken,
        (0, _) => State::Unrelated,
        (asked, allowed) if asked == allowed => State::Allowed,
        (_, 0) if !is_any_allowed => State::Denied,
        _ => State::Partly,
    }
}

/// Pods of a namespace that reach the same, are reached by the same, and reach each other like any two of them.
fn merged(reach: &Reach<'_>) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for class in 0..reach.classes.len() {
        let alike = |group: &&mut Vec<usize>| {
            let first = group.first();
            first.is_some_and(|first| are_alike(reach, *first, class))
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

fn are_alike(reach: &Reach<'_>, one: usize, other: usize) -> bool {
    let (Some(a), Some(b)) = (reach.classes.get(one), reach.classes.get(other)) else {
        return false;
    };
    let namespace = |members: &[usize]| {
        let pod = members.first().and_then(|pod| reach.pods.get(*pod));
        pod.map(|name| &*name.namespace)
    };
    if namespace(&a.members) != namespace(&b.members) || a.asked != b.asked {
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

/// A pattern if it fits these pods alone, or else the first of them.
fn label(reach: &Reach<'_>, members: &[usize], first: &Name) -> String {
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
    let fits = |pod: &&&Name| pod.namespace == first.namespace && pod.name.starts_with(prefix);
    let count = members.len();
    match reach.pods.iter().filter(fits).count() == count {
        true => format!("{prefix}* ({count})"),
        false => format!("{} +{}", first.name, count - 1),
    }
}
