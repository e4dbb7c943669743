//! Objects and helpers for the tests of the status state.

use serde_json::{Value, json};

use super::super::write_planner::SETTLE_TIME;
use super::super::*;
use crate::network_policy_status::condition_diff::StatusWrite;
use crate::network_policy_status::heartbeats::ObservationTime;

pub(super) const QUARANTINE: Duration = Duration::from_secs(40);
pub(super) const HEARTBEAT_GRACE: Duration = Duration::from_secs(40);

pub(super) fn object<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// A policy that selects all pods of its namespace.
pub(super) fn policy(name: &str, generation: i64) -> NetworkPolicy {
    object(json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "generation": generation,
            "resourceVersion": generation.to_string(),
        },
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}], "minVersion": "1.3"},
    }))
}

/// A pod that the agents of `report` have observed.
pub(super) fn pod(name: &str, namespace: &str, node: &str) -> Pod {
    object(json!({
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": "5"},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
    }))
}

pub(super) fn namespace(name: &str) -> Namespace {
    object(json!({"metadata": {"name": name}}))
}

pub(super) fn node(name: &str) -> PartialNode {
    object(json!({"metadata": {"name": name}}))
}

pub(super) fn report(node: &str, applied: &[(&str, i64)]) -> NetworkPolicyNode {
    let applied = applied.iter();
    let applied = applied.map(|(uid, generation)| json!({"uid": uid, "generation": generation}));
    object(json!({
        "metadata": {"name": node},
        "versions": ["1.3"],
        "applied": applied.collect::<Value>(),
        "podsResourceVersion": "5",
        "lastHeartbeatTime": "2030-01-01T00:00:00Z",
    }))
}

/// Observed when the reports were sent.
pub(super) fn seen(at: Instant) -> ObservationTime {
    ObservationTime {
        at,
        time_of_day: "2030-01-01T00:00:00Z".parse().unwrap(),
    }
}

/// A report arrives.
pub(super) fn apply_report(
    state: &mut PolicyStatusState,
    report: NetworkPolicyNode,
    at: Instant,
) -> KeysToQueue {
    state.handle_report_event(Event::Apply(report), seen(at))
}

pub(super) fn key(policy: &str) -> WorkKey {
    WorkKey::Policy(NamespacedName::new("ns", policy))
}

pub(super) fn keys(due: KeysToQueue) -> BTreeSet<WorkKey> {
    let now = due.into_iter().filter(|(_, pause)| pause.is_zero());
    now.map(|(key, _)| key).collect()
}

/// Objects that the initial lists return.
#[derive(Default)]
pub(super) struct InitialLists {
    pub(super) policies: Vec<NetworkPolicy>,
    pub(super) pods: Vec<Pod>,
    pub(super) nodes: Vec<PartialNode>,
    pub(super) reports: Vec<NetworkPolicyNode>,
}

pub(super) fn relist<K>(objects: Vec<K>) -> impl Iterator<Item = Event<K>> {
    let objects = objects.into_iter().map(Event::InitApply);
    [Event::Init]
        .into_iter()
        .chain(objects)
        .chain([Event::InitDone])
}

/// A state after all initial lists and the first sweep.
pub(super) fn read(lists: InitialLists, at: Instant) -> PolicyStatusState {
    let mut state = PolicyStatusState::new(QUARANTINE, HEARTBEAT_GRACE);
    let mut due = KeysToQueue::new();
    for event in relist(lists.reports) {
        due.extend(state.handle_report_event(event, seen(at)));
    }
    for event in relist(lists.nodes) {
        due.extend(state.handle_node_event(event));
    }
    for event in relist(lists.policies) {
        due.extend(state.handle_policy_event(event, at));
    }
    for event in relist(vec![namespace("ns"), namespace("other")]) {
        due.extend(state.handle_namespace_event(event));
    }
    assert_eq!(
        keys(due),
        BTreeSet::new(),
        "nothing may be queued before all lists are complete"
    );
    let mut due = KeysToQueue::new();
    for event in relist(lists.pods) {
        due.extend(state.handle_pod_event(event, seen(at)));
    }
    assert_eq!(keys(due), [WorkKey::Policies].into());
    state.sweep(at).unwrap();
    state
}

/// Two nodes with agents, a policy, and a pod on one node; the settle time is over.
pub(super) fn cluster(at: Instant) -> PolicyStatusState {
    let lists = InitialLists {
        policies: vec![policy("p", 1)],
        pods: vec![pod("x", "ns", "a")],
        nodes: vec![node("a"), node("b")],
        reports: vec![report("a", &[]), report("b", &[])],
    };
    read(lists, at - SETTLE_TIME)
}

/// The planned conditions, as `type=status/reason`.
pub(super) fn writes(state: &mut PolicyStatusState, at: Instant) -> Vec<String> {
    let write = written(state, at);
    let said = write.missing.iter().map(|missing| &missing.condition);
    said.map(|said| {
        format!(
            "{}={}/{}",
            said.type_.name(),
            said.status.name(),
            said.reason
        )
    })
    .collect()
}

/// The planned write, after its delay.
pub(super) fn written(state: &mut PolicyStatusState, at: Instant) -> StatusWrite {
    let name = NamespacedName::new("ns", "p");
    let planned = match state.plan_write(&name, at) {
        PlannedWrite::Later(delay) => state.plan_write(&name, at + delay),
        planned => planned,
    };
    match planned {
        PlannedWrite::Write(write) => write,
        other => panic!("no write planned: {other:?}"),
    }
}

/// The policy after a write.
pub(super) fn patched(policy: &NetworkPolicy, write: &StatusWrite) -> NetworkPolicy {
    let patch = write.patch("2030-01-01T00:00:00Z");
    let mut patched = policy.clone();
    let mut version: u64 = write.version.parse().unwrap();
    version += 1000;
    patched.metadata.resource_version = Some(version.to_string());
    let conditions = patched.status.conditions.get_or_insert_default();
    for new in patch["status"]["conditions"].as_array().unwrap() {
        let mut new: rhumb_netpol::objects::StatusCondition = object(new.clone());
        let old = conditions.iter().position(|old| old.type_ == new.type_);
        if let Some(old) = old.map(|old| conditions.remove(old)) {
            let time = new.last_transition_time.take();
            new.last_transition_time = time.or(old.last_transition_time);
        }
        conditions.push(new);
    }
    patched
}

/// Performs the planned write; returns the policy afterwards.
pub(super) fn write(
    state: &mut PolicyStatusState,
    policy: &NetworkPolicy,
    at: Instant,
) -> NetworkPolicy {
    let write = written(state, at);
    let patched = patched(policy, &write);
    let name = NamespacedName::new("ns", "p");
    assert_eq!(state.record_write(&name, &write, &patched, at), None);
    patched
}

pub(super) const SECOND: Duration = Duration::from_secs(1);
