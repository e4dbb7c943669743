//! The query planner of lists: chooses between a scan of the namespace and the indexes of the query's requirements.
//!
//! The entries of an index for given values are in key order and a subset of all objects, so an index is always at
//! least as good as a scan. Among several indexes the shortest is found by counting all of them up to a limit that
//! grows each round: that costs about as much as reading the shortest, and is bounded by the page size.

use std::sync::Arc;

use rhumb_meta::fields;

use super::intersect::intersect;
use super::merge::merge;
use super::postings::KeyBound;
use super::{AttributeIndex, IndexedAttribute, SelectorQuery};
use crate::CacheEntry;
use crate::snapshot::CacheContents;

/// The first limit up to which access paths are counted.
const COUNT_LIMIT_FIRST: usize = 64;

/// The factor by which the limit grows each round.
const COUNT_FACTOR: usize = 8;

/// An access path with fewer entries is not intersected with another index.
const INTERSECT_MIN: usize = 256;

/// An index that is more than this many times longer is not used for the intersection.
const INTERSECT_RATIO: usize = 8;

/// Estimated cost of collecting and sorting an entry, relative to examining it in order.
const SORT_RATIO: usize = 8;

/// Entries to examine, in key order.
pub(crate) type EntryIterator<'a> = Box<dyn Iterator<Item = &'a Arc<CacheEntry>> + Send + 'a>;

/// How a list finds its candidate entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListPlan {
    path: AccessPath,
    /// A second index: only entries in both can match.
    intersect_with: Option<AccessPath>,
}

/// A source of candidate entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessPath {
    /// The selectors can never match.
    Empty,
    /// The single object that the selectors name.
    SingleKey,
    /// All objects of the key range.
    KeyRangeScan,
    /// The entries of an index for the values of a requirement. `index` is the position among the indexes of the
    /// contents, `requirement` the position in the selector.
    IndexValues { index: usize, requirement: usize },
    /// All entries of an index, collected and sorted by key.
    WholeIndex { index: usize },
}

impl ListPlan {
    /// Chooses the plan for a reader that takes at most `limit` objects.
    pub(crate) fn choose(
        version: &CacheContents,
        query: &SelectorQuery<'_>,
        limit: usize,
    ) -> ListPlan {
        let only = |path| ListPlan {
            path,
            intersect_with: None,
        };
        let is_empty =
            query.fields.requirements().is_none() || query.labels.requirements().is_none();
        if is_empty || query.is_empty_range() {
            return only(AccessPath::Empty);
        }
        if query.selects_single_key(version) {
            return only(AccessPath::SingleKey);
        }
        let mut by_values = Vec::new();
        let mut whole = Vec::new();
        for (position, index) in version.indexes.iter().enumerate() {
            for (requirement, has_values) in query.requirements_on(&index.attribute) {
                if has_values {
                    by_values.push(AccessPath::IndexValues {
                        index: position,
                        requirement,
                    });
                } else {
                    whole.push(AccessPath::WholeIndex { index: position });
                }
            }
        }
        let best = match by_values.as_slice() {
            [] => only(AccessPath::KeyRangeScan),
            [path] => only(*path),
            paths => shortest_path(paths, version, query, limit),
        };
        whole
            .into_iter()
            .find(|path| whole_index_is_cheaper(*path, best.path, version, query, limit))
            .map_or(best, only)
    }

    /// The primary index of the plan.
    pub(crate) fn index<'v>(&self, version: &'v CacheContents) -> Option<&'v AttributeIndex> {
        match self.path {
            AccessPath::IndexValues { index, .. } | AccessPath::WholeIndex { index } => {
                version.indexes.get(index)
            }
            AccessPath::Empty | AccessPath::SingleKey | AccessPath::KeyRangeScan => None,
        }
    }

    /// Whether all objects of the key range are examined.
    pub(crate) fn is_scan(&self) -> bool {
        self.path == AccessPath::KeyRangeScan
    }

    /// Whether finding the first entry costs as much as finding all, so that batches would repeat the work.
    pub(crate) fn finds_all_at_once(&self) -> bool {
        self.intersect_with.is_some() || matches!(self.path, AccessPath::WholeIndex { .. })
    }

    pub(crate) fn entries<'a>(
        &self,
        version: &'a CacheContents,
        query: &SelectorQuery<'_>,
    ) -> EntryIterator<'a> {
        let Some(also) = self.intersect_with else {
            return self.path.entries(version, query);
        };
        let first: Vec<_> = self.path.entries(version, query).collect();
        let second: Vec<_> = also.entries(version, query).collect();
        Box::new(intersect(&first, &second).into_iter())
    }
}

/// The shortest access path, as precisely as matters for a reader that takes at most `limit` objects.
fn shortest_path(
    paths: &[AccessPath],
    version: &CacheContents,
    query: &SelectorQuery<'_>,
    limit: usize,
) -> ListPlan {
    let enough = limit.saturating_mul(COUNT_FACTOR).max(COUNT_LIMIT_FIRST);
    let mut count_limit = COUNT_LIMIT_FIRST;
    loop {
        let counts = paths
            .iter()
            .map(|path| (path.count(version, query, count_limit + 1), *path));
        let shortest = counts.min_by_key(|(count, _)| *count);
        match shortest {
            Some((count, path)) if count <= count_limit || count_limit >= enough => {
                let also = (limit == usize::MAX)
                    .then(|| intersection_partner(paths, path, count, version, query))
                    .flatten();
                return ListPlan {
                    path,
                    intersect_with: also,
                };
            }
            _ => count_limit = count_limit.saturating_mul(COUNT_FACTOR),
        }
    }
}

/// The second index of an intersection, if that is worthwhile.
fn intersection_partner(
    paths: &[AccessPath],
    path: AccessPath,
    count: usize,
    version: &CacheContents,
    query: &SelectorQuery<'_>,
) -> Option<AccessPath> {
    if count < INTERSECT_MIN {
        return None;
    }
    let count_limit = count.saturating_mul(INTERSECT_RATIO);
    paths
        .iter()
        .copied()
        .filter(|other| *other != path)
        .map(|other| (other.count(version, query, count_limit + 1), other))
        .filter(|(count, _)| *count <= count_limit)
        .min_by_key(|(count, _)| *count)
        .map(|(_, other)| other)
}

/// Whether collecting and sorting a whole index costs less than another access path.
fn whole_index_is_cheaper(
    whole: AccessPath,
    other: AccessPath,
    version: &CacheContents,
    query: &SelectorQuery<'_>,
    limit: usize,
) -> bool {
    let cost = whole
        .count(version, query, usize::MAX)
        .saturating_mul(SORT_RATIO);
    cost <= limit.saturating_mul(SORT_RATIO * SORT_RATIO)
        && cost < other.count(version, query, cost + 1)
}

impl AccessPath {
    /// Number of entries on this path, counted up to `limit`.
    fn count(self, version: &CacheContents, query: &SelectorQuery<'_>, limit: usize) -> usize {
        match self {
            AccessPath::Empty | AccessPath::SingleKey => 0,
            AccessPath::KeyRangeScan if query.is_unbounded() => version.objects.len().min(limit),
            AccessPath::KeyRangeScan | AccessPath::IndexValues { .. } => {
                self.entries(version, query).take(limit).count()
            }
            AccessPath::WholeIndex { index } => {
                let index = version.indexes.get(index);
                index.map_or(limit, |index| index.postings.len().min(limit))
            }
        }
    }

    fn entries<'a>(
        self,
        version: &'a CacheContents,
        query: &SelectorQuery<'_>,
    ) -> EntryIterator<'a> {
        let index = match self {
            AccessPath::Empty => return Box::new(std::iter::empty()),
            AccessPath::SingleKey => {
                let entry = query.single_key().and_then(|key| version.objects.get(&key));
                return Box::new(entry.into_iter());
            }
            AccessPath::KeyRangeScan => None,
            AccessPath::IndexValues { index, .. } | AccessPath::WholeIndex { index } => {
                version.indexes.get(index)
            }
        };
        match (index, self) {
            (Some(index), AccessPath::IndexValues { requirement, .. }) => {
                entries_by_values(index, requirement, query)
            }
            (Some(index), _) => entries_of_whole_index(index, query),
            (None, _) => Box::new(query.objects(version)),
        }
    }
}

fn entries_by_values<'a>(
    index: &'a AttributeIndex,
    requirement: usize,
    query: &SelectorQuery<'_>,
) -> EntryIterator<'a> {
    let values = query.requirement_values(&index.attribute, requirement);
    let mut ranges: Vec<_> = values.map(|value| query.postings(index, value)).collect();
    match (ranges.pop(), ranges.is_empty()) {
        (Some(only), true) => Box::new(only),
        (last, _) => Box::new(merge(ranges.into_iter().chain(last))),
    }
}

fn entries_of_whole_index<'a>(
    index: &'a AttributeIndex,
    query: &SelectorQuery<'_>,
) -> EntryIterator<'a> {
    let all = index.postings.all();
    let mut entries: Vec<_> = all
        .filter(|entry| query.contains_key(entry.key()))
        .collect();
    entries.sort_unstable_by(|a, b| a.key().cmp(b.key()));
    Box::new(entries.into_iter())
}

impl SelectorQuery<'_> {
    /// The positions of the requirements that only objects with the attribute can meet, and whether each lists exact
    /// values.
    fn requirements_on(&self, attribute: &IndexedAttribute) -> Vec<(usize, bool)> {
        match attribute {
            IndexedAttribute::Label(key) => {
                let all = self.labels.requirements().unwrap_or_default().iter();
                all.enumerate()
                    .filter(|(_, label)| label.key() == &**key && label.needs_label())
                    .map(|(position, label)| (position, label.exact_values().is_some()))
                    .collect()
            }
            IndexedAttribute::Field(index) => {
                let name = self.field_names.get(*index).map(|name| &**name);
                let all = self.fields.requirements().unwrap_or_default().iter();
                all.enumerate()
                    .filter(|(_, field)| field.operator() == fields::Operator::Equals)
                    .filter(|(_, field)| name == Some(field.field()))
                    .map(|(position, _)| (position, true))
                    .collect()
            }
        }
    }

    /// The distinct values of a requirement.
    fn requirement_values(
        &self,
        attribute: &IndexedAttribute,
        requirement: usize,
    ) -> impl Iterator<Item = &str> {
        let (mut field, mut label) = (None, None);
        match attribute {
            IndexedAttribute::Field(_) => {
                let all = self.fields.requirements().unwrap_or_default();
                field = all.get(requirement).map(fields::Requirement::value);
            }
            IndexedAttribute::Label(_) => {
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
        index: &'a AttributeIndex,
        value: &str,
    ) -> impl Iterator<Item = &'a Arc<CacheEntry>> + Send + use<'a> {
        let (after, before) = self.key_bounds();
        let before = before.map_or(KeyBound::End, KeyBound::At);
        index.postings.range(value, (KeyBound::At(after), before))
    }
}
