//! Whether a write finds room.

use std::collections::BTreeSet;
use std::fmt;

use rhumb_api::Object;
use rhumb_meta::Quantity;

use super::Book;
use super::cohort::Cohort;
use crate::{Amounts, Charge, Limited, Meter, Name, Quota, Requirement};

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
    let views = match views(book, ask) {
        Ok(views) => views,
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
    if !needs_anything(ask, &views) {
        return Verdict::Free;
    }
    if let Some(refusal) = uncovered(book, ask, limited, &views) {
        return Verdict::Refused(refusal);
    }
    if views.is_empty() {
        return Verdict::Free;
    }
    let mut verdict = Verdict::Fits;
    for view in views.iter().filter(|view| !view.fits_all()) {
        for quota in view.quotas() {
            match room(quota, &view.demands) {
                Verdict::Refused(refusal) => return Verdict::Refused(refusal),
                Verdict::Wait => verdict = Verdict::Wait,
                Verdict::Fits | Verdict::Free => {}
            }
        }
    }
    verdict
}

/// Quotas that look at the object, and what it asks of all of them.
struct View<'a> {
    book: &'a Book,
    place: usize,
    sheet: usize,
    demands: Vec<Demand<'a>>,
}

impl<'a> View<'a> {
    fn cohort(&self) -> &'a Cohort {
        &self.book.cohorts[self.place]
    }

    fn quotas(&self) -> impl Iterator<Item = &'a Quota> + use<'a> {
        let (place, sheet) = (self.place, self.sheet);
        let quotas = self.book.quotas.iter().zip(&self.book.members);
        quotas
            .filter(move |(_, member)| member.cohort == place && member.sheets.contains(&sheet))
            .map(|(quota, _)| quota)
    }

    /// Whether there is room in all of them, which is so most of the time, however many there are.
    fn fits_all(&self) -> bool {
        self.demands.iter().all(|demand| {
            let least = self.cohort().tightest(demand.name);
            least.is_none_or(|least| demand.total_held <= *least)
        })
    }

    /// Whether the object says all that they have to know.
    fn check_complete(&self, ask: &Ask<'_>) -> Result<(), Refusal> {
        let mut unnamed = ask.charge.unnamed.iter();
        if !unnamed.any(|name| self.cohort().counts(name)) {
            return Ok(());
        }
        for quota in self.quotas() {
            if let Some(missing) = ask.meter.missing(&quota.hard, ask.object) {
                let quota = quota.name.clone();
                return Err(Refusal::Incomplete { quota, missing });
            }
        }
        Ok(())
    }
}

/// What is asked of one resource.
struct Demand<'a> {
    name: &'a Name,
    needed: Quantity,
    used: &'a Quantity,
    /// What would be used.
    total: Quantity,
    /// The same, with all that is under way.
    total_held: Quantity,
}

/// All quotas that look at the object, if it says all that they have to know.
fn views<'a>(book: &'a Book, ask: &Ask<'a>) -> Result<Vec<View<'a>>, Refusal> {
    let mut sheets = book.sheets.iter();
    let Some(sheet) = sheets.position(|sheet| sheet.meter == *ask.meter) else {
        return Ok(Vec::new());
    };
    let mut views = Vec::new();
    for (place, cohort) in book.cohorts.iter().enumerate() {
        if !cohort.sheets.contains(&sheet) || !cohort.looks_at(&ask.charge.traits) {
            continue;
        }
        let demands = cohort.needs(ask.charge, ask.old);
        let demands = demands.filter_map(|(name, needed)| Demand::of(cohort, name, needed));
        let view = View {
            book,
            place,
            sheet,
            demands: demands.collect(),
        };
        view.check_complete(ask)?;
        views.push(view);
    }
    Ok(views)
}

impl<'a> Demand<'a> {
    /// Nothing if nobody counts it.
    fn of(cohort: &'a Cohort, name: &'a Name, needed: Quantity) -> Option<Demand<'a>> {
        let (used, held) = (cohort.used(name)?, cohort.held(name)?);
        let mut total = used.clone();
        total.add(&needed);
        let mut total_held = total.clone();
        total_held.add(held);
        Some(Demand {
            name,
            needed,
            used,
            total,
            total_held,
        })
    }
}

/// Whether the write uses more of anything than before, whether or not a quota counts that.
fn needs_anything(ask: &Ask<'_>, views: &[View<'_>]) -> bool {
    let needs = |cohort: &Cohort| cohort.needs(ask.charge, ask.old).next().is_some();
    match views {
        [] => needs(&Cohort::new(Vec::new())),
        views => views.iter().any(|view| needs(view.cohort())),
    }
}

/// What may be used only where a quota covers it, and none does.
fn uncovered(
    book: &Book,
    ask: &Ask<'_>,
    limited: &[Limited],
    views: &[View<'_>],
) -> Option<Refusal> {
    let limited = limited
        .iter()
        .filter(|limited| limited.is_about(ask.group, ask.resource));
    let (mut names, mut scopes) = (BTreeSet::new(), Vec::new());
    for limited in limited {
        let consumed = ask.charge.amounts.iter();
        let consumed = consumed.filter(|(_, amount)| amount.sign() > 0);
        for (name, _) in consumed {
            let is_limited = limited.contains.iter().any(|part| name.contains(&**part));
            let is_covered = || {
                let mut quotas = views.iter().flat_map(View::quotas);
                quotas.any(|quota| quota.hard.get(name).is_some())
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
fn room(quota: &Quota, demands: &[Demand<'_>]) -> Verdict {
    let (mut is_exceeded, mut is_full) = (false, false);
    for demand in demands {
        if let Some(limit) = quota.hard.get(demand.name) {
            is_exceeded |= demand.total > *limit;
            is_full |= demand.total_held > *limit;
        }
    }
    match (is_exceeded, is_full) {
        (true, _) => Verdict::Refused(exceeded(quota, demands)),
        (false, true) => Verdict::Wait,
        (false, false) => Verdict::Fits,
    }
}

fn exceeded(quota: &Quota, demands: &[Demand<'_>]) -> Refusal {
    let [mut requested, mut used, mut limited] = [(); 3].map(|()| Amounts::default());
    for demand in demands {
        let limit = quota.hard.get(demand.name);
        if let Some(limit) = limit.filter(|limit| demand.total > **limit) {
            requested.set(demand.name.clone(), demand.needed.clone());
            used.set(demand.name.clone(), demand.used.clone());
            limited.set(demand.name.clone(), limit.clone());
        }
    }
    Refusal::Exceeded {
        quota: quota.name.clone(),
        scopes: quota.scopes.clone(),
        requested,
        used,
        limited,
    }
}
