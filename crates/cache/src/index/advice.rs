//! Which indexes would pay, by the objects that lists look at in vain.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rhumb_meta::fields::Operator;

use super::{Attribute, Query};

/// Lists that look at fewer objects are quick enough.
const LOOKED_AT_MIN: usize = 256;

/// A list is selective if it picks at most one of this many objects it looks at.
pub(crate) const SELECTIVE: usize = 8;

/// An index pays when this many lists of everything were in vain of late; to build it costs about as much as ten.
const LISTS_IN_VAIN: usize = 16;

/// How many attributes are kept account of.
const ATTRIBUTES_MAX: usize = 256;

/// How many requirements of one list are taken account of.
const REQUIREMENTS_MAX: usize = 8;

/// How long an attribute stays out of question of which an index would not help.
const USELESS_FOR: Duration = Duration::from_secs(3600);

/// How a list went.
pub(crate) struct Seen<'a> {
    pub(crate) query: &'a Query<'a>,
    pub(crate) is_scan: bool,
    pub(crate) looked_at: usize,
    pub(crate) picked: usize,
}

/// An index that lists would use.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) attribute: Attribute,
    /// What the last of them asked for.
    pub(crate) values: Vec<Box<str>>,
}

#[derive(Debug, Default)]
pub(crate) struct Advice {
    accounts: Mutex<HashMap<Attribute, Account>>,
}

#[derive(Debug, Default)]
struct Account {
    /// Objects that lists with this attribute looked at and did not pick, of late.
    in_vain: usize,
    /// An index is being built, or would not help, until then.
    barred_until: Option<Duration>,
}

impl Advice {
    /// Takes account of a list among so many objects, and says of what an index should be built. Whoever is told
    /// does so, and then calls [`Advice::settle`] or [`Advice::bar`].
    pub(crate) fn note(
        &self,
        seen: &Seen<'_>,
        objects: usize,
        is_indexed: impl Fn(&Attribute) -> bool,
        now: Duration,
    ) -> Option<Wanted> {
        let is_selective = seen.picked.saturating_mul(SELECTIVE) <= seen.looked_at;
        if seen.looked_at < LOOKED_AT_MIN || !is_selective {
            return None;
        }
        let worth = objects.saturating_mul(LISTS_IN_VAIN);
        let mut accounts = self.accounts();
        let mut advised = None;
        let wanted = wanted(seen.query).take(REQUIREMENTS_MAX);
        for wanted in wanted.filter(|wanted| !is_indexed(&wanted.attribute)) {
            let attribute = &wanted.attribute;
            if accounts.len() >= ATTRIBUTES_MAX && !accounts.contains_key(attribute) {
                give_up_least(&mut accounts);
            }
            let account = accounts.entry(attribute.clone()).or_default();
            account.in_vain += seen.looked_at - seen.picked;
            let is_due = account.in_vain >= worth && account.barred_until.is_none();
            if is_due && advised.is_none() {
                account.barred_until = Some(now + USELESS_FOR);
                account.in_vain = 0;
                advised = Some(wanted);
            }
        }
        advised
    }

    /// The index is there, or was dropped again: it may be asked for anew.
    pub(crate) fn settle(&self, attribute: &Attribute) {
        self.accounts().remove(attribute);
    }

    /// The index cannot be until then.
    pub(crate) fn bar(&self, attribute: &Attribute, until: Duration) {
        if let Some(account) = self.accounts().get_mut(attribute) {
            account.barred_until = Some(until);
        }
    }

    /// To be called every few seconds: what was long ago counts less and less.
    pub(crate) fn fade(&self, now: Duration) {
        self.accounts().retain(|_, account| {
            account.in_vain -= account.in_vain.div_ceil(8);
            account.barred_until = account.barred_until.filter(|until| *until > now);
            account.in_vain > 0 || account.barred_until.is_some()
        });
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<Attribute, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes room by forgetting what lists looked for in vain the least.
fn give_up_least(accounts: &mut HashMap<Attribute, Account>) {
    let least = accounts.iter().min_by_key(|(_, account)| account.in_vain);
    if let Some(attribute) = least.map(|(attribute, _)| attribute.clone()) {
        accounts.remove(&attribute);
    }
}

/// What an index could find the objects of the query by.
fn wanted(query: &Query<'_>) -> impl Iterator<Item = Wanted> {
    let labels = query.labels.requirements().unwrap_or_default();
    let by_label = labels.iter().filter_map(|requirement| {
        Some(Wanted {
            attribute: Attribute::Label(requirement.key().into()),
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
            Some(Wanted {
                attribute: Attribute::Field(index),
                values: vec![requirement.value().into()],
            })
        });
    by_label.chain(by_field)
}
