//! Whether a write finds room.

use std::collections::BTreeSet;
use std::fmt;

use rhumb_api::Object;

use super::Book;
use super::cohort::Cohort;
use crate::{Amounts, Charge, Limited, Meter, Quota, Requirement};

/// A write that asks for room.
#[derive(Debug)]
pub struct Ask<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub meter: &'a Meter,
    pub charge: &'a Charge,
    /// What the object counted for before; absent for a new one.
    pub old: Option<&'a Charge>,
    pub object: &'a Object,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No quota looks at it, or it uses nothing more than before.
    Free,
    Fits,
    /// It does not fit beside what is being written at the moment, some of which may come to nothing.
    Wait,
    Refused(Refusal),
}

/// Why there is no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Exceeded {
        quota: Box<str>,
        scopes: Vec<Requirement>,
        requested: Amounts,
        used: Amounts,
        limited: Amounts,
    },
    /// The object says too little for a quota to count it.
    Incomplete {
        quota: Box<str>,
        missing: String,
    },
    Negative(Vec<String>),
    /// It may be used only where a quota says how much, and none does.
    NoQuotaFor(Vec<String>),
    NoQuotaIn(Vec<Requirement>),
}

impl Refusal {
    /// One word for each kind.
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::Exceeded { .. } => "exceeded",
            Refusal::Incomplete { .. } => "incomplete",
            Refusal::Negative(_) => "negative",
            Refusal::NoQuotaFor(_) | Refusal::NoQuotaIn(_) => "no_quota",
        }
    }

    /// The scopes that it is about.
    pub fn scopes(&self) -> &[Requirement] {
        match self {
            Refusal::Exceeded { scopes, .. } | Refusal::NoQuotaIn(scopes) => scopes,
            Refusal::Incomplete { .. } | Refusal::Negative(_) | Refusal::NoQuotaFor(_) => &[],
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Exceeded {
                quota,
                requested,
                used,
                limited,
                ..
            } => write!(
                f,
                "exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}"
            ),
            Refusal::Incomplete { quota, missing } => write!(f, "failed quota: {quota}: {missing}"),
            Refusal::Negative(names) => {
                let names = names.join(",");
                write!(f, "quota usage is negative for resource(s): {names}")
            }
            Refusal::NoQuotaFor(names) => {
                write!(f, "insufficient quota to consume: {}", names.join(","))
            }
            Refusal::NoQuotaIn(scopes) => {
                let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
                let scopes = scopes.join(" ");
                write!(f, "insufficient quota to match these scopes: [{scopes}]")
            }
        }
    }
}

pub(super) fn judge(book: &Book, ask: &Ask<'_>, limited: &[Limited]) -> Verdict {
    let concerned = match concerned(book, ask) {
        Ok(concerned) => concerned,
        Err(refusal) => return Verdict::Refused(refusal),
    };
    let negative: Vec<String> = ask
        .charge
        .amounts
        .iter()
        .filter(|(_, amount)| amount.is_negative())
        .map(|(name, _)| name.to_string())
        .collect();
    if !negative.is_empty() {
        return Verdict::Refused(Refusal::Negative(negative));
    }
    if !needs_anything(ask, &concerned) {
        return Verdict::Free;
    }
    if let Some(refusal) = uncovered(book, ask, limited, &concerned) {
        return Verdict::Refused(refusal);
    }
    if concerned.is_empty() {
        return Verdict::Free;
    }
    let mut verdict = Verdict::Fits;
    for (quota, cohort) in concerned {
        match room(quota, cohort, ask) {
            Verdict::Refused(refusal) => return Verdict::Refused(refusal),
            Verdict::Wait => verdict = Verdict::Wait,
            Verdict::Fits | Verdict::Free => {}
        }
    }
    verdict
}

/// The quotas that look at the object, if it says all that they have to know.
fn concerned<'a>(book: &'a Book, ask: &Ask<'_>) -> Result<Vec<(&'a Quota, &'a Cohort)>, Refusal> {
    let looks: Vec<bool> = book
        .cohorts
        .iter()
        .map(|cohort| cohort.looks_at(&ask.charge.traits))
        .collect();
    let mut concerned = Vec::new();
    for (quota, &at) in book.quotas.iter().zip(&book.members) {
        if !looks[at] || !quota.hard.names().any(|name| ask.meter.covers(name)) {
            continue;
        }
        if let Some(missing) = ask.meter.missing(&quota.hard, ask.object) {
            let quota = quota.name.clone();
            return Err(Refusal::Incomplete { quota, missing });
        }
        concerned.push((quota, &book.cohorts[at]));
    }
    Ok(concerned)
}

/// Whether the write uses more of anything than before.
fn needs_anything(ask: &Ask<'_>, concerned: &[(&Quota, &Cohort)]) -> bool {
    if concerned.is_empty() {
        return Cohort::new(Vec::new())
            .needs(ask.charge, ask.old)
            .next()
            .is_some();
    }
    let mut cohorts = concerned.iter().map(|(_, cohort)| cohort);
    cohorts.any(|cohort| cohort.needs(ask.charge, ask.old).next().is_some())
}

/// What may be used only where a quota covers it, and none does.
fn uncovered(
    book: &Book,
    ask: &Ask<'_>,
    limited: &[Limited],
    concerned: &[(&Quota, &Cohort)],
) -> Option<Refusal> {
    let limited = limited
        .iter()
        .filter(|limited| limited.group == ask.group && limited.resource == ask.resource);
    let (mut names, mut scopes) = (BTreeSet::new(), Vec::new());
    for limited in limited {
        let consumed = ask.charge.amounts.iter();
        let consumed = consumed.filter(|(_, amount)| amount.sign() > 0);
        for (name, _) in consumed {
            let is_limited = limited.contains.iter().any(|part| name.contains(&**part));
            let is_covered = || {
                let mut quotas = concerned.iter();
                quotas.any(|(quota, _)| quota.hard.get(name).is_some())
            };
            if is_limited && !is_covered() {
                names.insert(name.to_string());
            }
        }
        let asked = limited.scopes.iter();
        let asked = asked.filter(|scope| scope.matches(&ask.charge.traits));
        scopes.extend(
            asked
                .filter(|scope| !is_scope_covered(book, ask, scope))
                .cloned(),
        );
    }
    if !names.is_empty() {
        return Some(Refusal::NoQuotaFor(names.into_iter().collect()));
    }
    (!scopes.is_empty()).then_some(Refusal::NoQuotaIn(scopes))
}

fn is_scope_covered(book: &Book, ask: &Ask<'_>, wanted: &Requirement) -> bool {
    let scopes = book.cohorts.iter().flat_map(|cohort| &cohort.scopes);
    let mut matching = scopes.filter(|scope| scope.matches(&ask.charge.traits));
    matching.any(|scope| scope.scope == wanted.scope)
}

/// Whether one quota has room.
fn room(quota: &Quota, cohort: &Cohort, ask: &Ask<'_>) -> Verdict {
    let mut exceeded = [(); 3].map(|()| Amounts::default());
    let mut is_full = false;
    for (name, needed) in cohort.needs(ask.charge, ask.old) {
        let (Some(limit), Some(used)) = (quota.hard.get(name), cohort.used(name)) else {
            continue;
        };
        let mut total = used.clone();
        total.add(&needed);
        if total > *limit {
            let [requested, in_use, limited] = &mut exceeded;
            requested.set(name.clone(), needed);
            in_use.set(name.clone(), used.clone());
            limited.set(name.clone(), limit.clone());
            continue;
        }
        if let Some(held) = cohort.held(name) {
            total.add(held);
            is_full |= total > *limit;
        }
    }
    let [requested, used, limited] = exceeded;
    if !requested.is_empty() {
        return Verdict::Refused(Refusal::Exceeded {
            quota: quota.name.clone(),
            scopes: quota.scopes.clone(),
            requested,
            used,
            limited,
        });
    }
    if is_full {
        Verdict::Wait
    } else {
        Verdict::Fits
    }
}
