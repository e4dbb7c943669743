//! Recommends adaptive indexes, based on how many objects lists examine without a match.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::time::Duration;

use rhumb_meta::fields::Operator;

use super::{IndexedAttribute, SelectorQuery};

/// Lists that examine fewer objects are fast enough without an index.
const EXAMINED_MIN: usize = 256;

/// A list is selective if at most one in this many examined objects matches.
pub(crate) const SELECTIVITY_MIN: usize = 8;

/// An index is recommended after the wasted work of this many recent full scans; building it costs about ten.
const WASTED_SCANS_MIN: usize = 16;

/// Maximum number of attributes that are tracked.
const ATTRIBUTES_MAX: usize = 256;

/// Maximum number of requirements of one list that are tracked.
const REQUIREMENTS_MAX: usize = 8;

/// How long an attribute is not considered again after its index turned out not to help.
const RETRY_AFTER: Duration = Duration::from_secs(3600);

/// What one list examined and matched.
pub(crate) struct ListStats<'a> {
    pub(crate) query: &'a SelectorQuery<'a>,
    pub(crate) is_scan: bool,
    pub(crate) examined: usize,
    pub(crate) matched: usize,
}

/// An index that recent lists would have used.
#[derive(Debug)]
pub(crate) struct IndexCandidate {
    pub(crate) attribute: IndexedAttribute,
    /// The values that the latest of these lists selected.
    pub(crate) values: Vec<Box<str>>,
}

/// Tracks the wasted work of lists by attribute, and recommends indexes.
#[derive(Debug, Default)]
pub(crate) struct IndexAdvisor {
    wasted_scans: Mutex<HashMap<IndexedAttribute, WastedScans>>,
}

/// Work that an index of one attribute would have saved.
#[derive(Debug, Default)]
struct WastedScans {
    /// Objects that recent lists with this attribute examined and that did not match; decays over time.
    wasted_entries: usize,
    /// Until then the index is being built, would not help, or exceeds the budget.
    blocked_until: Option<Duration>,
}

impl IndexAdvisor {
    /// Records a list of a resource with `objects` objects, and returns the index that should be built, if any. The
    /// caller builds it and then calls [`IndexAdvisor::forget`] or [`IndexAdvisor::block`].
    pub(crate) fn record_list(
        &self,
        list: &ListStats<'_>,
        objects: usize,
        is_indexed: impl Fn(&IndexedAttribute) -> bool,
        now: Duration,
    ) -> Option<IndexCandidate> {
        let is_selective = list.matched.saturating_mul(SELECTIVITY_MIN) <= list.examined;
        if list.examined < EXAMINED_MIN || !is_selective {
            return None;
        }
        let threshold = objects.saturating_mul(WASTED_SCANS_MIN);
        let mut accounts = self.wasted_scans();
        let mut recommended = None;
        let candidates = index_candidates(list.query).take(REQUIREMENTS_MAX);
        for candidate in candidates.filter(|candidate| !is_indexed(&candidate.attribute)) {
            let attribute = &candidate.attribute;
            if accounts.len() >= ATTRIBUTES_MAX && !accounts.contains_key(attribute) {
                evict_least_wasted(&mut accounts);
            }
            let account = accounts.entry(attribute.clone()).or_default();
            account.wasted_entries += list.examined - list.matched;
            let is_due = account.wasted_entries >= threshold && account.blocked_until.is_none();
            if is_due && recommended.is_none() {
                account.blocked_until = Some(now + RETRY_AFTER);
                account.wasted_entries = 0;
                recommended = Some(candidate);
            }
        }
        recommended
    }

    /// The index was built, or dropped again: start counting afresh.
    pub(crate) fn forget(&self, attribute: &IndexedAttribute) {
        self.wasted_scans().remove(attribute);
    }

    /// Do not recommend the index before `until`.
    pub(crate) fn block(&self, attribute: &IndexedAttribute, until: Duration) {
        if let Some(account) = self.wasted_scans().get_mut(attribute) {
            account.blocked_until = Some(until);
        }
    }

    /// Call every few seconds: reduces the weight of older lists.
    pub(crate) fn decay(&self, now: Duration) {
        self.wasted_scans().retain(|_, account| {
            account.wasted_entries -= account.wasted_entries.div_ceil(8);
            account.blocked_until = account.blocked_until.filter(|until| *until > now);
            account.wasted_entries > 0 || account.blocked_until.is_some()
        });
    }

    fn wasted_scans(&self) -> MutexGuard<'_, HashMap<IndexedAttribute, WastedScans>> {
        self.wasted_scans.lock()
    }
}

/// Makes room by removing the attribute with the least wasted work.
fn evict_least_wasted(accounts: &mut HashMap<IndexedAttribute, WastedScans>) {
    let least = accounts
        .iter()
        .min_by_key(|(_, account)| account.wasted_entries);
    if let Some(attribute) = least.map(|(attribute, _)| attribute.clone()) {
        accounts.remove(&attribute);
    }
}

/// The attributes whose index could serve the query.
fn index_candidates(query: &SelectorQuery<'_>) -> impl Iterator<Item = IndexCandidate> {
    let labels = query.labels.requirements().unwrap_or_default();
    let by_label = labels.iter().filter_map(|requirement| {
        Some(IndexCandidate {
            attribute: IndexedAttribute::Label(requirement.key().into()),
            values: requirement.exact_values()?.to_vec(),
        })
    });
    let fields = query.fields.requirements().unwrap_or_default();
    let by_field = fields
        .iter()
        .filter(|requirement| requirement.operator() == Operator::Equals)
        .filter_map(|requirement| {
            let mut names = query.field_names.iter();
            let index = names.position(|name| **name == *requirement.field())?;
            Some(IndexCandidate {
                attribute: IndexedAttribute::Field(index),
                values: vec![requirement.value().into()],
            })
        });
    by_label.chain(by_field)
}
