//! What a list looks at: all objects of its namespace, or those that an index has for one of its requirements.
//!
//! What an index has for values comes in key order and is a part of all objects, so it is always the better way. Of
//! several such ways the shortest is found by counting them in turns, a little further each time: that costs about as
//! much as the shortest way itself, and never more than a page is worth.

use std::sync::Arc;

use rhumb_meta::fields;

use super::intersect::intersect;
use super::merge::merge;
use super::postings::Edge;
use super::{Attribute, Index, Query};
use crate::Entry;
use crate::snapshot::Version;

/// How far the ways are counted at first.
const COUNT_FIRST: usize = 64;

/// How much further they are counted each time.
const COUNT_FACTOR: usize = 8;

/// A way with fewer objects is not worth another index's help.
const INTERSECT_MIN: usize = 256;

/// Nor is a help that is this many times longer.
const INTERSECT_RATIO: usize = 8;

/// To gather and sort objects costs so many times as much as to look at them in passing.
const SORT_RATIO: usize = 8;

/// Objects to look at, in key order.
pub(crate) type Found<'a> = Box<dyn Iterator<Item = &'a Arc<Entry>> + Send + 'a>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    way: Way,
    /// Another way to what is asked for: only what is on both can be it.
    also: Option<Way>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The selectors pick nothing, whatever there is.
    Nothing,
    /// The one object of the name that is asked for.
    Name,
    /// All objects between the keys.
    Objects,
    /// Those that an index, by its place in the version, has for the values of a requirement, by its place in the
    /// selector.
    Values { index: usize, requirement: usize },
    /// All that are in an index, in whatever order.
    Whole { index: usize },
}

impl Plan {
    /// For somebody who takes so many objects at most.
    pub(crate) fn of(version: &Version, query: &Query<'_>, limit: usize) -> Plan {
        let only = |way| Plan { way, also: None };
        let is_nothing =
            query.fields.requirements().is_none() || query.labels.requirements().is_none();
        if is_nothing || query.is_void() {
            return only(Way::Nothing);
        }
        if query.has_key(version) {
            return only(Way::Name);
        }
        let mut by_values = Vec::new();
        let mut whole = Vec::new();
        for (place, index) in version.indexes.iter().enumerate() {
            for (requirement, has_values) in query.requirements(&index.attribute) {
                if has_values {
                    by_values.push(Way::Values {
                        index: place,
                        requirement,
                    });
                } else {
                    whole.push(Way::Whole { index: place });
                }
            }
        }
        let best = match by_values.as_slice() {
            [] => only(Way::Objects),
            [way] => only(*way),
            ways => shortest(ways, version, query, limit),
        };
        whole
            .into_iter()
            .find(|way| pays(*way, best.way, version, query, limit))
            .map_or(best, only)
    }

    /// The index that the plan uses first.
    pub(crate) fn index<'v>(&self, version: &'v Version) -> Option<&'v Index> {
        match self.way {
            Way::Values { index, .. } | Way::Whole { index } => version.indexes.get(index),
            Way::Nothing | Way::Name | Way::Objects => None,
        }
    }

    /// Whether everything in the way is looked at.
    pub(crate) fn is_scan(&self) -> bool {
        self.way == Way::Objects
    }

    /// Whether it takes as long to find the first as to find all.
    pub(crate) fn finds_all_at_once(&self) -> bool {
        self.also.is_some() || matches!(self.way, Way::Whole { .. })
    }

    pub(crate) fn find<'a>(&self, version: &'a Version, query: &Query<'_>) -> Found<'a> {
        let Some(also) = self.also else {
            return self.way.find(version, query);
        };
        let first: Vec<_> = self.way.find(version, query).collect();
        let second: Vec<_> = also.find(version, query).collect();
        Box::new(intersect(&first, &second).into_iter())
    }
}

/// The shortest of several ways, as far as whoever takes so many objects needs to know.
fn shortest(ways: &[Way], version: &Version, query: &Query<'_>, limit: usize) -> Plan {
    let enough = limit.saturating_mul(COUNT_FACTOR).max(COUNT_FIRST);
    let mut far = COUNT_FIRST;
    loop {
        let counts = ways
            .iter()
            .map(|way| (way.count(version, query, far + 1), *way));
        let shortest = counts.min_by_key(|(count, _)| *count);
        match shortest {
            Some((count, way)) if count <= far || far >= enough => {
                let also = (limit == usize::MAX)
                    .then(|| helper(ways, way, count, version, query))
                    .flatten();
                return Plan { way, also };
            }
            _ => far = far.saturating_mul(COUNT_FACTOR),
        }
    }
}

/// Another index that is worth looking into as well.
fn helper(
    ways: &[Way],
    way: Way,
    count: usize,
    version: &Version,
    query: &Query<'_>,
) -> Option<Way> {
    if count < INTERSECT_MIN {
        return None;
    }
    let far = count.saturating_mul(INTERSECT_RATIO);
    ways.iter()
        .copied()
        .filter(|other| *other != way)
        .map(|other| (other.count(version, query, far + 1), other))
        .filter(|(count, _)| *count <= far)
        .min_by_key(|(count, _)| *count)
        .map(|(_, other)| other)
}

/// Whether to gather a whole index costs less than another way.
fn pays(whole: Way, other: Way, version: &Version, query: &Query<'_>, limit: usize) -> bool {
    let cost = whole
        .count(version, query, usize::MAX)
        .saturating_mul(SORT_RATIO);
    cost <= limit.saturating_mul(SORT_RATIO * SORT_RATIO)
        && cost < other.count(version, query, cost + 1)
}

impl Way {
    /// How many objects there are on the way, as far as is asked.
    fn count(self, version: &Version, query: &Query<'_>, far: usize) -> usize {
        match self {
            Way::Nothing | Way::Name => 0,
            Way::Objects if query.is_unbounded() => version.objects.len().min(far),
            Way::Objects | Way::Values { .. } => self.find(version, query).take(far).count(),
            Way::Whole { index } => {
                let index = version.indexes.get(index);
                index.map_or(far, |index| index.postings.len().min(far))
            }
        }
    }

    fn find<'a>(self, version: &'a Version, query: &Query<'_>) -> Found<'a> {
        let index = match self {
            Way::Nothing => return Box::new(std::iter::empty()),
            Way::Name => {
                let entry = query.key().and_then(|key| version.objects.get(&key));
                return Box::new(entry.into_iter());
            }
            Way::Objects => None,
            Way::Values { index, .. } | Way::Whole { index } => version.indexes.get(index),
        };
        match (index, self) {
            (Some(index), Way::Values { requirement, .. }) => by_values(index, requirement, query),
            (Some(index), _) => whole(index, query),
            (None, _) => Box::new(query.objects(version)),
        }
    }
}

fn by_values<'a>(index: &'a Index, requirement: usize, query: &Query<'_>) -> Found<'a> {
    let values = query.values(&index.attribute, requirement);
    let mut ranges: Vec<_> = values.map(|value| query.postings(index, value)).collect();
    match (ranges.pop(), ranges.is_empty()) {
        (Some(only), true) => Box::new(only),
        (last, _) => Box::new(merge(ranges.into_iter().chain(last))),
    }
}

fn whole<'a>(index: &'a Index, query: &Query<'_>) -> Found<'a> {
    let all = index.postings.all();
    let mut gathered: Vec<_> = all.filter(|entry| query.spans(entry.key())).collect();
    gathered.sort_unstable_by(|a, b| a.key().cmp(b.key()));
    Box::new(gathered.into_iter())
}

impl Query<'_> {
    /// The requirements that only objects with a value of the attribute can meet, by their places, and whether they
    /// say which values those are.
    fn requirements(&self, attribute: &Attribute) -> Vec<(usize, bool)> {
        match attribute {
            Attribute::Label(key) => {
                let all = self.labels.requirements().unwrap_or_default().iter();
                all.enumerate()
                    .filter(|(_, label)| label.key() == &**key && label.needs_label())
                    .map(|(place, label)| (place, label.exact_values().is_some()))
                    .collect()
            }
            Attribute::Field(index) => {
                let name = self.field_names.get(*index).map(|name| &**name);
                let all = self.fields.requirements().unwrap_or_default().iter();
                all.enumerate()
                    .filter(|(_, field)| field.operator() == fields::Operator::Equals)
                    .filter(|(_, field)| name == Some(field.field()))
                    .map(|(place, _)| (place, true))
                    .collect()
            }
        }
    }

    /// The values of a requirement, each once.
    fn values(&self, attribute: &Attribute, requirement: usize) -> impl Iterator<Item = &str> {
        let (mut field, mut label) = (None, None);
        match attribute {
            Attribute::Field(_) => {
                let all = self.fields.requirements().unwrap_or_default();
                field = all.get(requirement).map(fields::Requirement::value);
            }
            Attribute::Label(_) => {
                let all = self.labels.requirements().unwrap_or_default();
                label = all.get(requirement).and_then(|label| label.exact_values());
            }
        }
        let values = label.unwrap_or_default();
        let distinct = values.iter().enumerate().filter(move |(index, value)| {
            // The values of a requirement are sorted.
            index.checked_sub(1).and_then(|before| values.get(before)) != Some(value)
        });
        field.into_iter().chain(distinct.map(|(_, value)| &**value))
    }

    fn postings<'a>(
        &self,
        index: &'a Index,
        value: &str,
    ) -> impl Iterator<Item = &'a Arc<Entry>> + Send + use<'a> {
        let (after, before) = self.edges();
        let before = before.map_or(Edge::End, Edge::At);
        index.postings.range(value, (Edge::At(after), before))
    }
}
