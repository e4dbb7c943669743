//! What those are told who put a webhook in the way of the cluster.

use super::file::Form;
use super::{Budget, Cluster, CriticalResources, CriticalRule, Target, intercepted};
use crate::webhook::{Address, FailurePolicy, Webhook};

/// A text that would be longer leaves out what is longest. All warnings of an answer have 4 KiB.
const TEXT_BYTES_MAX: usize = 2_000;
const NAMES_MAX: usize = 5;

/// Webhooks that stand in the way of the same.
struct Finding<'a> {
    webhooks: Vec<&'a Webhook>,
    rules: Vec<&'a CriticalRule>,
}

impl CriticalResources {
    /// A warning for all webhooks that intercept the same. `exclusions` is whether the server keeps exclusion rules.
    pub fn advice(
        &self,
        webhooks: &[Webhook],
        cluster: &Cluster<'_>,
        exclusions: bool,
    ) -> Vec<String> {
        self.advice_within(&mut Budget::default(), webhooks, cluster, exclusions)
    }

    pub(super) fn advice_within(
        &self,
        budget: &mut Budget,
        webhooks: &[Webhook],
        cluster: &Cluster<'_>,
        exclusions: bool,
    ) -> Vec<String> {
        let targets = self.targets(cluster);
        let own = self.own_rules(webhooks);
        let own: Vec<(&str, Target<'_>)> = own
            .iter()
            .map(|(namespace, rule)| (&**namespace, Target::new(rule, cluster)))
            .collect();
        let mut unjudged: Vec<&Webhook> = Vec::new();
        let mut findings: Vec<Finding<'_>> = Vec::new();
        for webhook in webhooks {
            if webhook.failure != FailurePolicy::Fail {
                continue;
            }
            let mut rules = intercepted(&targets, webhook, budget);
            let own = own
                .iter()
                .find(|(own, _)| Some(*own) == service_of(webhook));
            if let Some((_, target)) = own {
                rules.extend(intercepted(std::slice::from_ref(target), webhook, budget));
            }
            if std::mem::take(&mut budget.ran_out) {
                unjudged.push(webhook);
            }
            if rules.is_empty() {
                continue;
            }
            let is_same = |finding: &&mut Finding<'_>| {
                let pairs = finding.rules.iter().zip(&rules);
                finding.rules.len() == rules.len()
                    && pairs
                        .into_iter()
                        .all(|(one, other)| std::ptr::eq(*one, *other))
            };
            match findings.iter_mut().find(is_same) {
                Some(finding) => finding.webhooks.push(webhook),
                None => findings.push(Finding {
                    webhooks: vec![webhook],
                    rules,
                }),
            }
        }
        let found = findings.iter().map(|finding| finding.text(exclusions));
        let missing = (!unjudged.is_empty()).then(|| {
            let names = names_of(&unjudged);
            format!("{names} with failurePolicy Fail {NOT_ALL}")
        });
        found.chain(missing).collect()
    }
}

impl CriticalResources {
    /// What the services of webhooks need to come back, for each of their namespaces that no rule is about already.
    fn own_rules(&self, webhooks: &[Webhook]) -> Vec<(String, CriticalRule)> {
        let mut namespaces: Vec<&str> = webhooks.iter().filter_map(service_of).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces.retain(|namespace| !self.names_namespace(namespace));
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let rule = |namespace: &str| Form {
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
            ..Form::default()
        };
        let all = namespaces.into_iter();
        all.map(|namespace| (namespace.to_owned(), rule(namespace).into_rule(0)))
            .collect()
    }
}

/// The namespace that a webhook is called in.
fn service_of(webhook: &Webhook) -> Option<&str> {
    match &webhook.address {
        Address::Service(service) => Some(&service.namespace),
        Address::Url(_) | Address::Nowhere => None,
    }
}

impl Finding<'_> {
    fn text(&self, exclusions: bool) -> String {
        let problem = self.problem();
        let remedy = match exclusions {
            true => format!(
                "to leave them out, add excludeResourceRules: {}",
                self.json()
            ),
            false => OTHER_REMEDIES.to_owned(),
        };
        let text = format!("{problem}; {remedy}");
        if text.len() <= TEXT_BYTES_MAX {
            return text;
        }
        let rules = self.rules.len();
        let remedy = match exclusions {
            true => "leave them out by excludeResourceRules",
            false => OTHER_REMEDIES,
        };
        let names = names_of(&self.webhooks);
        format!(
            "{names} with failurePolicy Fail can stop {rules} kinds of critical requests; {remedy}"
        )
    }

    /// Who stands in the way of what.
    fn problem(&self) -> String {
        let what: Vec<String> = self
            .rules
            .iter()
            .map(|rule| match &*rule.reason {
                "" => rule.name.clone(),
                reason => format!("{} ({reason})", rule.name),
            })
            .collect();
        let has_conditions = self.webhooks.iter().any(|it| !it.conditions.is_empty());
        let unless = match has_conditions {
            true => ", unless matchConditions leave them out",
            false => "",
        };
        let (names, what) = (names_of(&self.webhooks), what.join(", "));
        format!(
            "{names} with failurePolicy Fail can stop what the cluster depends on{unless}: {what}"
        )
    }

    /// The rules that are missing, in one list, which is also YAML.
    fn json(&self) -> String {
        let rules: Vec<&str> = self.rules.iter().map(|rule| rule.json()).collect();
        format!("[{}]", rules.join(","))
    }
}

fn names_of(webhooks: &[&Webhook]) -> String {
    let shown = webhooks.iter().take(NAMES_MAX);
    let shown: Vec<String> = shown.map(|webhook| format!("{:?}", webhook.name)).collect();
    let shown = shown.join(", ");
    match webhooks.len() {
        1 => format!("webhook {shown}"),
        all if all > NAMES_MAX => format!("webhooks {shown} and {} more", all - NAMES_MAX),
        _ => format!("webhooks {shown}"),
    }
}

const NOT_ALL: &str =
    "may stop more of what the cluster depends on: there is too much of it to look at everything";
const OTHER_REMEDIES: &str = "leave them out by narrower rules, a namespaceSelector or an objectSelector, or set failurePolicy: Ignore";
