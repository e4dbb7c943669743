//! State of the NetworkPolicy status controller: maps watch events to the policies to check. No I/O and no clock: time
//! is an argument.

mod policy_record;
mod write_planner;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem::take;
use std::time::Duration;

use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use rhumb_netpol::node_enforcement::covers_pod;
use rhumb_netpol::node_report::NetworkPolicyNode;
use rhumb_netpol::{
    EngineScope, Namespace, NamespacedName, NetworkPolicy, PluginCapabilities, Pod, PolicyEngine,
    PolicyFeatureSet,
};
use tokio::time::Instant;

use super::agent_reports::{AffectedPolicies, AgentReports, StaleReport};
use super::condition_diff::{RepeatedWrites, StatusDigest};
use super::heartbeats::{AgentHeartbeats, ObservationTime, liveness_label};
use super::metrics::PolicyStatusCounts;
use super::partial_node::PartialNode;
use super::uncovered_pods::UnobservedPods;
use policy_record::{PolicyRecord, unprogrammed_since};
pub(super) use write_planner::PlannedWrite;

/// Key of the work queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum WorkKey {
    Policy(NamespacedName),
    /// All policies.
    Policies,
    /// The report of a node that does not exist.
    StaleReport(String),
    /// The heartbeat of a node's agent, which may have become stale.
    Heartbeat(String),
    /// The pods of a node that its agent has not reported as observed yet.
    Coverage(String),
}

/// How long an agent may take to report a changed pod before its policies are checked.
const COVERAGE_DELAY: Duration = Duration::from_millis(100);

/// Keys to queue, each with a delay.
pub(super) type KeysToQueue = Vec<(WorkKey, Duration)>;

/// Kinds that must be listed before any status is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RequiredKind {
    Reports,
    Nodes,
    Policies,
    Namespaces,
    Pods,
}

pub(super) struct PolicyStatusState {
    engine: PolicyEngine,
    agents: AgentReports,
    heartbeats: AgentHeartbeats,
    uncovered_pods: UnobservedPods,
    policies: HashMap<NamespacedName, PolicyRecord>,
    /// Policies by uid, which reports use.
    names: HashMap<String, NamespacedName>,
    /// Kinds that have not been listed completely yet.
    unread: BTreeSet<RequiredKind>,
    /// Known objects that a relist in progress has not returned yet.
    unlisted: UnlistedObjects,
    /// When all policies were last queued.
    swept: Option<Instant>,
    /// Policies whose status the server did not store.
    ignored: HashSet<NamespacedName>,
    /// How long a node must be missing before its report is deleted.
    quarantine: Duration,
}

#[derive(Default)]
struct UnlistedObjects {
    reports: BTreeSet<String>,
    nodes: BTreeSet<String>,
    policies: HashSet<NamespacedName>,
    namespaces: HashSet<String>,
    pods: HashSet<NamespacedName>,
}

fn name(object: &impl Resource) -> NamespacedName {
    let meta: &ObjectMeta = object.meta();
    NamespacedName {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

fn now(keys: impl IntoIterator<Item = WorkKey>) -> KeysToQueue {
    let keys = keys.into_iter();
    keys.map(|key| (key, Duration::ZERO)).collect()
}

impl PolicyStatusState {
    pub(super) fn new(quarantine: Duration, heartbeat_grace: Duration) -> PolicyStatusState {
        let kinds = [
            RequiredKind::Reports,
            RequiredKind::Nodes,
            RequiredKind::Policies,
            RequiredKind::Namespaces,
            RequiredKind::Pods,
        ];
        PolicyStatusState {
            engine: PolicyEngine::new(EngineScope::Cluster, PluginCapabilities::all()),
            agents: AgentReports::default(),
            heartbeats: AgentHeartbeats::new(heartbeat_grace),
            uncovered_pods: UnobservedPods::default(),
            policies: HashMap::new(),
            names: HashMap::new(),
            unread: kinds.into(),
            unlisted: UnlistedObjects::default(),
            swept: None,
            ignored: HashSet::new(),
            quarantine,
        }
    }

    pub(super) fn handle_pod_event(
        &mut self,
        event: Event<Pod>,
        at: ObservationTime,
    ) -> KeysToQueue {
        let mut due = KeysToQueue::new();
        match event {
            Event::Apply(pod) => due.extend(self.set_pod(&pod, at)),
            Event::InitApply(pod) => {
                self.unlisted.pods.remove(&name(&pod));
                due.extend(self.set_pod(&pod, at));
            }
            Event::Delete(pod) => due.extend(self.remove_pod(&name(&pod))),
            Event::Init => self.unlisted.pods = self.engine.pods().cloned().collect(),
            Event::InitDone => {
                for gone in take(&mut self.unlisted.pods) {
                    due.extend(self.remove_pod(&gone));
                }
                self.mark_listed(RequiredKind::Pods);
            }
        }
        due.extend(self.changed());
        due
    }

    fn set_pod(&mut self, pod: &Pod, at: ObservationTime) -> KeysToQueue {
        let name = name(pod);
        let mut due = self.uncover_policies(&name);
        if !self.engine.set_pod(pod) {
            if !self.engine.has_pod(&name) {
                self.uncovered_pods.remove(&name);
            }
            return due;
        }
        self.uncovered_pods.remove(&name);
        let Some(node) = pod.node_name().filter(|_| pod.has_address()) else {
            return due;
        };
        let version = pod.version_number();
        let report = self.agents.report(node);
        if report.is_some_and(|report| covers_pod(report.pods_version, version)) {
            return due;
        }
        // Without a report the policies wait for the node anyway; `cover_pods` queues the node when it has one.
        if report.is_some() {
            due.push((WorkKey::Coverage(node.to_owned()), COVERAGE_DELAY));
        }
        let is_first_list = self.unread.contains(&RequiredKind::Pods);
        let awaits_report_until =
            is_first_list.then(|| at.at + self.heartbeats.time_to_next_report(node, at));
        self.uncovered_pods
            .insert(name, node, version, awaits_report_until);
        due
    }

    fn remove_pod(&mut self, name: &NamespacedName) -> KeysToQueue {
        let due = self.uncover_policies(name);
        self.uncovered_pods.remove(name);
        self.engine.remove_pod(name);
        due
    }

    /// The policies that wait for the agent to observe a pod, which is about to change.
    fn uncover_policies(&self, pod: &NamespacedName) -> KeysToQueue {
        match self.uncovered_pods.is_late(pod) && self.is_ready() {
            true => now(self.policy_keys_of_pod(pod)),
            false => KeysToQueue::new(),
        }
    }

    fn policy_keys_of_pod(&self, pod: &NamespacedName) -> impl Iterator<Item = WorkKey> {
        let policies = self.engine.policies_selecting(pod);
        policies.cloned().map(WorkKey::Policy)
    }

    /// The policies to check because the agent of a node has not reported changed pods in time.
    pub(super) fn check_coverage(&mut self, node: &str, at: Instant) -> KeysToQueue {
        let late = self.uncovered_pods.mark_late(node);
        let keys = late.iter().flat_map(|pod| self.policy_keys_of_pod(pod));
        let mut due = now(keys.collect::<BTreeSet<WorkKey>>());
        let next = self.uncovered_pods.next_report_due(node, at);
        due.extend(next.map(|next| (WorkKey::Coverage(node.to_owned()), next - at)));
        due
    }

    /// The report of a node is new, or has become valid: the policies to check because it covers pods, and when to
    /// check those of pods that it does not cover.
    fn cover_pods(&mut self, node: &str) -> KeysToQueue {
        let Some(report) = self.agents.report(node) else {
            return KeysToQueue::new();
        };
        let covered = self.uncovered_pods.cover(node, report.pods_version);
        let keys = covered.iter().flat_map(|pod| self.policy_keys_of_pod(pod));
        let mut due = now(keys.filter(|_| self.is_ready()));
        if self.uncovered_pods.has_pods(node) {
            due.push((WorkKey::Coverage(node.to_owned()), COVERAGE_DELAY));
        }
        due
    }

    /// The policies that are affected because the heartbeat of a node became stale, and when to check it again.
    pub(super) fn check_heartbeat(&mut self, node: &str, at: Instant) -> KeysToQueue {
        match self.heartbeats.expire(node, at) {
            None => KeysToQueue::new(),
            Some(Duration::ZERO) => self.affected_policy_keys(&self.agents.all_policies(node)),
            Some(remaining) => vec![(WorkKey::Heartbeat(node.to_owned()), remaining)],
        }
    }

    pub(super) fn handle_namespace_event(&mut self, event: Event<Namespace>) -> KeysToQueue {
        match event {
            Event::Apply(namespace) => self.engine.set_namespace(&namespace),
            Event::InitApply(namespace) => {
                self.unlisted.namespaces.remove(&namespace.name_any());
                self.engine.set_namespace(&namespace);
            }
            Event::Delete(namespace) => self.engine.remove_namespace(&namespace.name_any()),
            Event::Init => {
                let known = self.engine.namespaces();
                self.unlisted.namespaces = known.map(str::to_owned).collect();
            }
            Event::InitDone => {
                for gone in take(&mut self.unlisted.namespaces) {
                    self.engine.remove_namespace(&gone);
                }
                self.mark_listed(RequiredKind::Namespaces);
            }
        }
        self.changed()
    }

    pub(super) fn handle_policy_event(
        &mut self,
        event: Event<NetworkPolicy>,
        at: Instant,
    ) -> KeysToQueue {
        let mut shown = None;
        match event {
            Event::Apply(policy) => shown = Some(self.set_policy(&policy, at)),
            Event::InitApply(policy) => {
                let name = self.set_policy(&policy, at);
                self.unlisted.policies.remove(&name);
                shown = Some(name);
            }
            Event::Delete(policy) => self.remove_policy(&name(&policy)),
            Event::Init => self.unlisted.policies = self.policies.keys().cloned().collect(),
            Event::InitDone => {
                for gone in take(&mut self.unlisted.policies) {
                    self.remove_policy(&gone);
                }
                self.mark_listed(RequiredKind::Policies);
            }
        }
        let mut due = self.changed();
        // Someone may have changed the status without changing the spec.
        due.extend(now(shown.map(WorkKey::Policy).filter(|_| self.is_ready())));
        due
    }

    fn set_policy(&mut self, policy: &NetworkPolicy, at: Instant) -> NamespacedName {
        let name = name(policy);
        let meta = &policy.metadata;
        let uid = meta.uid.clone().unwrap_or_default();
        let version = meta.resource_version.clone().unwrap_or_default();
        let current = StatusDigest::of(&policy.status);
        if let Some(known) = self.policies.get_mut(&name)
            && known.uid == uid
            && known.generation.is_some()
            && known.generation == meta.generation
        {
            known.version = version;
            known.current = current;
            known.unprogrammed_since = unprogrammed_since(policy);
            return name;
        }
        self.engine.set_policy(policy);
        let known = PolicyRecord {
            uid: uid.clone(),
            generation: meta.generation,
            since: at,
            version,
            current,
            features: PolicyFeatureSet::of(&policy.spec),
            repeats: RepeatedWrites::default(),
            paused_until: None,
            pending_since: None,
            unprogrammed_since: unprogrammed_since(policy),
        };
        if let Some(old) = self.policies.insert(name.clone(), known)
            && let Some(known) = self.policies.get_mut(&name)
        {
            if old.uid == uid {
                known.paused_until = old.paused_until;
            } else {
                self.names.remove(&old.uid);
            }
        }
        self.names.insert(uid, name.clone());
        name
    }

    fn remove_policy(&mut self, name: &NamespacedName) {
        self.engine.remove_policy(name);
        self.ignored.remove(name);
        if let Some(known) = self.policies.remove(name) {
            self.names.remove(&known.uid);
        }
    }

    pub(super) fn handle_node_event(&mut self, event: Event<PartialNode>) -> KeysToQueue {
        match event {
            Event::Apply(node) | Event::InitApply(node) => {
                let name = node.name_any();
                self.unlisted.nodes.remove(&name);
                let Some(change) = self.agents.set_node(name.clone(), node.boot()) else {
                    return KeysToQueue::new();
                };
                let mut due = self.affected_policy_keys(&change);
                due.extend(self.cover_pods(&name));
                due
            }
            Event::Delete(node) => self.remove_node(&node.name_any()),
            Event::Init => {
                self.unlisted.nodes = self.agents.nodes().cloned().collect();
                KeysToQueue::new()
            }
            Event::InitDone => {
                let gone = take(&mut self.unlisted.nodes).into_iter();
                let mut due: KeysToQueue = gone.flat_map(|name| self.remove_node(&name)).collect();
                if self.mark_listed(RequiredKind::Nodes) {
                    let reporting = self.agents.reporting();
                    let stale_reports = reporting.filter(|node| !self.agents.has_node(node));
                    due.extend(
                        stale_reports
                            .map(|node| (WorkKey::StaleReport(node.clone()), self.quarantine)),
                    );
                }
                due.extend(self.changed());
                due
            }
        }
    }

    fn remove_node(&mut self, node: &str) -> KeysToQueue {
        let change = self.agents.remove_node(node);
        let mut due = self.affected_policy_keys(&change);
        if self.agents.stale_report(node).is_some() {
            due.push((WorkKey::StaleReport(node.to_owned()), Duration::ZERO));
        }
        due
    }

    pub(super) fn handle_report_event(
        &mut self,
        event: Event<NetworkPolicyNode>,
        now: ObservationTime,
    ) -> KeysToQueue {
        match event {
            Event::Apply(report) | Event::InitApply(report) => self.set_report(report, now),
            Event::Delete(report) => self.remove_report(&report.name_any()),
            Event::Init => {
                self.unlisted.reports = self.agents.reporting().cloned().collect();
                KeysToQueue::new()
            }
            Event::InitDone => {
                let gone = take(&mut self.unlisted.reports).into_iter();
                let mut due: KeysToQueue =
                    gone.flat_map(|node| self.remove_report(&node)).collect();
                self.mark_listed(RequiredKind::Reports);
                due.extend(self.changed());
                due
            }
        }
    }

    fn set_report(&mut self, report: NetworkPolicyNode, at: ObservationTime) -> KeysToQueue {
        let node = report.name_any();
        self.unlisted.reports.remove(&node);
        let mut due = KeysToQueue::new();
        if self.heartbeats.observe(&node, &report, at) {
            due.extend(self.affected_policy_keys(&self.agents.all_policies(&node)));
            due.extend(self.check_heartbeat(&node, at.at));
        }
        let change = self.agents.set_report(node.clone(), report);
        due.extend(self.affected_policy_keys(&change));
        due.extend(self.cover_pods(&node));
        if !self.unread.contains(&RequiredKind::Nodes) && !self.agents.has_node(&node) {
            due.push((WorkKey::StaleReport(node), self.quarantine));
        }
        due
    }

    fn remove_report(&mut self, node: &str) -> KeysToQueue {
        self.heartbeats.remove(node);
        let change = self.agents.remove_report(node);
        self.affected_policy_keys(&change)
    }

    fn is_ready(&self) -> bool {
        self.unread.is_empty()
    }

    /// A list of the kind is complete. Returns whether it was the first.
    fn mark_listed(&mut self, kind: RequiredKind) -> bool {
        self.unread.remove(&kind)
    }

    /// Policies affected by changes of pods, namespaces and policies; all policies after the initial lists.
    fn changed(&mut self) -> KeysToQueue {
        if !self.is_ready() {
            return KeysToQueue::new();
        }
        // Conditions do not depend on the number of selected pods per node.
        let changed = self.engine.take_changed_policies_ignoring_counts();
        if self.swept.is_none() {
            return now([WorkKey::Policies]);
        }
        now(changed.into_iter().map(WorkKey::Policy))
    }

    /// Keys of the policies that a change of a report affects.
    fn affected_policy_keys(&self, change: &AffectedPolicies) -> KeysToQueue {
        if !self.is_ready() {
            return KeysToQueue::new();
        }
        let uids = change.uids.iter();
        let names = uids.filter_map(|uid| self.names.get(&**uid));
        let policies = names.cloned().map(WorkKey::Policy);
        now(policies.chain(change.is_for_all.then_some(WorkKey::Policies)))
    }

    /// The numbers for metrics. The cost is proportional to the number of policies and nodes.
    pub(super) fn counts(&self, now: ObservationTime) -> PolicyStatusCounts {
        let mut counts = PolicyStatusCounts::default();
        for (name, policy) in &self.policies {
            for (type_, status) in policy.statuses() {
                let key = (type_.name(), status.name());
                *counts.conditions.entry(key).or_default() += 1;
            }
            if let Some(version) = self.engine.min_version(name) {
                *counts.min_versions.entry(version.to_owned()).or_default() += 1;
            }
            let is_ignored = self.agents.is_empty() || self.ignored.contains(name);
            if let Some(age) = policy.unprogrammed_age(now, !is_ignored) {
                let seconds = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
                let oldest = &mut counts.oldest_unprogrammed_seconds;
                *oldest = seconds.max(*oldest);
            }
        }
        for node in self.agents.reporting() {
            let liveness = self.heartbeats.liveness(node);
            *counts.nodes.entry(liveness_label(liveness)).or_default() += 1;
        }
        counts
    }

    pub(super) fn stale_report(&self, node: &str) -> Option<StaleReport> {
        self.agents.stale_report(node)
    }
}

#[cfg(test)]
mod tests;
