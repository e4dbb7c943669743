//! Which policies of a running cluster are not enforced, according to the reports of nodes, or to the status of policies
//! where no node reports. The rules are those of the status controller (`rhumb_netpol::node_enforcement`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rhumb_netpol::node_enforcement::{
    AgentLiveness, DEFAULT_HEARTBEAT_GRACE_PERIOD, EnforcementGap, NodeReport, PolicyReport,
    covers_pod, enforcement_gap, heartbeat_age, heartbeat_timeout, is_of_current_boot,
    is_programmed, time_to_next_report, unimplemented_reason, waits_for_pod,
};
use rhumb_netpol::node_report::NetworkPolicyNode;
use rhumb_netpol::objects::StatusCondition;
use rhumb_netpol::policy_summary::PolicySummary;
use rhumb_netpol::verdict::{AddressPairVerdict, DirectionVerdict};
use rhumb_netpol::{NamespacedName, NetworkPolicy, Pod, PolicyEngine, PolicyFeatureSet};
use serde::Serialize;

use super::cluster::name_of;
use super::node_reports::NodeReports;

/// A policy that is not enforced on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct UnenforcedPolicy {
    pub(super) policy: String,
    /// `None` if the status of the policy does not say where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    pub(super) reason: String,
}

/// The policies that are not enforced, by the node of the pods.
#[derive(Debug, Default)]
pub(super) struct Enforcement {
    by_policy: BTreeMap<NamespacedName, PolicyEnforcement>,
    /// Pods that the report of their node does not cover, and whether its next report is still to come.
    unobserved_pods: BTreeMap<NamespacedName, bool>,
}

#[derive(Debug)]
struct PolicyEnforcement {
    was_programmed: bool,
    /// By node; `None` if the status of the policy does not say where.
    reasons: BTreeMap<Option<String>, NotEnforcedReasons>,
}

/// Why a policy is not enforced on a node.
#[derive(Debug)]
struct NotEnforcedReasons {
    on_all_pods: Option<String>,
    on_unobserved_pods: Option<String>,
}

impl Enforcement {
    /// `pods` are those with an address in their status.
    pub(super) fn of<'a>(
        engine: &PolicyEngine,
        policies: &[NetworkPolicy],
        reports: &NodeReports,
        pods: impl Iterator<Item = (&'a NamespacedName, &'a Pod)>,
        now: Timestamp,
    ) -> Enforcement {
        let mut enforcement = Enforcement::default();
        let mut nodes_with_unobserved = BTreeSet::new();
        for (name, pod) in pods {
            let Some(node) = pod.node_name() else {
                continue;
            };
            let report = reports.get(node);
            if let Some(report) = report.filter(|report| !is_covered(pod, report)) {
                let awaits_report = !time_to_next(report, now).is_zero();
                let unobserved = &mut enforcement.unobserved_pods;
                unobserved.insert(name.clone(), awaits_report);
                nodes_with_unobserved.insert(node);
            }
        }
        for policy in policies {
            let name = name_of(&policy.metadata);
            let Some(summary) = engine.summary(&name) else {
                continue;
            };
            let was_programmed = is_programmed(policy);
            let reasons: BTreeMap<_, _> = match reports.is_empty() {
                true => status_reason(policy).into_iter().collect(),
                false => {
                    let nodes = summary.pods_per_node.keys();
                    let reasons = nodes.filter_map(|node| {
                        let on_node = PolicyOnNode {
                            policy,
                            summary: &summary,
                            node,
                            was_programmed,
                            now,
                        };
                        let has_unobserved = nodes_with_unobserved.contains(node.as_str());
                        let reasons = on_node.reasons(reports, has_unobserved)?;
                        Some((Some(node.clone()), reasons))
                    });
                    reasons.collect()
                }
            };
            if !reasons.is_empty() {
                let policy = PolicyEnforcement {
                    was_programmed,
                    reasons,
                };
                enforcement.by_policy.insert(name, policy);
            }
        }
        enforcement
    }

    /// Whether the policy is enforced on the pod.
    fn is_enforced(&self, policy: &NamespacedName, pod: Option<&Pod>) -> bool {
        self.reason(policy, pod).is_none()
    }

    fn reason(
        &self,
        policy: &NamespacedName,
        pod: Option<&Pod>,
    ) -> Option<(&Option<String>, &String)> {
        let policy = self.by_policy.get(policy)?;
        let node = pod.and_then(Pod::node_name).map(str::to_owned);
        let (node, reasons) = policy
            .reasons
            .get_key_value(&node)
            .or_else(|| policy.reasons.get_key_value(&None))?;
        let name = pod.map(|pod| name_of(&pod.metadata));
        let awaits_report = name.and_then(|name| self.unobserved_pods.get(&name));
        let waits = awaits_report.is_some_and(|it| waits_for_pod(policy.was_programmed, *it));
        let reason = match waits {
            true => reasons.on_unobserved_pods.as_ref(),
            false => reasons.on_all_pods.as_ref(),
        };
        Some((node, reason?))
    }

    /// The policies that one of the pods is selected by, but that are not enforced there.
    pub(super) fn unenforced_on<'a>(
        &'a self,
        engine: &PolicyEngine,
        pods: impl IntoIterator<Item = (&'a NamespacedName, &'a Pod)>,
    ) -> Vec<UnenforcedPolicy> {
        let mut found = Vec::new();
        for (name, pod) in pods {
            for policy in engine.policies_selecting(name) {
                if let Some((node, reason)) = self.reason(policy, Some(pod)) {
                    found.push(UnenforcedPolicy {
                        policy: policy.to_string(),
                        node: node.clone(),
                        reason: reason.clone(),
                    });
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// Whether the verdict would be the same without the policies that are not enforced at the two pods.
    pub(super) fn is_certain(
        &self,
        pair: &AddressPairVerdict,
        from: Option<&Pod>,
        to: Option<&Pod>,
    ) -> bool {
        let is_certain = |verdict: &DirectionVerdict, pod| match verdict {
            DirectionVerdict::Allowed { grants } => grants
                .iter()
                .any(|grant| self.is_enforced(&grant.policy, pod)),
            DirectionVerdict::Denied { policies } => policies
                .iter()
                .any(|denying| self.is_enforced(&denying.policy, pod)),
            _ => true,
        };
        let ends = [(&pair.egress, from), (&pair.ingress, to)];
        match pair.is_allowed() {
            true => ends.iter().all(|(verdict, pod)| is_certain(verdict, *pod)),
            false => ends
                .iter()
                .any(|(verdict, pod)| !verdict.is_allowed() && is_certain(verdict, *pod)),
        }
    }
}

fn is_covered(pod: &Pod, report: &NetworkPolicyNode) -> bool {
    let version = report.pods_resource_version.as_deref();
    let version = version.and_then(|version| version.parse().ok());
    covers_pod(version.unwrap_or_default(), pod.version_number())
}

fn time_to_next(report: &NetworkPolicyNode, now: Timestamp) -> Duration {
    time_to_next_report(
        report.last_heartbeat_time.as_ref(),
        report.heartbeat_seconds,
        DEFAULT_HEARTBEAT_GRACE_PERIOD,
        now,
    )
}

fn liveness(report: &NetworkPolicyNode, now: Timestamp) -> AgentLiveness {
    let timeout = heartbeat_timeout(DEFAULT_HEARTBEAT_GRACE_PERIOD, report.heartbeat_seconds);
    let heartbeat = report.last_heartbeat_time.as_ref();
    let age = heartbeat.map(|heartbeat| heartbeat_age(heartbeat, now));
    match age.is_some_and(|age| age <= timeout) {
        true => AgentLiveness::Alive,
        false => AgentLiveness::Stale,
    }
}

/// A policy and a node with pods that it selects.
struct PolicyOnNode<'a> {
    policy: &'a NetworkPolicy,
    summary: &'a PolicySummary,
    node: &'a str,
    was_programmed: bool,
    now: Timestamp,
}

impl PolicyOnNode<'_> {
    fn reasons(&self, reports: &NodeReports, has_unobserved: bool) -> Option<NotEnforcedReasons> {
        let on_all_pods = self.reason(reports, false);
        let has_reasons = has_unobserved || on_all_pods.is_some();
        has_reasons.then(|| NotEnforcedReasons {
            on_all_pods,
            on_unobserved_pods: self.reason(reports, true),
        })
    }

    fn reason(&self, reports: &NodeReports, waits_for_pods: bool) -> Option<String> {
        let report = reports.get(self.node);
        let said = match (report, reports.boot_id(self.node)) {
            (None, _) | (_, None) => NodeReport::Missing,
            (Some(report), Some(boot)) => {
                let of_report = report.boot_id.as_deref().unwrap_or_default();
                match is_of_current_boot(of_report, boot) {
                    true => NodeReport::Valid(self.policy_report(report, waits_for_pods)),
                    false => NodeReport::OfAnotherBoot,
                }
            }
        };
        let gap = enforcement_gap(self.summary, said, self.was_programmed);
        match gap {
            Some(gap) => Some(self.explain(gap, report)),
            None => self.missing_feature(report?),
        }
    }

    fn policy_report<'a>(
        &self,
        report: &'a NetworkPolicyNode,
        waits_for_pods: bool,
    ) -> PolicyReport<'a> {
        let mut applied = report.applied.iter();
        let applied = applied.find(|applied| applied.uid == self.summary.uid);
        PolicyReport {
            versions: &report.versions,
            problem: report
                .problem
                .as_deref()
                .filter(|problem| !problem.is_empty()),
            applied_generation: applied.map(|applied| applied.generation),
            liveness: liveness(report, self.now),
            waits_for_pods,
        }
    }

    fn explain(&self, gap: EnforcementGap<'_>, report: Option<&NetworkPolicyNode>) -> String {
        match gap {
            EnforcementGap::NoReport => "no agent reports from there".to_owned(),
            EnforcementGap::ReportOfAnotherBoot => {
                "its agent has not reported since the node was rebooted".to_owned()
            }
            EnforcementGap::UnsupportedVersion { newest } => format!(
                "version {} is not supported there (newest supported: {}), so the policy is ignored",
                self.summary.min_version,
                newest.unwrap_or("none")
            ),
            EnforcementGap::NodeProblem(problem) => {
                format!("the rules there are not up to date: {problem}")
            }
            EnforcementGap::NoHeartbeat => {
                match report.and_then(|report| report.last_heartbeat_time.as_ref()) {
                    Some(time) => format!(
                        "its agent has sent no heartbeat since {}",
                        time.0.strftime("%FT%TZ")
                    ),
                    None => "its agent sends no heartbeats".to_owned(),
                }
            }
            EnforcementGap::NotApplied => "this generation is not applied there".to_owned(),
            EnforcementGap::UnobservedPods => {
                "its agent has not observed the current state of the pod".to_owned()
            }
            EnforcementGap::UnconfirmedHeartbeat => {
                "its agent has to renew its heartbeat".to_owned()
            }
        }
    }

    /// A feature that the policy uses and the node lacks. The rest of the policy is in force.
    fn missing_feature(&self, report: &NetworkPolicyNode) -> Option<String> {
        let features = PolicyFeatureSet::of(&self.policy.spec);
        let mut features = features.names();
        features.find_map(|feature| {
            let reason = unimplemented_reason(&report.unimplemented, feature)?;
            Some(format!("{feature} is not available there: {reason}"))
        })
    }
}

/// Why the status of the policy says that it is not enforced. A policy without a status is taken as enforced.
fn status_reason(policy: &NetworkPolicy) -> Option<(Option<String>, NotEnforcedReasons)> {
    let conditions = || policy.status.conditions.iter().flatten();
    let is_bad = |condition: &&StatusCondition| {
        let is_current = condition.observed_generation.is_none()
            || condition.observed_generation == policy.metadata.generation;
        match condition.type_.as_str() {
            "Supported" => condition.status == "False" && is_current,
            "Programmed" => condition.status != "True" || !is_current,
            _ => false,
        }
    };
    let condition = conditions().find(is_bad)?;
    let StatusCondition {
        type_,
        status,
        reason,
        message,
        ..
    } = condition;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let reason = format!(
        "its condition {type_} is {status} ({}): {}",
        text(reason),
        text(message)
    );
    let reasons = NotEnforcedReasons {
        on_all_pods: Some(reason.clone()),
        on_unobserved_pods: Some(reason),
    };
    Some((None, reasons))
}

/// One line for each policy.
pub(super) fn lines(unenforced: &[UnenforcedPolicy]) -> String {
    let lines = unenforced.iter().map(|it| {
        let place = it.node.as_ref().map(|node| format!(" on {node}"));
        let place = place.unwrap_or_default();
        format!("not enforced: {}{place}: {}\n", it.policy, it.reason)
    });
    lines.collect()
}
