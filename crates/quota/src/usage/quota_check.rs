//! Checks a write against the quotas of its namespace (upstream: `resourcequota.CheckRequest`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use rhumb_api::JsonObject;
use rhumb_meta::Quantity;

use super::NamespaceUsage;
use super::scope_group::ScopeGroup;
use crate::{
    Evaluator, LimitedResource, ObjectUsage, ResourceName, ResourceQuantities, ResourceQuota,
    ScopeRequirement,
};

/// A write to be checked against quotas.
#[derive(Debug)]
pub struct UsageRequest<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub evaluator: &'a Evaluator,
    pub new_usage: &'a ObjectUsage,
    /// Usage of the object before the write; absent for a new one.
    pub old_usage: Option<&'a ObjectUsage>,
    pub object: &'a dyn DecodableObject,
}

/// The object of a write. It is needed only to name its containers in a denial, so it may be decoded for that.
pub trait DecodableObject: fmt::Debug + Sync {
    fn decoded(&self) -> Cow<'_, JsonObject>;
}

impl DecodableObject for JsonObject {
    fn decoded(&self) -> Cow<'_, JsonObject> {
        Cow::Borrowed(self)
    }
}

/// Result of checking a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaVerdict {
    /// No quota counts the object, or its usage does not increase.
    Free,
    Fits,
    /// It does not fit with the current reservations, some of which may be released without being used.
    Wait,
    Denied(QuotaDenial),
}

/// Why a write is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaDenial {
    Exceeded {
        quota: Box<str>,
        scopes: Vec<ScopeRequirement>,
        requested: ResourceQuantities,
        used: ResourceQuantities,
        limited: ResourceQuantities,
    },
    /// Containers do not specify a request or limit that a quota counts.
    Incomplete {
        quota: Box<str>,
        missing: String,
    },
    Negative(Vec<String>),
    /// `limitedResources` require a covering quota, and there is none.
    NoQuotaForResources(Vec<String>),
    NoQuotaForScopes(Vec<ScopeRequirement>),
}

impl QuotaDenial {
    /// The metric label of the denial.
    pub fn reason(&self) -> &'static str {
        match self {
            QuotaDenial::Exceeded { .. } => "exceeded",
            QuotaDenial::Incomplete { .. } => "incomplete",
            QuotaDenial::Negative(_) => "negative",
            QuotaDenial::NoQuotaForResources(_) | QuotaDenial::NoQuotaForScopes(_) => "no_quota",
        }
    }

    /// The scopes of the quota that denies, or those without a covering quota.
    pub fn scopes(&self) -> &[ScopeRequirement] {
        match self {
            QuotaDenial::Exceeded { scopes, .. } | QuotaDenial::NoQuotaForScopes(scopes) => scopes,
            QuotaDenial::Incomplete { .. }
            | QuotaDenial::Negative(_)
            | QuotaDenial::NoQuotaForResources(_) => &[],
        }
    }
}

impl fmt::Display for QuotaDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuotaDenial::Exceeded {
                quota,
                requested,
                used,
                limited,
                ..
            } => write!(
                f,
                "exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}"
            ),
            QuotaDenial::Incomplete { quota, missing } => {
                write!(f, "failed quota: {quota}: {missing}")
            }
            QuotaDenial::Negative(names) => {
                let names = names.join(",");
                write!(f, "quota usage is negative for resource(s): {names}")
            }
            QuotaDenial::NoQuotaForResources(names) => {
                write!(f, "insufficient quota to consume: {}", names.join(","))
            }
            QuotaDenial::NoQuotaForScopes(scopes) => {
                let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
                let scopes = scopes.join(" ");
                write!(f, "insufficient quota to match these scopes: [{scopes}]")
            }
        }
    }
}

pub(super) fn check(
    namespace_usage: &NamespaceUsage,
    request: &UsageRequest<'_>,
    limited: &[LimitedResource],
) -> QuotaVerdict {
    let groups = match matching_groups(namespace_usage, request) {
        Ok(groups) => groups,
        Err(denial) => return QuotaVerdict::Denied(denial),
    };
    let negative: Vec<String> = request
        .new_usage
        .quantities
        .iter()
        .filter(|(_, amount)| amount.is_negative())
        .map(|(name, _)| name.to_string())
        .collect();
    if !negative.is_empty() {
        return QuotaVerdict::Denied(QuotaDenial::Negative(negative));
    }
    if !increases_usage(request, &groups) {
        return QuotaVerdict::Free;
    }
    if let Some(denial) = find_uncovered(namespace_usage, request, limited, &groups) {
        return QuotaVerdict::Denied(denial);
    }
    if groups.is_empty() {
        return QuotaVerdict::Free;
    }
    let mut verdict = QuotaVerdict::Fits;
    for group in groups.iter().filter(|group| !group.fits_all()) {
        for quota in group.quotas() {
            match check_quota(quota, &group.demands) {
                QuotaVerdict::Denied(denial) => return QuotaVerdict::Denied(denial),
                QuotaVerdict::Wait => verdict = QuotaVerdict::Wait,
                QuotaVerdict::Fits | QuotaVerdict::Free => {}
            }
        }
    }
    verdict
}

/// A scope group that counts the object, and what the write demands of its quotas.
struct MatchingScopeGroup<'a> {
    usage: &'a NamespaceUsage,
    group: usize,
    resource: usize,
    demands: Vec<ResourceDemand<'a>>,
}

impl<'a> MatchingScopeGroup<'a> {
    fn scope_group(&self) -> &'a ScopeGroup {
        &self.usage.groups[self.group]
    }

    fn quotas(&self) -> impl Iterator<Item = &'a ResourceQuota> + use<'a> {
        let (group_index, resource) = (self.group, self.resource);
        let quotas = self.usage.quotas.iter().zip(&self.usage.quota_memberships);
        quotas
            .filter(move |(_, member)| {
                member.group == group_index && member.resources.contains(&resource)
            })
            .map(|(quota, _)| quota)
    }

    /// Whether the write fits into all quotas of the group: the common case, in time independent of their number.
    fn fits_all(&self) -> bool {
        self.demands.iter().all(|demand| {
            let tightest = self.scope_group().tightest(demand.name);
            tightest.is_none_or(|tightest| demand.total_reserved <= *tightest)
        })
    }

    /// Fails if the object does not specify something that a quota of the group counts.
    fn check_complete(&self, request: &UsageRequest<'_>) -> Result<(), QuotaDenial> {
        let mut unnamed = request.new_usage.unspecified.iter();
        if !unnamed.any(|name| self.scope_group().tracks(name)) {
            return Ok(());
        }
        for quota in self.quotas() {
            if let Some(missing) = request
                .evaluator
                .missing_constraints(&quota.hard, &request.object.decoded())
            {
                let quota = quota.name.clone();
                return Err(QuotaDenial::Incomplete { quota, missing });
            }
        }
        Ok(())
    }
}

/// Demand of a write for one resource name.
struct ResourceDemand<'a> {
    name: &'a ResourceName,
    needed: Quantity,
    used: &'a Quantity,
    /// Usage after the write.
    total: Quantity,
    /// Usage after the write and all reserved writes.
    total_reserved: Quantity,
}

/// All scope groups that count the object. Fails if the object does not specify what a quota counts.
fn matching_groups<'a>(
    namespace_usage: &'a NamespaceUsage,
    request: &UsageRequest<'a>,
) -> Result<Vec<MatchingScopeGroup<'a>>, QuotaDenial> {
    let mut resources = namespace_usage.resources.iter();
    let Some(resource) = resources.position(|resource| resource.evaluator == *request.evaluator)
    else {
        return Ok(Vec::new());
    };
    let mut groups = Vec::new();
    for (group_index, scope_group) in namespace_usage.groups.iter().enumerate() {
        if !scope_group.resources.contains(&resource)
            || !scope_group.matches(&request.new_usage.scope_attributes)
        {
            continue;
        }
        let demands = scope_group.increases(request.new_usage, request.old_usage);
        let demands =
            demands.filter_map(|(name, needed)| ResourceDemand::of(scope_group, name, needed));
        let group = MatchingScopeGroup {
            usage: namespace_usage,
            group: group_index,
            resource,
            demands: demands.collect(),
        };
        group.check_complete(request)?;
        groups.push(group);
    }
    Ok(groups)
}

impl<'a> ResourceDemand<'a> {
    /// `None` if no quota of the group counts the name.
    fn of(
        scope_group: &'a ScopeGroup,
        name: &'a ResourceName,
        needed: Quantity,
    ) -> Option<ResourceDemand<'a>> {
        let (used, reserved) = (scope_group.used(name)?, scope_group.reserved(name)?);
        let mut total = used.clone();
        total.add(&needed);
        let mut total_reserved = total.clone();
        total_reserved.add(reserved);
        Some(ResourceDemand {
            name,
            needed,
            used,
            total,
            total_reserved,
        })
    }
}

/// Whether the write increases any usage, counted by a quota or not.
fn increases_usage(request: &UsageRequest<'_>, groups: &[MatchingScopeGroup<'_>]) -> bool {
    let needs = |scope_group: &ScopeGroup| {
        scope_group
            .increases(request.new_usage, request.old_usage)
            .next()
            .is_some()
    };
    match groups {
        [] => needs(&ScopeGroup::new(Vec::new())),
        groups => groups.iter().any(|group| needs(group.scope_group())),
    }
}

/// The limited resources or scopes of the write that no quota covers.
fn find_uncovered(
    namespace_usage: &NamespaceUsage,
    request: &UsageRequest<'_>,
    limited: &[LimitedResource],
    groups: &[MatchingScopeGroup<'_>],
) -> Option<QuotaDenial> {
    let limited = limited
        .iter()
        .filter(|limited| limited.applies_to(request.group, request.resource));
    let (mut names, mut scopes) = (BTreeSet::new(), Vec::new());
    for limited in limited {
        let consumed = request.new_usage.quantities.iter();
        let consumed = consumed.filter(|(_, amount)| amount.sign() > 0);
        for (name, _) in consumed {
            let is_limited = limited
                .match_contains
                .iter()
                .any(|part| name.contains(&**part));
            let is_covered = || {
                let mut quotas = groups.iter().flat_map(MatchingScopeGroup::quotas);
                quotas.any(|quota| quota.hard.get(name).is_some())
            };
            if is_limited && !is_covered() {
                names.insert(name.to_string());
            }
        }
        let requested = limited.match_scopes.iter();
        let requested =
            requested.filter(|scope| scope.matches(&request.new_usage.scope_attributes));
        scopes.extend(
            requested
                .filter(|scope| !is_scope_covered(namespace_usage, request, scope))
                .cloned(),
        );
    }
    if !names.is_empty() {
        return Some(QuotaDenial::NoQuotaForResources(
            names.into_iter().collect(),
        ));
    }
    (!scopes.is_empty()).then_some(QuotaDenial::NoQuotaForScopes(scopes))
}

fn is_scope_covered(
    namespace_usage: &NamespaceUsage,
    request: &UsageRequest<'_>,
    wanted: &ScopeRequirement,
) -> bool {
    let scopes = namespace_usage
        .groups
        .iter()
        .flat_map(|scope_group| &scope_group.scopes);
    let mut matching = scopes.filter(|scope| scope.matches(&request.new_usage.scope_attributes));
    matching.any(|scope| scope.scope == wanted.scope)
}

/// Checks the demands against one quota.
fn check_quota(quota: &ResourceQuota, demands: &[ResourceDemand<'_>]) -> QuotaVerdict {
    let (mut is_exceeded, mut is_full) = (false, false);
    for demand in demands {
        if let Some(limit) = quota.hard.get(demand.name) {
            is_exceeded |= demand.total > *limit;
            is_full |= demand.total_reserved > *limit;
        }
    }
    match (is_exceeded, is_full) {
        (true, _) => QuotaVerdict::Denied(exceeded(quota, demands)),
        (false, true) => QuotaVerdict::Wait,
        (false, false) => QuotaVerdict::Fits,
    }
}

fn exceeded(quota: &ResourceQuota, demands: &[ResourceDemand<'_>]) -> QuotaDenial {
    let [mut requested, mut used, mut limited] = [(); 3].map(|()| ResourceQuantities::default());
    for demand in demands {
        let limit = quota.hard.get(demand.name);
        if let Some(limit) = limit.filter(|limit| demand.total > **limit) {
            requested.set(demand.name.clone(), demand.needed.clone());
            used.set(demand.name.clone(), demand.used.clone());
            limited.set(demand.name.clone(), limit.clone());
        }
    }
    QuotaDenial::Exceeded {
        quota: quota.name.clone(),
        scopes: quota.scopes.clone(),
        requested,
        used,
        limited,
    }
}
