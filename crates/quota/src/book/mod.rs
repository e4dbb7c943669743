//! What a namespace uses, and what is still free.
//!
//! Objects are entered as the cache shows them ([`Book::enter`]), so a book is never wrong for long, whatever failed
//! or crashed in between. What is being written at the moment is held ([`Book::hold`]) until the cache shows it or
//! until it is known that it never will. Quotas that look at the same objects share one sum (`cohort.rs`).

mod cohort;
mod holds;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::{BTreeSet, HashMap};

use rhumb_meta::{Quantity, Timestamp};

use crate::{Amounts, Charge, Limited, Meter, Quota};
use cohort::Cohort;
use holds::{Held, Holds};

pub use holds::HoldId;
pub use verdict::{Ask, Refusal, Verdict};

/// The resources of one namespace that its quotas count.
#[derive(Debug, Default)]
pub struct Book {
    quotas: Vec<Quota>,
    /// What is known of each quota, whatever it allows.
    members: Vec<Member>,
    cohorts: Vec<Cohort>,
    sheets: Vec<Sheet>,
    holds: Holds,
}

/// What a quota counts.
#[derive(Debug)]
struct Member {
    /// The place of its cohort.
    cohort: usize,
    /// The places of the sheets that it limits something of.
    sheets: Vec<usize>,
}

/// The objects of one resource.
#[derive(Debug)]
struct Sheet {
    meter: Meter,
    charges: HashMap<Box<str>, Charge>,
    /// When which object counts for less, though nothing changes.
    lapses: BTreeSet<(Timestamp, Box<str>)>,
}

impl Book {
    /// A book without objects: those of `meters` are to be entered, by their places in the list.
    pub fn new(quotas: Vec<Quota>, meters: Vec<Meter>) -> Book {
        let mut cohorts: Vec<Cohort> = Vec::new();
        let members = quotas.iter().map(|quota| {
            let known = cohorts
                .iter()
                .position(|cohort| cohort.scopes == quota.scopes);
            let at = known.unwrap_or_else(|| {
                cohorts.push(Cohort::new(quota.scopes.clone()));
                cohorts.len() - 1
            });
            cohorts[at].count(quota.hard.names());
            let is_limited = |meter: &Meter| quota.hard.names().any(|name| meter.covers(name));
            let sheets = meters.iter().enumerate();
            let sheets = sheets.filter(|(_, meter)| is_limited(meter));
            let sheets: Vec<usize> = sheets.map(|(place, _)| place).collect();
            cohorts[at].sheets.extend(&sheets);
            Member { cohort: at, sheets }
        });
        let members = members.collect();
        let sheet = |meter| Sheet {
            meter,
            charges: HashMap::new(),
            lapses: BTreeSet::new(),
        };
        let mut book = Book {
            quotas,
            members,
            cohorts,
            sheets: meters.into_iter().map(sheet).collect(),
            holds: Holds::default(),
        };
        book.find_tightest();
        book
    }

    /// Takes over what is being written at the moment from a book that this one replaces.
    #[must_use]
    pub fn with_holds_of(mut self, before: Book) -> Book {
        self.holds = before.holds;
        for cohort in &mut self.cohorts {
            self.holds.enter_into(cohort);
        }
        self
    }

    /// The same quotas, with other limits.
    pub fn set_quotas(&mut self, quotas: Vec<Quota>) {
        self.quotas = quotas;
        self.find_tightest();
    }

    fn find_tightest(&mut self) {
        for (place, cohort) in self.cohorts.iter_mut().enumerate() {
            let quotas = self.quotas.iter().zip(&self.members);
            let quotas = quotas.filter(|(_, member)| member.cohort == place);
            cohort.set_tightest(quotas.map(|(quota, _)| &quota.hard));
        }
    }

    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// Whether something is held.
    pub fn has_holds(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Whether new objects are being written.
    pub fn awaits_new(&self) -> bool {
        self.holds.awaits_new()
    }

    /// A new object is here, and is about to be entered: what was held for it is free.
    pub fn arrived(&mut self, uid: &str) {
        if let Some(held) = self.holds.remove_written(uid) {
            self.unhold(&held);
        }
    }

    /// Enters what an object counts for now, or nothing if it is gone.
    pub fn enter(&mut self, sheet: usize, name: &str, charge: Option<Charge>) {
        let Some(sheet) = self.sheets.get_mut(sheet) else {
            return;
        };
        if let Some(old) = sheet.charges.remove(name) {
            if let Some(at) = old.lapses {
                sheet.lapses.remove(&(at, name.into()));
            }
            self.cohorts.iter_mut().for_each(|cohort| cohort.take(&old));
        }
        let Some(mut charge) = charge.map(Charge::bounded) else {
            return;
        };
        let is_counted = |name: &str| self.cohorts.iter().any(|cohort| cohort.counts(name));
        charge.amounts = charge.amounts.only(is_counted);
        charge.later = charge.later.only(is_counted);
        charge.unnamed = Vec::new();
        self.cohorts
            .iter_mut()
            .for_each(|cohort| cohort.give(&charge));
        if let Some(at) = charge.lapses {
            sheet.lapses.insert((at, name.into()));
        }
        sheet.charges.insert(name.into(), charge);
    }

    /// Forgets all objects of a sheet: they are about to be entered anew.
    pub fn clear(&mut self, sheet: usize) {
        let Some(sheet) = self.sheets.get_mut(sheet) else {
            return;
        };
        for charge in sheet.charges.values() {
            self.cohorts
                .iter_mut()
                .for_each(|cohort| cohort.take(charge));
        }
        sheet.charges.clear();
        sheet.lapses.clear();
    }

    /// Lets time pass: what has lapsed by now counts for less, and writes whose end nobody knows are given up.
    pub fn pass_time(&mut self, now: Timestamp) {
        for sheet in &mut self.sheets {
            while let Some((at, _)) = sheet.lapses.first()
                && *at < now
            {
                let Some((_, name)) = sheet.lapses.pop_first() else {
                    break;
                };
                if let Some(charge) = sheet.charges.get_mut(&name) {
                    self.cohorts
                        .iter_mut()
                        .for_each(|cohort| cohort.take(charge));
                    charge.amounts = std::mem::take(&mut charge.later);
                    charge.lapses = None;
                    self.cohorts
                        .iter_mut()
                        .for_each(|cohort| cohort.give(charge));
                }
            }
        }
        for held in self.holds.give_up(now) {
            self.unhold(&held);
        }
    }

    /// When something lapses next.
    pub fn next_lapse(&self) -> Option<Timestamp> {
        let sheets = self.sheets.iter();
        sheets
            .filter_map(|sheet| Some(sheet.lapses.first()?.0))
            .min()
    }

    /// Whether a write finds room beside all that is used and held.
    pub fn judge(&self, ask: &Ask<'_>, limited: &[Limited]) -> Verdict {
        verdict::judge(self, ask, limited)
    }

    /// Sets aside what a write uses. With a uid it is that of a new object.
    pub fn hold(&mut self, charge: Charge, old: Option<Charge>, uid: Option<&str>) -> HoldId {
        let held = Held {
            charge: charge.bounded(),
            old: old.map(Charge::bounded),
            uid: uid.map(Into::into),
            until: None,
        };
        self.cohorts
            .iter_mut()
            .for_each(|cohort| cohort.hold(&held));
        self.holds.add(held)
    }

    /// The write has failed, or its object is entered.
    pub fn release(&mut self, id: HoldId) {
        if let Some(held) = self.holds.remove(id) {
            self.unhold(&held);
        }
    }

    /// Nobody knows how the write ended, or whether it has. It counts as done for a while.
    pub fn doubt(&mut self, id: HoldId, until: Timestamp) {
        self.holds.doubt(id, until);
    }

    fn unhold(&mut self, held: &Held) {
        self.cohorts
            .iter_mut()
            .for_each(|cohort| cohort.unhold(held));
    }

    /// What is used of everything that a quota limits and somebody measures.
    pub fn used(&self, quota: usize) -> Amounts {
        let (Some(quota), Some(cohort)) = (
            self.quotas.get(quota),
            self.members
                .get(quota)
                .and_then(|member| self.cohorts.get(member.cohort)),
        ) else {
            return Amounts::default();
        };
        let is_measured = |name: &str| self.sheets.iter().any(|sheet| sheet.meter.covers(name));
        quota
            .hard
            .names()
            .filter(|name| is_measured(name))
            .map(|name| {
                let used = cohort.used(name).cloned();
                (name.to_owned().into(), used.unwrap_or(Quantity::ZERO))
            })
            .collect()
    }
}
