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

use std::collections::BTreeMap;

use rhumb_meta::labels::Labels;

use crate::conditions::{Conditions, Met};
use crate::criteria::Outcome;
use crate::exclusion::Exclusion;
use crate::explain::Write;
use crate::facts::{Facts, LabelSets, Names, Operation, is_namespaces};
use crate::review::UserInfo;
use crate::webhook::Webhook;

pub use file::FileError;

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
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            probes: PROBES_MAX,
            judgements: JUDGEMENTS_MAX,
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

    /// The rules of which the webhook would see something.
    fn intercepted<'a>(
        &'a self,
        webhook: &Webhook,
        cluster: &Cluster<'_>,
        budget: &mut Budget,
    ) -> Vec<&'a CriticalRule> {
        let hook = Hook {
            webhook,
            conditions: webhook.conditions.of_place(),
        };
        self.rules
            .iter()
            .filter(|rule| rule.is_intercepted(&hook, cluster, budget))
            .collect()
    }
}

impl CriticalRule {
    fn is_intercepted(&self, hook: &Hook<'_>, cluster: &Cluster<'_>, budget: &mut Budget) -> bool {
        let namespaces = self.namespaces(cluster);
        let mut about = cluster.resources.iter().filter(|it| self.is_about(it));
        about.any(|known| {
            let places = self.places(known, &namespaces);
            known.operations.iter().any(|&operation| {
                places.iter().any(|place| {
                    take(&mut budget.probes) && self.sees(hook, known, operation, place, budget)
                })
            })
        })
    }

    /// Whether a write of this kind is critical, and seen.
    fn sees(
        &self,
        hook: &Hook<'_>,
        known: &Known<'_>,
        operation: Operation,
        place: &Place<'_>,
        budget: &mut Budget,
    ) -> bool {
        // A namespace that is changed counts as being in itself; one that is made does not yet.
        let is_new_namespace =
            is_namespaces(&known.names.resource) && operation == Operation::Create;
        let facts = Facts {
            operation,
            asked: known.names,
            equivalents: known.equivalents,
            subresource: known.subresource,
            name: place.name,
            namespace: if is_new_namespace {
                ""
            } else {
                place.namespace
            },
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
    fn namespaces(&self, cluster: &Cluster<'_>) -> Vec<Namespace> {
        let existing = |name: &str| cluster.namespaces.iter().find(|it| it.name == name);
        let named: Vec<Namespace> = self
            .exclusion
            .namespaces()
            .map(|name| existing(name).map_or_else(|| Namespace::named(name), Clone::clone))
            .collect();
        if !named.is_empty() {
            return named;
        }
        let to_come = Namespace::named(TO_COME);
        std::iter::once(to_come)
            .chain(cluster.namespaces.iter().cloned())
            .collect()
    }

    fn places<'a>(&'a self, known: &Known<'_>, namespaces: &'a [Namespace]) -> Vec<Place<'a>> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let names = || {
            let mut names: Vec<&str> = self.exclusion.rule().names().collect();
            // Where none is given any will do, also one that nobody knows yet.
            if names.is_empty() {
                names.push("");
            }
            names
        };
        if is_namespaces(&known.names.resource) {
            let is_meant = |it: &&Namespace| {
                let mut names = self.exclusion.rule().names();
                self.exclusion.rule().names().next().is_none() || names.any(|name| name == it.name)
            };
            let own = |it: &'a Namespace| Place {
                namespace: &it.name,
                name: &it.name,
                labels: &it.labels,
            };
            return namespaces.iter().filter(is_meant).map(own).collect();
        }
        if !known.is_namespaced {
            let outside = |name| Place {
                namespace: "",
                name,
                labels: &NONE,
            };
            return names().into_iter().map(outside).collect();
        }
        let inside = |it: &'a Namespace| {
            names().into_iter().map(move |name| Place {
                namespace: &it.name,
                name,
                labels: &it.labels,
            })
        };
        namespaces.iter().flat_map(inside).collect()
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
