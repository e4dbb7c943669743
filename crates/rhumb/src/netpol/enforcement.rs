//! Which policies of a running cluster are not enforced, according to the reports of nodes, or to the status of policies
//! where no node reports.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};
use rhumb_netpol::node_report::NetworkPolicyNode;
use rhumb_netpol::objects::StatusCondition;
use rhumb_netpol::policy_summary::PolicySummary;
use rhumb_netpol::verdict::{AddressPairVerdict, DirectionVerdict};
use rhumb_netpol::{NamespacedName, NetworkPolicy, Pod, PolicyEngine, PolicyFeatureSet};
use serde::Serialize;

use super::cluster::name_of;
use crate::paged_list::list;

const REPORTS: &str = "/apis/networking.rhumb.dev/v1alpha1/networkpolicynodes";
/// A heartbeat that is older than this, and than four of the agent's own intervals, is stale, as in the controller.
const HEARTBEAT_MAX: Duration = Duration::from_secs(40);
const HEARTBEATS_MISSED_MAX: u32 = 4;

/// The reports of nodes by name; empty if the server has none.
pub(super) type NodeReports = BTreeMap<String, NetworkPolicyNode>;

/// Lists the reports. Other servers than rhumb have no such kind.
pub(super) async fn read_reports(client: &Client, notes: &mut Vec<String>) -> Result<NodeReports> {
    let mut reports = NodeReports::new();
    let api: Api<NetworkPolicyNode> = Api::all(client.clone());
    match api.list(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(reports),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            notes.push(format!(
                "the reports of nodes cannot be read, so it is unknown which policies they enforce: {}",
                status.message
            ));
            return Ok(reports);
        }
        _ => {}
    }
    list(client, REPORTS, notes, |json| {
        let report: NetworkPolicyNode = serde_json::from_slice(json)?;
        reports.insert(report.metadata.name.clone().unwrap_or_default(), report);
        Ok(())
    })
    .await?;
    Ok(reports)
}

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
    by_policy: BTreeMap<NamespacedName, BTreeMap<Option<String>, String>>,
}

impl Enforcement {
    pub(super) fn of(
        engine: &PolicyEngine,
        policies: &[NetworkPolicy],
        reports: &NodeReports,
    ) -> Enforcement {
        let mut enforcement = Enforcement::default();
        for policy in policies {
            let name = name_of(&policy.metadata);
            let Some(summary) = engine.summary(&name) else {
                continue;
            };
            let reasons = match reports.is_empty() {
                true => status_reason(policy).into_iter().collect(),
                false => node_reasons(policy, &summary, reports),
            };
            if !reasons.is_empty() {
                enforcement.by_policy.insert(name, reasons);
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
        let reasons = self.by_policy.get(policy)?;
        let node = pod.and_then(Pod::node_name).map(str::to_owned);
        reasons
            .get_key_value(&node)
            .or_else(|| reasons.get_key_value(&None))
    }

    /// The policies that one of the pods is selected by, but that are not enforced there.
    pub(super) fn unenforced_on<'a>(
        &'a self,
        engine: &PolicyEngine,
        pods: impl IntoIterator<Item = (&'a NamespacedName, &'a Pod)>,
    ) -> Vec<UnenforcedPolicy> {
        let mut found = Vec::new();
        if self.by_policy.is_empty() {
            return found;
        }
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

/// Where the policy is not enforced, by node, with the reason.
fn node_reasons(
    policy: &NetworkPolicy,
    summary: &PolicySummary,
    reports: &NodeReports,
) -> BTreeMap<Option<String>, String> {
    let nodes = summary.pods_per_node.keys();
    let reasons = nodes.filter_map(|node| {
        let reason = match reports.get(node) {
            None => Some("no agent reports from there".to_owned()),
            Some(report) => reason_in_report(policy, summary, report),
        };
        Some((Some(node.clone()), reason?))
    });
    reasons.collect()
}

fn reason_in_report(
    policy: &NetworkPolicy,
    summary: &PolicySummary,
    report: &NetworkPolicyNode,
) -> Option<String> {
    let version = &summary.min_version;
    if !report.versions.contains(version) {
        let newest = report.versions.last().map_or("none", String::as_str);
        return Some(format!(
            "version {version} is not known there (newest known: {newest}), so the policy is ignored"
        ));
    }
    let mut applied = report.applied.iter();
    if !applied.any(|it| it.uid == summary.uid && it.generation == summary.generation) {
        let problem = report
            .problem
            .as_deref()
            .map(|problem| format!(": {problem}"));
        let problem = problem.unwrap_or_default();
        return Some(format!("this generation is not applied there{problem}"));
    }
    let features = PolicyFeatureSet::of(&policy.spec);
    let mut missing = report.unimplemented.iter();
    let missing = missing.find(|missing| features.names().any(|name| name == missing.feature));
    if let Some(missing) = missing {
        let feature = &missing.feature;
        return Some(format!(
            "{feature} is not available there: {}",
            missing.message
        ));
    }
    stale_heartbeat(report)
}

fn stale_heartbeat(report: &NetworkPolicyNode) -> Option<String> {
    let Some(time) = &report.last_heartbeat_time else {
        return Some("its agent sends no heartbeats".to_owned());
    };
    let interval = u64::from(report.heartbeat_seconds.unwrap_or_default());
    let limit = HEARTBEAT_MAX.max(Duration::from_secs(interval) * HEARTBEATS_MISSED_MAX);
    let age = Duration::try_from(Timestamp::now().duration_since(time.0)).unwrap_or_default();
    (age > limit).then(|| {
        format!(
            "its agent has sent no heartbeat since {}",
            time.0.strftime("%FT%TZ")
        )
    })
}

/// Why the status of the policy says that it is not enforced. A policy without a status is taken as enforced.
fn status_reason(policy: &NetworkPolicy) -> Option<(Option<String>, String)> {
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
    Some((
        None,
        format!(
            "its condition {type_} is {status} ({}): {}",
            text(reason),
            text(message)
        ),
    ))
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
