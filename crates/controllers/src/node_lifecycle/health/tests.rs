use serde_json::json;

use super::*;

const GRACE: NodeGracePeriods = NodeGracePeriods {
    monitor: Duration::from_secs(50),
    startup: Duration::from_secs(60),
};

/// A health tracker with times in seconds after its start.
struct HealthTrackerHarness {
    health: NodeHealthTracker,
    start: Instant,
}

impl HealthTrackerHarness {
    fn new() -> HealthTrackerHarness {
        HealthTrackerHarness {
            health: NodeHealthTracker::new(GRACE),
            start: Instant::now(),
        }
    }

    fn at(&self, second: u64) -> Instant {
        self.start + Duration::from_secs(second)
    }

    fn set_node(&mut self, second: u64, node: &Node) {
        let now = self.at(second);
        self.health.set_node(node, now);
    }

    fn monitor_health(&mut self, second: u64) -> Vec<String> {
        let now = self.at(second);
        let mut due = self.health.monitor_health(now);
        due.sort();
        due
    }
}

fn node(name: &str, ready: &str, heartbeat: u64, taints: &[&str]) -> Node {
    let condition = json!({
        "type": "Ready",
        "status": ready,
        "lastHeartbeatTime": format!("2030-01-01T00:00:{heartbeat:02}Z"),
    });
    let taint =
        |key: &&str| json!({"key": format!("node.kubernetes.io/{key}"), "effect": "NoExecute"});
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"taints": taints.iter().map(taint).collect::<Vec<_>>()},
        "status": {"conditions": if ready.is_empty() { json!([]) } else { json!([condition]) }},
    }))
    .unwrap()
}

fn renewal(second: u64) -> Option<MicroTime> {
    let time = format!("2030-01-01T00:00:{second:02}.000000Z");
    Some(MicroTime(time.parse().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_node_is_unresponsive_when_neither_heartbeat_nor_lease_changes() {
    let mut cluster = HealthTrackerHarness::new();
    cluster.set_node(0, &node("other", "True", 0, &[]));
    cluster.set_node(0, &node("a", "True", 0, &[]));
    let other = cluster.at(100);
    cluster
        .health
        .record_lease_renewal("other", renewal(1), other);
    assert!(cluster.monitor_health(50).is_empty());
    assert_eq!(cluster.monitor_health(51), ["a"]);
    // An unchanged heartbeat does not count.
    cluster.set_node(49, &node("a", "True", 0, &[]));
    assert_eq!(cluster.monitor_health(51), ["a"]);
    cluster.set_node(49, &node("a", "True", 10, &[]));
    assert!(cluster.monitor_health(99).is_empty());
    assert_eq!(cluster.monitor_health(100), ["a"]);
    let now = cluster.at(60);
    cluster.health.record_lease_renewal("a", renewal(1), now);
    assert!(cluster.monitor_health(110).is_empty());
    let now = cluster.at(70);
    cluster.health.record_lease_renewal("a", renewal(1), now);
    assert_eq!(cluster.monitor_health(111), ["a"]);
    assert!(
        cluster
            .health
            .is_unresponsive(&node("a", "True", 10, &[]), cluster.at(111))
    );
    // The node as read may have a newer heartbeat than the watch has delivered.
    assert!(
        !cluster
            .health
            .is_unresponsive(&node("a", "True", 20, &[]), cluster.at(111))
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_node_has_a_longer_grace_period_and_is_reported_once() {
    let mut cluster = HealthTrackerHarness::new();
    let now = cluster.at(1000);
    cluster
        .health
        .record_lease_renewal("other", renewal(1), now);
    cluster.set_node(0, &node("other", "True", 0, &[]));
    cluster.set_node(0, &node("new", "", 0, &[]));
    assert!(cluster.monitor_health(60).is_empty());
    assert_eq!(cluster.monitor_health(61), ["new"]);
    cluster.set_node(62, &node("new", "Unknown", 0, &["unreachable"]));
    assert!(cluster.monitor_health(200).is_empty());
    cluster.health.retain_nodes(&["other".to_owned()].into());
    assert!(
        !cluster
            .health
            .is_unresponsive(&node("new", "Unknown", 0, &[]), cluster.at(200))
    );
}

#[tokio::test(start_paused = true)]
async fn pods_of_lost_nodes_are_evicted_one_node_at_a_time() {
    let mut cluster = HealthTrackerHarness::new();
    cluster.set_node(0, &node("well", "True", 0, &[]));
    for name in ["a", "b"] {
        cluster.set_node(0, &node(name, "Unknown", 0, &[]));
    }
    let first = cluster.monitor_health(0);
    assert_eq!(first.len(), 1);
    let second = if first == ["a"] { "b" } else { "a" };
    assert_eq!(
        cluster.health.eviction_permission(&first[0]),
        NoExecuteTaintMode::Now
    );
    assert_eq!(
        cluster.health.eviction_permission(second),
        NoExecuteTaintMode::NotYet
    );
    cluster.set_node(1, &node(&first[0], "Unknown", 0, &["unreachable"]));
    assert!(cluster.monitor_health(9).is_empty());
    assert_eq!(cluster.monitor_health(10), [second]);
    // A node that becomes ready loses its permission to evict.
    cluster.set_node(11, &node(second, "True", 20, &[]));
    assert_eq!(
        cluster.health.eviction_permission(second),
        NoExecuteTaintMode::NotYet
    );
}

#[tokio::test(start_paused = true)]
async fn no_pods_are_evicted_when_all_nodes_are_lost() {
    let mut cluster = HealthTrackerHarness::new();
    cluster.set_node(0, &node("a", "True", 0, &[]));
    cluster.set_node(0, &node("b", "Unknown", 0, &["unreachable"]));
    assert!(cluster.monitor_health(0).is_empty());
    cluster.set_node(20, &node("a", "Unknown", 0, &[]));
    assert_eq!(cluster.monitor_health(20), ["b"]);
    assert_eq!(
        cluster.health.eviction_permission("b"),
        NoExecuteTaintMode::Never
    );
    assert_eq!(
        cluster.health.eviction_permission("a"),
        NoExecuteTaintMode::Never
    );
    cluster.set_node(60, &node("b", "Unknown", 0, &[]));
    assert!(cluster.monitor_health(60).is_empty());
    // The disruption ends: every node gets its full grace period.
    cluster.set_node(200, &node("a", "True", 30, &[]));
    cluster.set_node(200, &node("b", "False", 0, &[]));
    assert_eq!(cluster.monitor_health(200), ["b"]);
    assert!(
        !cluster
            .health
            .is_unresponsive(&node("b", "False", 0, &[]), cluster.at(250))
    );
    assert!(
        cluster
            .health
            .is_unresponsive(&node("b", "False", 0, &[]), cluster.at(251))
    );
}

#[tokio::test(start_paused = true)]
async fn pods_are_also_evicted_from_nodes_excluded_from_disruption() {
    let mut cluster = HealthTrackerHarness::new();
    let mut lost = node("a", "Unknown", 0, &[]);
    let labels = [
        (EXCLUDE_DISRUPTION_LABEL, ""),
        ("topology.kubernetes.io/zone", "apart"),
    ];
    lost.metadata.labels = Some(
        labels
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .into(),
    );
    cluster.set_node(0, &node("well", "True", 0, &[]));
    cluster.set_node(0, &lost);
    assert_eq!(cluster.monitor_health(0), ["a"]);
    assert_eq!(
        cluster.health.eviction_permission("a"),
        NoExecuteTaintMode::Now
    );
}
