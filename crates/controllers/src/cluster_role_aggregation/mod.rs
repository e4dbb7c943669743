//! ClusterRole aggregation controller (upstream: `clusterroleaggregation`): writes the rules of every ClusterRole with an
//! `aggregationRule`, the union of the rules of the ClusterRoles that it selects.
//!
//! All cluster roles are kept in memory; a change of any queues all aggregated ones, and a role is written only if its
//! rules differ. A role that aggregates aggregated roles converges, because each write is a change.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use rhumb_client::error::none_if_not_found;
use rhumb_client::informer::{Event, watch};
use rhumb_client::work_queue::{ReconcileAction, WorkQueue};
use rhumb_meta::labels::{LabelSelector, LabelSelectorError, Selector};
use serde_json::json;

use crate::{ControllerContext, Error};

/// Roles that are written concurrently.
const WORKERS: usize = 5;

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    let known = Mutex::new(ClusterRoles::default());
    let queue = WorkQueue::new();
    let roles: Api<ClusterRole> = Api::all(context.reader);
    let watched = watch(roles, Config::default(), ResourceExt::name_any, |event| {
        let stale = known.lock().handle_event(event);
        stale.into_iter().for_each(|name| queue.add(name));
    });
    let roles: Api<ClusterRole> = Api::all(context.client);
    let work = queue.run_workers(WORKERS, |name: String| {
        let (write, roles) = (known.lock().write_for(&name), &roles);
        async move {
            if let Some(RulesWrite {
                resource_version,
                rules,
            }) = write?
            {
                // A role that has changed meanwhile is a conflict, and computed again.
                let patch = Patch::Merge(json!({
                    "metadata": {"resourceVersion": resource_version},
                    "rules": rules,
                }));
                none_if_not_found(roles.patch(&name, &PatchParams::default(), &patch).await)?;
            }
            Ok(ReconcileAction::AwaitChange)
        }
    });
    tokio::select! {
        watched = watched => watched,
        worked = work => worked,
    }
}

/// All cluster roles.
#[derive(Default)]
struct ClusterRoles {
    roles: BTreeMap<String, ClusterRole>,
    /// Whether all roles have been listed. Before that, rules of selected roles would be missing.
    is_complete: bool,
}

/// The write of a role whose rules are stale.
#[derive(Debug, PartialEq)]
struct RulesWrite {
    /// The version that the rules were computed for.
    resource_version: Option<String>,
    rules: Vec<PolicyRule>,
}

impl ClusterRoles {
    /// Returns the names of the roles to check.
    fn handle_event(&mut self, event: Event<ClusterRole, String>) -> Vec<String> {
        match event {
            Event::Applied(role) => {
                self.roles.insert(role.name_any(), role);
            }
            Event::Deleted(name) => {
                self.roles.remove(&name);
            }
            Event::Replaced(names) => {
                self.roles.retain(|name, _| names.contains(name));
                self.is_complete = true;
            }
        }
        if !self.is_complete {
            return Vec::new();
        }
        let aggregated = self.roles.iter();
        aggregated
            .filter(|(_, role)| role.aggregation_rule.is_some())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// The write that the role needs; fails if a selector is invalid.
    fn write_for(&self, name: &str) -> Result<Option<RulesWrite>, Error> {
        let Some(role) = self.roles.get(name) else {
            return Ok(None);
        };
        let Some(selectors) = selectors(role)? else {
            return Ok(None);
        };
        let rules = self.selected_rules(name, &selectors);
        let stored: Vec<PolicyRule> = role
            .rules
            .iter()
            .flatten()
            .cloned()
            .map(normalized)
            .collect();
        Ok((rules != stored).then(|| RulesWrite {
            resource_version: role.resource_version(),
            rules,
        }))
    }

    /// The rules of all roles that a selector matches, by selector, then by role name, without duplicates.
    fn selected_rules(&self, name: &str, selectors: &[Selector]) -> Vec<PolicyRule> {
        let mut rules: Vec<PolicyRule> = Vec::new();
        for selector in selectors {
            let others = self.roles.iter().filter(|(other, _)| *other != name);
            let selected = others.filter(|(_, role)| selector.matches(role.labels()));
            for rule in selected.flat_map(|(_, role)| role.rules.iter().flatten()) {
                let rule = normalized(rule.clone());
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        rules
    }
}

/// The selectors of the aggregation rule; `None` if there is no such rule.
fn selectors(role: &ClusterRole) -> Result<Option<Vec<Selector>>, Error> {
    let Some(rule) = &role.aggregation_rule else {
        return Ok(None);
    };
    let selectors = rule.cluster_role_selectors.iter().flatten();
    let parsed = selectors.map(|selector| {
        let selector =
            serde_json::to_value(selector).and_then(serde_json::from_value::<LabelSelector>);
        let selector = selector.map_err(|error| Error::Other(error.to_string()))?;
        LabelSelector::to_selector(Some(&selector))
            .map_err(|error: LabelSelectorError| Error::Other(error.to_string()))
    });
    parsed.collect::<Result<_, Error>>().map(Some)
}

/// The rule with empty lists absent: both mean the same.
fn normalized(mut rule: PolicyRule) -> PolicyRule {
    for list in [
        &mut rule.api_groups,
        &mut rule.non_resource_urls,
        &mut rule.resource_names,
        &mut rule.resources,
    ] {
        *list = list.take().filter(|list| !list.is_empty());
    }
    rule
}
