//! Finds the critical resources that each webhook with `failurePolicy: Fail` intercepts.

use super::config_file::CriticalRuleEntry;
use super::{
    ClusterInventory, CriticalResources, CriticalRule, ProbeBudget, RuleCoverage, intercepted_rules,
};
use crate::webhook::{FailurePolicy, Webhook, WebhookAddress};

/// The critical resources that a webhook intercepts.
#[derive(Debug)]
pub struct Interception<'w> {
    pub webhook: &'w Webhook,
    /// The position of the webhook in the list.
    pub index: usize,
    pub rules: Vec<CriticalRule>,
    /// Whether all cases were checked.
    pub is_complete: bool,
}

impl CriticalResources {
    /// What each webhook of a configuration intercepts. Webhooks that intercept nothing, or that are ignored when they
    /// fail, are left out.
    pub fn interceptions<'w>(
        &self,
        webhooks: &'w [Webhook],
        cluster: &ClusterInventory<'_>,
    ) -> Vec<Interception<'w>> {
        self.interceptions_within(&mut ProbeBudget::default(), webhooks, cluster)
    }

    pub(super) fn interceptions_within<'w>(
        &self,
        budget: &mut ProbeBudget,
        webhooks: &'w [Webhook],
        cluster: &ClusterInventory<'_>,
    ) -> Vec<Interception<'w>> {
        let targets = self.coverage(cluster);
        let own = self.webhook_namespace_rules(webhooks);
        let own: Vec<(&str, RuleCoverage<'_>)> = own
            .iter()
            .map(|(namespace, rule)| (&**namespace, RuleCoverage::new(rule, cluster)))
            .collect();
        let mut interceptions = Vec::new();
        for (index, webhook) in webhooks.iter().enumerate() {
            if webhook.failure_policy != FailurePolicy::Fail {
                continue;
            }
            let mut rules = intercepted_rules(&targets, webhook, budget);
            let own = own
                .iter()
                .find(|(own, _)| Some(*own) == service_namespace(webhook));
            if let Some((_, target)) = own {
                let target = std::slice::from_ref(target);
                rules.extend(intercepted_rules(target, webhook, budget));
            }
            let is_complete = !std::mem::take(&mut budget.exhausted);
            if !rules.is_empty() || !is_complete {
                interceptions.push(Interception {
                    webhook,
                    index,
                    rules: rules.into_iter().cloned().collect(),
                    is_complete,
                });
            }
        }
        interceptions
    }
}

impl CriticalResources {
    /// Rules for what the webhooks' own Services need to recover, for each of their namespaces that no rule names yet.
    fn webhook_namespace_rules(&self, webhooks: &[Webhook]) -> Vec<(String, CriticalRule)> {
        let mut namespaces: Vec<&str> = webhooks.iter().filter_map(service_namespace).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces.retain(|namespace| !self.names_namespace(namespace));
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let rule = |namespace: &str| CriticalRuleEntry {
            name: format!("pods in {namespace}"),
            reason: "the webhook itself runs there".to_owned(),
            api_groups: owned(&["", "discovery.k8s.io"]),
            resources: owned(&[
                "pods",
                "pods/binding",
                "pods/status",
                "serviceaccounts/token",
                "endpointslices",
            ]),
            namespaces: owned(&[namespace]),
            ..CriticalRuleEntry::default()
        };
        let all = namespaces.into_iter();
        all.map(|namespace| (namespace.to_owned(), rule(namespace).into_rule(0)))
            .collect()
    }
}

/// The namespace of the webhook's Service.
fn service_namespace(webhook: &Webhook) -> Option<&str> {
    match &webhook.address {
        WebhookAddress::Service(service) => Some(&service.namespace),
        WebhookAddress::Url(_) | WebhookAddress::Missing => None,
    }
}
