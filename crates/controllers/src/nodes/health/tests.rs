use serde_json::json;

use super::*;

const GRACE: Grace = Grace {
    monitor: Duration::from_secs(50),
    startup: Duration::from_secs(60),
};

/// A cluster as its controller sees it, at seconds after its start.
struct Cluster {
    health: Health,
    start: Instant,
}

impl Cluster {
    fn new() -> Cluster {
        Cluster {
            health: Health::new(GRACE),
            start: Instant::now(),
        }
    }

    fn at(&self, second: u64) -> Instant {
        self.start + Duration::from_secs(second)
    }

    /// `ready` may be empty: then the node has no such condition.
    fn seen(&mut self, second: u64, node: &Node) {
        let now = self.at(second);
        self.health.seen(node, now);
    }

    fn look(&mut self, second: u64) -> Vec<String> {
        let now = self.at(second);
        let mut due = self.health.look(now);
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
async fn a_node_is_silent_when_neither_heartbeat_nor_lease_changes() {
    let mut cluster = Cluster::new();
    cluster.seen(0, &node("other", "True", 0, &[]));
    cluster.seen(0, &node("a", "True", 0, &[]));
    let other = cluster.at(100);
    cluster.health.renewed("other", renewal(1), other);
    assert!(cluster.look(50).is_empty());
    assert_eq!(cluster.look(51), ["a"]);
    // The same again says nothing.
    cluster.seen(49, &node("a", "True", 0, &[]));
    assert_eq!(cluster.look(51), ["a"]);
    cluster.seen(49, &node("a", "True", 10, &[]));
    assert!(cluster.look(99).is_empty());
    assert_eq!(cluster.look(100), ["a"]);
    let now = cluster.at(60);
    cluster.health.renewed("a", renewal(1), now);
    assert!(cluster.look(110).is_empty());
    let now = cluster.at(70);
    cluster.health.renewed("a", renewal(1), now);
    assert_eq!(cluster.look(111), ["a"]);
    assert!(
        cluster
            .health
            .is_silent(&node("a", "True", 10, &[]), cluster.at(111))
    );
    // What was just read may be newer than what was heard.
    assert!(
        !cluster
            .health
            .is_silent(&node("a", "True", 20, &[]), cluster.at(111))
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_node_has_more_time_and_one_that_is_lost_is_done_with() {
    let mut cluster = Cluster::new();
    let now = cluster.at(1000);
    cluster.health.renewed("other", renewal(1), now);
    cluster.seen(0, &node("other", "True", 0, &[]));
    cluster.seen(0, &node("new", "", 0, &[]));
    assert!(cluster.look(60).is_empty());
    assert_eq!(cluster.look(61), ["new"]);
    cluster.seen(62, &node("new", "Unknown", 0, &["unreachable"]));
    assert!(cluster.look(200).is_empty());
    cluster.health.list_begins();
    cluster.health.listed("other");
    cluster.health.list_ends();
    assert!(
        !cluster
            .health
            .is_silent(&node("new", "Unknown", 0, &[]), cluster.at(200))
    );
}

#[tokio::test(start_paused = true)]
async fn lost_nodes_lose_their_pods_one_after_the_other() {
    let mut cluster = Cluster::new();
    cluster.seen(0, &node("well", "True", 0, &[]));
    for name in ["a", "b"] {
        cluster.seen(0, &node(name, "Unknown", 0, &[]));
    }
    let first = cluster.look(0);
    assert_eq!(first.len(), 1);
    let second = if first == ["a"] { "b" } else { "a" };
    assert_eq!(cluster.health.eviction(&first[0]), Eviction::Now);
    assert_eq!(cluster.health.eviction(second), Eviction::NotYet);
    cluster.seen(1, &node(&first[0], "Unknown", 0, &["unreachable"]));
    assert!(cluster.look(9).is_empty());
    assert_eq!(cluster.look(10), [second]);
    // Coming back takes the turn away.
    cluster.seen(11, &node(second, "True", 20, &[]));
    assert_eq!(cluster.health.eviction(second), Eviction::NotYet);
}

#[tokio::test(start_paused = true)]
async fn nobody_loses_pods_when_no_node_is_seen_any_more() {
    let mut cluster = Cluster::new();
    cluster.seen(0, &node("a", "True", 0, &[]));
    cluster.seen(0, &node("b", "Unknown", 0, &["unreachable"]));
    assert!(cluster.look(0).is_empty());
    cluster.seen(20, &node("a", "Unknown", 0, &[]));
    assert_eq!(cluster.look(20), ["b"]);
    assert_eq!(cluster.health.eviction("b"), Eviction::Never);
    assert_eq!(cluster.health.eviction("a"), Eviction::Never);
    cluster.seen(60, &node("b", "Unknown", 0, &[]));
    assert!(cluster.look(60).is_empty());
    // It gets light again: all have their full time.
    cluster.seen(200, &node("a", "True", 30, &[]));
    cluster.seen(200, &node("b", "False", 0, &[]));
    assert_eq!(cluster.look(200), ["b"]);
    assert!(
        !cluster
            .health
            .is_silent(&node("b", "False", 0, &[]), cluster.at(250))
    );
    assert!(
        cluster
            .health
            .is_silent(&node("b", "False", 0, &[]), cluster.at(251))
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_that_do_not_count_lose_their_pods_all_the_same() {
    let mut cluster = Cluster::new();
    let mut lost = node("a", "Unknown", 0, &[]);
    let labels = [(UNCOUNTED, ""), ("topology.kubernetes.io/zone", "apart")];
    lost.metadata.labels = Some(
        labels
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .into(),
    );
    cluster.seen(0, &node("well", "True", 0, &[]));
    cluster.seen(0, &lost);
    assert_eq!(cluster.look(0), ["a"]);
    assert_eq!(cluster.health.eviction("a"), Eviction::Now);
}
