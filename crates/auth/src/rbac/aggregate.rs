//! Rules of aggregated ClusterRoles, for the default roles. At run time the clusterrole-aggregation-controller, a client
//! of the API server, writes them.

use std::collections::HashSet;

use super::PolicyRule;
use super::policy::RbacPolicy;

impl RbacPolicy {
    /// The aggregated ClusterRoles whose `rules` are not the union of the selected roles, with the rules that they
    /// should have. A role that aggregates other aggregated roles becomes stale once those are changed, so the caller
    /// repeats until the list is empty.
    pub(crate) fn stale_aggregates(&self) -> Vec<(String, Vec<PolicyRule>)> {
        let mut stale = Vec::new();
        for (name, role) in &self.cluster.roles {
            let Some(rules) = self.aggregated_rules(name) else {
                continue;
            };
            if *rules != *role.rules {
                stale.push((name.to_string(), rules));
            }
        }
        stale
    }

    /// The union of the rules of the roles that an aggregated ClusterRole selects; `None` for any other role.
    pub(crate) fn aggregated_rules(&self, name: &str) -> Option<Vec<PolicyRule>> {
        let selectors = self.cluster.roles.get(name)?.aggregates.as_ref()?;
        let mut seen = HashSet::new();
        let mut rules = Vec::new();
        for selector in selectors {
            for (other, role) in &self.cluster.roles {
                if &**other != name && selector.matches(&role.labels) {
                    let new = role.rules.iter().filter(|&rule| seen.insert(rule));
                    rules.extend(new.cloned());
                }
            }
        }
        Some(rules)
    }
}
