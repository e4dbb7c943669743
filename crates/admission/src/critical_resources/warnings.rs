//! Formats the warnings for webhook configurations that intercept writes to critical resources.

use super::{ClusterInventory, CriticalResources, CriticalRule, ProbeBudget};
use crate::webhook::Webhook;

/// Maximum length of a warning; a longer one omits the details. All warnings of a response share 4 KiB.
const MAX_WARNING_BYTES: usize = 2_000;
const MAX_LISTED_WEBHOOKS: usize = 5;

/// Webhooks that intercept the same critical resources.
struct InterceptionFinding<'a> {
    webhooks: Vec<&'a Webhook>,
    rules: Vec<CriticalRule>,
}

impl CriticalResources {
    /// The warnings for the webhooks of a configuration, one per group of webhooks that intercept the same rules.
    /// `exclusions`: whether the server supports exclusion rules, so that the warning can suggest them.
    pub fn warnings(
        &self,
        webhooks: &[Webhook],
        cluster: &ClusterInventory<'_>,
        exclusions: bool,
    ) -> Vec<String> {
        self.warnings_within(&mut ProbeBudget::default(), webhooks, cluster, exclusions)
    }

    pub(super) fn warnings_within(
        &self,
        budget: &mut ProbeBudget,
        webhooks: &[Webhook],
        cluster: &ClusterInventory<'_>,
        exclusions: bool,
    ) -> Vec<String> {
        let mut unjudged: Vec<&Webhook> = Vec::new();
        let mut findings: Vec<InterceptionFinding<'_>> = Vec::new();
        for interception in self.interceptions_within(budget, webhooks, cluster) {
            let webhook = interception.webhook;
            if !interception.is_complete {
                unjudged.push(webhook);
            }
            if interception.rules.is_empty() {
                continue;
            }
            let is_same = |finding: &&mut InterceptionFinding<'_>| {
                let pairs = finding.rules.iter().zip(&interception.rules);
                finding.rules.len() == interception.rules.len()
                    && pairs
                        .into_iter()
                        .all(|(one, other)| one.json == other.json && one.name == other.name)
            };
            match findings.iter_mut().find(is_same) {
                Some(finding) => finding.webhooks.push(webhook),
                None => findings.push(InterceptionFinding {
                    webhooks: vec![webhook],
                    rules: interception.rules,
                }),
            }
        }
        let found = findings.iter().map(|finding| finding.warning(exclusions));
        let missing = (!unjudged.is_empty()).then(|| {
            let names = names_of(&unjudged);
            format!("{names} with failurePolicy Fail {INCOMPLETE_CHECK}")
        });
        found.chain(missing).collect()
    }
}

impl InterceptionFinding<'_> {
    fn warning(&self, exclusions: bool) -> String {
        let problem = self.problem();
        let remedy = match exclusions {
            true => format!(
                "to leave them out, add excludeResourceRules: {}",
                self.json()
            ),
            false => REMEDY_WITHOUT_EXCLUSIONS.to_owned(),
        };
        let text = format!("{problem}; {remedy}");
        if text.len() <= MAX_WARNING_BYTES {
            return text;
        }
        let rules = self.rules.len();
        let remedy = match exclusions {
            true => "leave them out by excludeResourceRules",
            false => REMEDY_WITHOUT_EXCLUSIONS,
        };
        let names = names_of(&self.webhooks);
        format!(
            "{names} with failurePolicy Fail can stop {rules} kinds of critical requests; {remedy}"
        )
    }

    /// Which webhooks intercept what.
    fn problem(&self) -> String {
        let what: Vec<String> = self
            .rules
            .iter()
            .map(|rule| match &*rule.reason {
                "" => rule.name.clone(),
                reason => format!("{} ({reason})", rule.name),
            })
            .collect();
        let has_conditions = self
            .webhooks
            .iter()
            .any(|it| !it.match_conditions.is_empty());
        let unless = match has_conditions {
            true => ", unless matchConditions leave them out",
            false => "",
        };
        let needs_labels = |webhook: &Webhook| {
            let labels = webhook.match_criteria.selected_object_labels();
            labels.is_some_and(|labels| !labels.is_empty())
        };
        let selected = match self.webhooks.iter().all(|webhook| needs_labels(webhook)) {
            true => ", if their objects have the labels of objectSelector",
            false => "",
        };
        let (names, what) = (names_of(&self.webhooks), what.join(", "));
        format!(
            "{names} with failurePolicy Fail can stop what the cluster depends on{selected}{unless}: {what}"
        )
    }

    /// The missing exclusion rules as a JSON list, which is also valid YAML.
    fn json(&self) -> String {
        let rules: Vec<&str> = self.rules.iter().map(CriticalRule::json).collect();
        format!("[{}]", rules.join(","))
    }
}

fn names_of(webhooks: &[&Webhook]) -> String {
    let shown = webhooks.iter().take(MAX_LISTED_WEBHOOKS);
    let shown: Vec<String> = shown.map(|webhook| format!("{:?}", webhook.name)).collect();
    let shown = shown.join(", ");
    match webhooks.len() {
        1 => format!("webhook {shown}"),
        all if all > MAX_LISTED_WEBHOOKS => {
            format!("webhooks {shown} and {} more", all - MAX_LISTED_WEBHOOKS)
        }
        _ => format!("webhooks {shown}"),
    }
}

const INCOMPLETE_CHECK: &str = "may stop more of what the cluster depends on: the check is incomplete because there are too many cases";
const REMEDY_WITHOUT_EXCLUSIONS: &str =
    "leave them out by narrower rules or a namespaceSelector, or set failurePolicy: Ignore";
