//! What a cluster cannot do without, and which webhooks stand in its way.
//!
//! A webhook with `failurePolicy: Fail` that does not answer stops every write that it is asked about. Where these are
//! the heartbeats of nodes or the questions whether a token is good, the cluster stops with it. An operator says what is
//! critical (`file.rs`), or leaves it to what every cluster depends on (`built_in.rs`). What a webhook intercepts is
//! found by asking its own [`Criteria`] about writes that would be critical, so that rules, exclusions and selectors
//! mean here what they mean when the write comes. `advice.rs` says it to people.

mod advice;
mod built_in;
mod file;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rhumb_meta::labels::Labels;

use crate::conditions::{Conditions, Met};
use crate::criteria::Outcome;
use crate::exclusion::Exclusion;
use crate::explain::Write;
use crate::facts::{Facts, LabelSets, Names, Operation, is_namespaces};
use crate::review::UserInfo;
use crate::webhook::Webhook;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// Stands for all namespaces that do not exist yet.
const TO_COME: &str = "a-namespace-to-come";
/// How many writes are imagined, at most, to judge all webhooks of one configuration.
const PROBES_MAX: usize = 200_000;
/// How often conditions are evaluated for that, at most.
const JUDGEMENTS_MAX: usize = 1_000;

/// What is critical. Every entry has the form of an exclusion rule, since that is what it asks webhooks to have.
#[derive(Debug, Clone)]
pub struct CriticalResources {
    rules: Vec<CriticalRule>,
}

#[derive(Debug, Clone)]
pub struct CriticalRule {
    /// What people call it.
    name: String,
    /// Why it is critical; may be empty.
    reason: String,
    /// The rule in JSON, ready to be put into a webhook.
    json: String,
    exclusion: Exclusion,
    /// Where the file has it; 0 if it is in none.
    line: u64,
}

impl CriticalRule {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The exclusion rule that a webhook needs.
    pub fn json(&self) -> &str {
        &self.json
    }

    pub fn line(&self) -> u64 {
        self.line
    }

    /// Whether any of the resources is meant by it.
    pub fn is_about_any(&self, resources: &[Known<'_>]) -> bool {
        resources.iter().any(|known| self.is_about(known))
    }

    fn is_about(&self, known: &Known<'_>) -> bool {
        let rule = self.exclusion.rule();
        rule.matches_resource(&known.names.resource, known.subresource)
    }
}

/// Something that can be written in a cluster: a resource in one version, or one of its subresources.
#[derive(Debug, Clone)]
pub struct Known<'a> {
    pub names: &'a Names,
    /// The other names of the same objects.
    pub equivalents: &'a [Names],
    pub subresource: &'a str,
    pub is_namespaced: bool,
    pub operations: Vec<Operation>,
}

#[derive(Debug, Clone)]
pub struct Namespace {
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

impl Namespace {
    /// One of which nothing is known but its name, which every namespace has as a label.
    pub fn named(name: &str) -> Namespace {
        Namespace {
            name: name.to_owned(),
            labels: BTreeMap::from([(NAME_LABEL.to_owned(), name.to_owned())]),
        }
    }
}

/// What there is in a cluster, as far as it decides what a webhook sees.
#[derive(Debug, Clone)]
pub struct Cluster<'a> {
    pub resources: Vec<Known<'a>>,
    pub namespaces: Vec<Namespace>,
}

/// What a rule is about in a cluster. It is the same for all webhooks, so it is found only once.
struct Target<'a> {
    rule: &'a CriticalRule,
    resources: Vec<&'a Known<'a>>,
    /// None unless the resources are in some.
    namespaces: Vec<Cow<'a, Namespace>>,
}

/// A place where a critical object may be.
struct Place<'a> {
    namespace: &'a str,
    name: &'a str,
    labels: &'a BTreeMap<String, String>,
}

/// A webhook, and those of its conditions that can be judged without a request.
struct Hook<'a> {
    webhook: &'a Webhook,
    conditions: Conditions,
}

/// What may still be done to judge a configuration.
struct Budget {
    probes: usize,
    judgements: usize,
    /// Whether something that had to be looked at was not.
    ran_out: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            probes: PROBES_MAX,
            judgements: JUDGEMENTS_MAX,
            ran_out: false,
        }
    }
}

fn take(left: &mut usize) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}

impl Default for CriticalResources {
    /// What every cluster depends on.
    fn default() -> Self {
        built_in::critical_resources()
    }
}

impl CriticalResources {
    pub fn rules(&self) -> impl Iterator<Item = &CriticalRule> {
        self.rules.iter()
    }

    /// Whether a rule asks for this namespace by name.
    pub fn names_namespace(&self, name: &str) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.exclusion.namespaces().any(|named| named == name))
    }

    /// What each rule is about in a cluster.
    fn targets<'a>(&'a self, cluster: &'a Cluster<'a>) -> Vec<Target<'a>> {
        let rules = self.rules.iter();
        rules.map(|rule| Target::new(rule, cluster)).collect()
    }
}

/// The rules of which the webhook would see something, as far as the budget lets anybody look.
fn intercepted<'a>(
    targets: &[Target<'a>],
    webhook: &Webhook,
    budget: &mut Budget,
) -> Vec<&'a CriticalRule> {
    let hook = Hook {
        webhook,
        conditions: webhook.conditions.of_place(),
    };
    let seen = targets
        .iter()
        .filter(|target| target.is_intercepted(&hook, budget));
    seen.map(|target| target.rule).collect()
}

impl<'a> Target<'a> {
    fn new(rule: &'a CriticalRule, cluster: &'a Cluster<'a>) -> Target<'a> {
        let about = cluster.resources.iter().filter(|it| rule.is_about(it));
        let resources: Vec<&Known<'_>> = about.collect();
        let has_namespaces =
            |known: &&Known<'_>| known.is_namespaced || is_namespaces(&known.names.resource);
        let namespaces = match resources.iter().any(has_namespaces) {
            true => rule.namespaces(cluster),
            false => Vec::new(),
        };
        Target {
            rule,
            resources,
            namespaces,
        }
    }

    fn is_intercepted(&self, hook: &Hook<'_>, budget: &mut Budget) -> bool {
        self.resources.iter().any(|known| {
            let mut is_seen = false;
            // Ends at the first write that is seen, and where the budget ends.
            let _ = self.each_place(known, |place| {
                for &operation in &known.operations {
                    if !take(&mut budget.probes) {
                        budget.ran_out = true;
                        return ControlFlow::Break(());
                    }
                    is_seen = self.rule.sees(hook, known, operation, place, budget);
                    if is_seen {
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            });
            is_seen
        })
    }

    /// Visits all places where the rule has such a resource, until the visitor has seen enough.
    fn each_place(
        &self,
        known: &Known<'_>,
        mut visit: impl FnMut(&Place<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        static NOWHERE: BTreeMap<String, String> = BTreeMap::new();
        let names = || self.rule.exclusion.rule().names();
        // Where none is given any will do, also one that nobody knows yet.
        let any = names().next().is_none().then_some("");
        let mut named = |namespace, labels| {
            let mut names = names().chain(any);
            names.try_for_each(|name| {
                visit(&Place {
                    namespace,
                    name,
                    labels,
                })
            })
        };
        if is_namespaces(&known.names.resource) {
            let is_meant =
                |it: &&Cow<'_, Namespace>| any.is_some() || names().any(|name| name == it.name);
            let mut own = self.namespaces.iter().filter(is_meant);
            // A namespace counts as being in itself, also one that is made.
            return own.try_for_each(|it| {
                visit(&Place {
                    namespace: &it.name,
                    name: &it.name,
                    labels: &it.labels,
                })
            });
        }
        if !known.is_namespaced {
            return named("", &NOWHERE);
        }
        let mut namespaces = self.namespaces.iter();
        namespaces.try_for_each(|it| named(&it.name, &it.labels))
    }
}

impl CriticalRule {
    /// Whether a write of this kind is critical, and seen.
    fn sees(
        &self,
        hook: &Hook<'_>,
        known: &Known<'_>,
        operation: Operation,
        place: &Place<'_>,
        budget: &mut Budget,
    ) -> bool {
        let facts = Facts {
            operation,
            asked: known.names,
            equivalents: known.equivalents,
            subresource: known.subresource,
            name: place.name,
            namespace: place.namespace,
        };
        // Critical objects are not those that somebody has labelled for a webhook.
        let unlabelled = BTreeMap::<String, String>::new();
        let labels = LabelSets {
            namespace: Ok(place.labels as &dyn Labels),
            object: Some(&unlabelled),
            old: None,
        };
        let resource = &known.names.resource;
        if !self.exclusion.matches(&facts, &labels, resource) {
            return false;
        }
        match hook.webhook.criteria.decide(&facts, &labels) {
            Outcome::Seen(names) => may_hold(hook, &facts, &names, budget),
            Outcome::Failed(_) => true,
            _ => false,
        }
    }

    /// The namespaces that the rule may be about: those it names, whether they exist or not, or any.
    fn namespaces<'a>(&self, cluster: &'a Cluster<'_>) -> Vec<Cow<'a, Namespace>> {
        let existing = cluster.namespaces.iter();
        if self.exclusion.namespaces().next().is_none() {
            let to_come = Cow::Owned(Namespace::named(TO_COME));
            return std::iter::once(to_come)
                .chain(existing.map(Cow::Borrowed))
                .collect();
        }
        let named = |name: &str| match existing.clone().find(|it| it.name == name) {
            Some(existing) => Cow::Borrowed(existing),
            None => Cow::Owned(Namespace::named(name)),
        };
        self.exclusion.namespaces().map(named).collect()
    }
}

/// Whether match conditions may let the webhook see such a write.
fn may_hold(hook: &Hook<'_>, facts: &Facts<'_>, names: &Names, budget: &mut Budget) -> bool {
    if hook.conditions.is_empty() || !take(&mut budget.judgements) {
        return true;
    }
    let write = Write {
        facts: *facts,
        object: None,
        old: None,
        namespace: None,
        user: UserInfo {
            username: "",
            uid: "",
            groups: &[],
            extra: &BTreeMap::new(),
        },
        dry_run: false,
    };
    let met = write.judge(&hook.conditions, None, names, hook.webhook.failure);
    !matches!(met, Met::No { .. })
}
