//! Critical resources: what a cluster cannot work without, and which webhooks intercept writes to them.
//!
//! A webhook with `failurePolicy: Fail` that does not respond blocks every write that it matches. If those are node
//! leases or token reviews, the cluster stops working. Operators list critical resources in a file (`config_file.rs`);
//! the default list is in `built_in.rs`. What a webhook intercepts is found by evaluating its
//! [`MatchCriteria`](crate::MatchCriteria) on probe writes to critical resources, so rules, exclusion rules and
//! selectors mean the same as for real writes. `warnings.rs` formats the findings. There is no upstream counterpart.

mod built_in;
mod config_file;
mod interceptions;
#[cfg(test)]
mod tests;
mod warnings;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rhumb_meta::labels::Labels;

use crate::exclusion_rule::ExclusionRule;
use crate::explain::ExplainedWrite;
use crate::match_attributes::{
    MatchAttributes, Operation, ResourceAndKind, SelectorLabels, is_namespaces_resource,
};
use crate::match_conditions::{MatchConditions, MatchConditionsResult};
use crate::match_criteria::MatchOutcome;
use crate::review::UserInfo;
use crate::webhook::Webhook;
pub use interceptions::Interception;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// Stands for all namespaces that do not exist yet.
const FUTURE_NAMESPACE: &str = "a-namespace-to-come";
/// Maximum number of probe writes to check all webhooks of one configuration.
const MAX_PROBES: usize = 200_000;
/// Maximum number of match condition evaluations for that.
const MAX_CONDITION_EVALUATIONS: usize = 1_000;

/// The list of critical resources. Each rule has the fields of an exclusion rule, because that is what it asks webhooks
/// to add.
#[derive(Debug, Clone)]
pub struct CriticalResources {
    rules: Vec<CriticalRule>,
}

/// One entry of the list.
#[derive(Debug, Clone)]
pub struct CriticalRule {
    /// The name shown in warnings.
    name: String,
    /// Why it is critical; may be empty.
    reason: String,
    /// The exclusion rule in JSON, to be pasted into a webhook configuration.
    json: String,
    exclusion: ExclusionRule,
    /// Its line in the file; 0 if built in.
    line: u64,
}

impl CriticalRule {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why it is critical; may be empty.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The exclusion rule that a webhook should add.
    pub fn json(&self) -> &str {
        &self.json
    }

    pub fn line(&self) -> u64 {
        self.line
    }

    /// Whether the rule covers any of the resources.
    pub fn covers_any(&self, resources: &[ServedResource<'_>]) -> bool {
        resources.iter().any(|known| self.covers(known))
    }

    fn covers(&self, known: &ServedResource<'_>) -> bool {
        let rule = self.exclusion.rule();
        rule.matches_resource(&known.names.resource, known.subresource)
    }
}

/// A resource in one version, or one of its subresources, and the operations that it supports.
#[derive(Debug, Clone)]
pub struct ServedResource<'a> {
    pub names: &'a ResourceAndKind,
    /// The other group-versions of the same objects.
    pub equivalents: &'a [ResourceAndKind],
    pub subresource: &'a str,
    pub is_namespaced: bool,
    pub operations: Vec<Operation>,
}

/// A namespace and its labels.
#[derive(Debug, Clone)]
pub struct ClusterNamespace {
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

impl ClusterNamespace {
    /// A namespace with only the name label, which every namespace has.
    pub fn named(name: &str) -> ClusterNamespace {
        ClusterNamespace {
            name: name.to_owned(),
            labels: BTreeMap::from([(NAME_LABEL.to_owned(), name.to_owned())]),
        }
    }
}

/// The resources and namespaces of a cluster, as far as they affect matching.
#[derive(Debug, Clone)]
pub struct ClusterInventory<'a> {
    pub resources: Vec<ServedResource<'a>>,
    pub namespaces: Vec<ClusterNamespace>,
}

/// The resources and namespaces that a rule covers in a cluster; computed once for all webhooks.
struct RuleCoverage<'a> {
    rule: &'a CriticalRule,
    resources: Vec<&'a ServedResource<'a>>,
    /// Empty unless the resources are namespaced.
    namespaces: Vec<Cow<'a, ClusterNamespace>>,
}

/// The location of a probed object.
struct ObjectLocation<'a> {
    namespace: &'a str,
    name: &'a str,
    labels: &'a BTreeMap<String, String>,
}

/// A webhook, and those of its match conditions that can be evaluated without a request.
struct ProbedWebhook<'a> {
    webhook: &'a Webhook,
    evaluable_conditions: MatchConditions,
    /// Labels of an object that its object selector selects: any critical object may have them. Empty if it selects
    /// objects without labels.
    object_labels: BTreeMap<String, String>,
}

/// The remaining probes and evaluations for one configuration.
struct ProbeBudget {
    probes: usize,
    condition_evaluations: usize,
    /// Whether the budget was exhausted before all was checked.
    exhausted: bool,
}

impl Default for ProbeBudget {
    fn default() -> Self {
        ProbeBudget {
            probes: MAX_PROBES,
            condition_evaluations: MAX_CONDITION_EVALUATIONS,
            exhausted: false,
        }
    }
}

fn take_one(left: &mut usize) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}

impl Default for CriticalResources {
    /// The built-in list.
    fn default() -> Self {
        built_in::critical_resources()
    }
}

impl CriticalResources {
    pub fn rules(&self) -> impl Iterator<Item = &CriticalRule> {
        self.rules.iter()
    }

    /// Whether a rule names this namespace.
    pub fn names_namespace(&self, name: &str) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.exclusion.namespaces().any(|named| named == name))
    }

    /// The coverage of each rule in a cluster.
    fn coverage<'a>(&'a self, cluster: &'a ClusterInventory<'a>) -> Vec<RuleCoverage<'a>> {
        let rules = self.rules.iter();
        rules.map(|rule| RuleCoverage::new(rule, cluster)).collect()
    }
}

/// The rules for which the webhook intercepts some write, as far as the budget allows.
fn intercepted_rules<'a>(
    targets: &[RuleCoverage<'a>],
    webhook: &Webhook,
    budget: &mut ProbeBudget,
) -> Vec<&'a CriticalRule> {
    let Some(object_labels) = webhook.match_criteria.selected_object_labels() else {
        return Vec::new();
    };
    let hook = ProbedWebhook {
        webhook,
        evaluable_conditions: webhook.match_conditions.without_user_and_object(),
        object_labels,
    };
    let seen = targets
        .iter()
        .filter(|target| target.is_intercepted(&hook, budget));
    seen.map(|target| target.rule).collect()
}

impl<'a> RuleCoverage<'a> {
    fn new(rule: &'a CriticalRule, cluster: &'a ClusterInventory<'a>) -> RuleCoverage<'a> {
        let about = cluster.resources.iter().filter(|it| rule.covers(it));
        let resources: Vec<&ServedResource<'_>> = about.collect();
        let has_namespaces = |known: &&ServedResource<'_>| {
            known.is_namespaced || is_namespaces_resource(&known.names.resource)
        };
        let namespaces = match resources.iter().any(has_namespaces) {
            true => rule.namespaces(cluster),
            false => Vec::new(),
        };
        RuleCoverage {
            rule,
            resources,
            namespaces,
        }
    }

    fn is_intercepted(&self, hook: &ProbedWebhook<'_>, budget: &mut ProbeBudget) -> bool {
        self.resources.iter().any(|known| {
            let mut is_seen = false;
            // Stops at the first intercepted write, or when the budget is exhausted.
            let _ = self.for_each_location(known, |place| {
                for &operation in &known.operations {
                    if !take_one(&mut budget.probes) {
                        budget.exhausted = true;
                        return ControlFlow::Break(());
                    }
                    is_seen = self
                        .rule
                        .is_write_intercepted(hook, known, operation, place, budget);
                    if is_seen {
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            });
            is_seen
        })
    }

    /// Calls `visit` with each location of such a resource that the rule covers, until `visit` breaks.
    fn for_each_location(
        &self,
        known: &ServedResource<'_>,
        mut visit: impl FnMut(&ObjectLocation<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        static NOWHERE: BTreeMap<String, String> = BTreeMap::new();
        let names = || self.rule.exclusion.rule().names();
        // Without resource names, probe with an unknown name.
        let any = names().next().is_none().then_some("");
        let mut named = |namespace, labels| {
            let mut names = names().chain(any);
            names.try_for_each(|name| {
                visit(&ObjectLocation {
                    namespace,
                    name,
                    labels,
                })
            })
        };
        if is_namespaces_resource(&known.names.resource) {
            let is_meant = |it: &&Cow<'_, ClusterNamespace>| {
                any.is_some() || names().any(|name| name == it.name)
            };
            let mut own = self.namespaces.iter().filter(is_meant);
            // A namespace counts as being in itself, also when it is created.
            return own.try_for_each(|it| {
                visit(&ObjectLocation {
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
    /// Whether such a write is critical and intercepted by the webhook.
    fn is_write_intercepted(
        &self,
        hook: &ProbedWebhook<'_>,
        known: &ServedResource<'_>,
        operation: Operation,
        place: &ObjectLocation<'_>,
        budget: &mut ProbeBudget,
    ) -> bool {
        let attributes = MatchAttributes {
            operation,
            requested: known.names,
            equivalents: known.equivalents,
            subresource: known.subresource,
            name: place.name,
            namespace: place.namespace,
        };
        let labels = SelectorLabels {
            namespace: Ok(place.labels as &dyn Labels),
            object: Some(&hook.object_labels),
            old_object: None,
        };
        let resource = &known.names.resource;
        if !self.exclusion.matches(&attributes, &labels, resource) {
            return false;
        }
        match hook.webhook.match_criteria.evaluate(&attributes, &labels) {
            MatchOutcome::Matched(names) => conditions_may_match(hook, &attributes, &names, budget),
            MatchOutcome::Failed(_) => true,
            _ => false,
        }
    }

    /// The namespaces that the rule covers: those it names, existing or not, else all existing and future ones.
    fn namespaces<'a>(&self, cluster: &'a ClusterInventory<'_>) -> Vec<Cow<'a, ClusterNamespace>> {
        let existing = cluster.namespaces.iter();
        if self.exclusion.namespaces().next().is_none() {
            let to_come = Cow::Owned(ClusterNamespace::named(FUTURE_NAMESPACE));
            return std::iter::once(to_come)
                .chain(existing.map(Cow::Borrowed))
                .collect();
        }
        let named = |name: &str| match existing.clone().find(|it| it.name == name) {
            Some(existing) => Cow::Borrowed(existing),
            None => Cow::Owned(ClusterNamespace::named(name)),
        };
        self.exclusion.namespaces().map(named).collect()
    }
}

/// Whether match conditions may be true for such a write.
fn conditions_may_match(
    hook: &ProbedWebhook<'_>,
    attributes: &MatchAttributes<'_>,
    names: &ResourceAndKind,
    budget: &mut ProbeBudget,
) -> bool {
    if hook.evaluable_conditions.is_empty() || !take_one(&mut budget.condition_evaluations) {
        return true;
    }
    let write = ExplainedWrite {
        attributes: *attributes,
        object: None,
        old_object: None,
        namespace: None,
        user: UserInfo {
            username: "",
            uid: "",
            groups: &[],
            extra: &BTreeMap::new(),
        },
        dry_run: false,
    };
    let met = write.evaluate_conditions(
        &hook.evaluable_conditions,
        None,
        names,
        hook.webhook.failure_policy,
    );
    !matches!(met, MatchConditionsResult::NotMatched { .. })
}
