//! What a list looks at: all objects of its namespace, or those that an index has for one of its requirements.
//!
//! The ways are counted in turns, a little further each time, until the shortest is known. So choosing costs about
//! as much as the cheapest way does, however long the others are, and needs no statistics.

use std::sync::Arc;

use rhumb_meta::fields;
use rhumb_meta::labels::{self, Operator};

use super::intersect::intersect;
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
    /// Those that an index, by its place in the version, has for a requirement, by its place in the selector.
    Postings { index: usize, requirement: usize },
}

impl Plan {
    pub(crate) fn of(version: &Version, query: &Query<'_>) -> Plan {
        let only = |way| Plan { way, also: None };
        let (Some(fields), Some(labels)) =
            (query.fields.requirements(), query.labels.requirements())
        else {
            return only(Way::Nothing);
        };
        if query.is_void() {
            return only(Way::Nothing);
        }
        if query.has_key(version) {
            return only(Way::Name);
        }
        let mut ways = vec![Way::Objects];
        for (index, known) in version.indexes.iter().enumerate() {
            let requirement = match &known.attribute {
                Attribute::Label(key) => labels
                    .iter()
                    .position(|requirement| requirement.key() == &**key && needs_key(requirement)),
                Attribute::Field(field) => fields.iter().position(|requirement| {
                    requirement.operator() == fields::Operator::Equals
                        && query.field_names.get(*field).map(|name| &**name)
                            == Some(requirement.field())
                }),
            };
            ways.extend(requirement.map(|requirement| Way::Postings { index, requirement }));
        }
        match ways.len() {
            1 => only(Way::Objects),
            _ => shortest(&ways, version, query),
        }
    }

    /// The index that the plan uses first.
    pub(crate) fn index<'v>(&self, version: &'v Version) -> Option<&'v Index> {
        match self.way {
            Way::Postings { index, .. } => version.indexes.get(index),
            _ => None,
        }
    }

    /// Whether everything in the way is looked at.
    pub(crate) fn is_scan(&self) -> bool {
        self.way == Way::Objects
    }

    /// Whether it takes as long to find the first as to find all.
    pub(crate) fn finds_all_at_once(&self, version: &Version, query: &Query<'_>) -> bool {
        let Way::Postings { requirement, .. } = self.way else {
            return false;
        };
        let values = self
            .index(version)
            .and_then(|index| query.values(&index.attribute, requirement));
        self.also.is_some() || values.is_none_or(|values| values.take(2).count() != 1)
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

fn shortest(ways: &[Way], version: &Version, query: &Query<'_>) -> Plan {
    let mut limit = COUNT_FIRST;
    loop {
        let counts = ways
            .iter()
            .map(|way| (way.count(version, query, limit + 1), *way));
        let mut known: Vec<_> = counts.filter(|(count, _)| *count <= limit).collect();
        known.sort_by_key(|(count, _)| *count);
        if let Some((count, way)) = known.first().copied() {
            return Plan {
                way,
                also: helper(ways, way, count, version, query),
            };
        }
        limit = limit.saturating_mul(COUNT_FACTOR);
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
    let limit = count.saturating_mul(INTERSECT_RATIO);
    ways.iter()
        .copied()
        .filter(|other| *other != way && *other != Way::Objects)
        .map(|other| (other.count(version, query, limit + 1), other))
        .filter(|(count, _)| *count <= limit)
        .min_by_key(|(count, _)| *count)
        .map(|(_, other)| other)
}

impl Way {
    /// How many objects there are on the way, as far as the limit.
    fn count(self, version: &Version, query: &Query<'_>, limit: usize) -> usize {
        match self {
            Way::Nothing | Way::Name => 0,
            Way::Objects if query.is_unbounded() => version.objects.len().min(limit),
            Way::Objects => self.find(version, query).take(limit).count(),
            Way::Postings { index, requirement } => {
                let Some(index) = version.indexes.get(index) else {
                    return limit;
                };
                match query.values(&index.attribute, requirement) {
                    None => index.postings.len().min(limit),
                    Some(values) => {
                        let all = values.flat_map(|value| query.postings(index, value));
                        all.take(limit).count()
                    }
                }
            }
        }
    }

    fn find<'a>(self, version: &'a Version, query: &Query<'_>) -> Found<'a> {
        match self {
            Way::Nothing => Box::new(std::iter::empty()),
            Way::Name => Box::new(
                query
                    .key()
                    .and_then(|key| version.objects.get(&key))
                    .into_iter(),
            ),
            Way::Objects => Box::new(query.objects(version)),
            Way::Postings { index, requirement } => match version.indexes.get(index) {
                Some(index) => find_postings(index, requirement, query),
                None => Box::new(query.objects(version)),
            },
        }
    }
}

fn find_postings<'a>(index: &'a Index, requirement: usize, query: &Query<'_>) -> Found<'a> {
    let mut gathered: Vec<_> = match query.values(&index.attribute, requirement) {
        None => {
            let all = index.postings.all();
            all.filter(|entry| query.spans(entry.key())).collect()
        }
        Some(mut values) => match (values.next(), values.next()) {
            (Some(only), None) => return Box::new(query.postings(index, only)),
            (first, second) => {
                let values = first.into_iter().chain(second).chain(values);
                values
                    .flat_map(|value| query.postings(index, value))
                    .collect()
            }
        },
    };
    gathered.sort_unstable_by(|a, b| a.key().cmp(b.key()));
    Box::new(gathered.into_iter())
}

/// Whether only objects that have the label can meet it.
fn needs_key(requirement: &labels::Requirement) -> bool {
    !matches!(
        requirement.operator(),
        Operator::NotEquals | Operator::NotIn | Operator::DoesNotExist
    )
}

impl Query<'_> {
    /// The values of a requirement, each once; `None` if any value of its attribute may meet it.
    fn values(
        &self,
        attribute: &Attribute,
        requirement: usize,
    ) -> Option<impl Iterator<Item = &str>> {
        let (field, label) = match attribute {
            Attribute::Field(_) => {
                let requirement = self.fields.requirements()?.get(requirement)?;
                (Some(requirement.value()), None)
            }
            Attribute::Label(_) => {
                let requirement = self.labels.requirements()?.get(requirement)?;
                (None, Some(requirement.exact_values()?))
            }
        };
        let values = label.unwrap_or_default();
        let distinct = values.iter().enumerate().filter(move |(index, value)| {
            // The values of a requirement are sorted.
            index.checked_sub(1).and_then(|before| values.get(before)) != Some(value)
        });
        Some(field.into_iter().chain(distinct.map(|(_, value)| &**value)))
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
