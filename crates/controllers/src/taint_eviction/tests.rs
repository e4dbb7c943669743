use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::*;
use crate::testing::{context, list_response, ok_response, recording_fake_client, status_response};

fn node() -> Value {
    json!({
        "metadata": {"name": "n"},
        "spec": {"taints": [{"key": "k", "effect": "NoExecute"}]},
    })
}

fn pod(name: &str, tolerations: &Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"nodeName": "n", "tolerations": tolerations},
    })
}

fn key(name: &str) -> PodKey {
    PodKey {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
    }
}

/// A controller with an eviction of the pod that is due now.
fn shared(client: Client, name: &str) -> Arc<TaintEvictionController> {
    let mut schedule = EvictionSchedule::default();
    let uid = name.to_owned();
    let at_once = EvictionDecision::GoesAfter(Duration::ZERO);
    schedule.decide(&key(name), "n", Some(&uid), at_once, Instant::now());
    Arc::new(TaintEvictionController {
        recorder: EventRecorder::new(client.clone(), COMPONENT),
        client: client.clone(),
        reader: client,
        queue: WorkQueue::new(),
        schedule: Mutex::new(schedule),
    })
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_unlimited_toleration_stays_and_others_are_evicted() {
    let ever = json!([{"operator": "Exists", "tolerationSeconds": 9_223_372_036_854_775_807_i64}]);
    let (client, requests) =
        recording_fake_client(move |method, path, query| match (method, path) {
            _ if query.contains("watch=") => None,
            ("GET", "/api/v1/nodes") => list_response(&[node()]),
            ("GET", "/api/v1/pods") => list_response(&[pod("ever", &ever), pod("now", &json!([]))]),
            ("GET", "/api/v1/nodes/n") => ok_response(node()),
            ("POST", _) => status_response(500),
            (_, path) => {
                assert!(path.contains("/pods/now"), "{path}");
                ok_response(pod("now", &json!([])))
            }
        });
    let ran = timeout(Duration::from_secs(60), run(context(client))).await;
    assert!(ran.is_err(), "{ran:?}");
    let requests = requests.lock().unwrap();
    let deleted = requests.iter().filter(|line| line.starts_with("DELETE"));
    let deleted: Vec<&String> = deleted.collect();
    assert_eq!(deleted, ["DELETE /api/v1/namespaces/ns/pods/now"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_node_watcher_ends_the_controller() {
    async fn first_error(
        task: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) -> Option<String> {
        let (client, _) = recording_fake_client(|_, _, _| None);
        let mut watchers = TaintedNodeWatchers {
            shared: shared(client.clone(), "p"),
            watchers: HashMap::new(),
            tasks: JoinSet::new(),
        };
        watchers.tasks.spawn(task);
        let kept = watchers.watch_nodes(Api::all(client));
        let ended = timeout(Duration::from_secs(60), kept).await.ok()?;
        Some(ended.unwrap_err().to_string())
    }
    // A task that ends because its node is no longer tainted.
    assert_eq!(first_error(async { Ok(()) }).await, None);
    let failed = first_error(async { Err(Error::Other("no pods".to_owned())) }).await;
    assert_eq!(failed.as_deref(), Some("no pods"));
    let panicked = first_error(async { panic!("a fault") }).await;
    assert!(panicked.is_some_and(|error| error.contains("a fault")));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_event_is_recorded_once_after_acceptance() {
    let mut failures = 1;
    let (client, requests) = recording_fake_client(move |method, path, _| match (method, path) {
        ("GET", "/api/v1/nodes/n") => ok_response(node()),
        ("DELETE", _) if failures > 0 => {
            failures -= 1;
            status_response(500)
        }
        ("POST", _) => ok_response(json!({"metadata": {}, "involvedObject": {}})),
        _ => ok_response(pod("p", &json!([]))),
    });
    let shared = shared(client, "p");
    assert!(evict(shared.clone(), key("p")).await.is_err());
    sleep(Duration::from_secs(1)).await;
    let again = evict(shared.clone(), key("p")).await;
    assert_eq!(again.unwrap(), ReconcileAction::AwaitChange);
    sleep(Duration::from_secs(1)).await;
    let attempt = [
        "GET /api/v1/namespaces/ns/pods/p",
        "GET /api/v1/nodes/n",
        "PATCH /api/v1/namespaces/ns/pods/p/status",
        "DELETE /api/v1/namespaces/ns/pods/p",
    ];
    let told = ["POST /api/v1/namespaces/ns/events"];
    assert_eq!(
        *requests.lock().unwrap(),
        [&attempt[..], &attempt, &told].concat()
    );
    assert_eq!(shared.schedule().get(&key("p")), None);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_is_not_evicted() {
    let (client, requests) = recording_fake_client(|_, _, _| {
        let mut ending = pod("p", &json!([]));
        ending["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        ok_response(ending)
    });
    let shared = shared(client, "p");
    let evicted = evict(shared.clone(), key("p")).await;
    assert_eq!(evicted.unwrap(), ReconcileAction::AwaitChange);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        *requests.lock().unwrap(),
        ["GET /api/v1/namespaces/ns/pods/p"]
    );
    assert_eq!(shared.schedule().get(&key("p")), None);
}
