use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::*;
use crate::testing::{context, list, ok, refused, server};

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

/// With a plan that the pod goes now.
fn shared(client: Client, name: &str) -> Arc<Shared> {
    let mut plans = Plans::default();
    let uid = name.to_owned();
    let at_once = Fate::GoesAfter(Duration::ZERO);
    plans.decide(&key(name), "n", Some(&uid), at_once, Instant::now());
    Arc::new(Shared {
        recorder: Recorder::new(client.clone(), COMPONENT),
        client: client.clone(),
        reader: client,
        queue: Queue::new(),
        plans: Mutex::new(plans),
    })
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_bears_taints_longer_than_any_clock_runs_stays_and_the_others_go() {
    let ever = json!([{"operator": "Exists", "tolerationSeconds": 9_223_372_036_854_775_807_i64}]);
    let (client, requests) = server(move |method, path, query| match (method, path) {
        _ if query.contains("watch=") => None,
        ("GET", "/api/v1/nodes") => list(&[node()]),
        ("GET", "/api/v1/pods") => list(&[pod("ever", &ever), pod("now", &json!([]))]),
        ("GET", "/api/v1/nodes/n") => ok(node()),
        ("POST", _) => refused(500),
        (_, path) => {
            assert!(path.contains("/pods/now"), "{path}");
            ok(pod("now", &json!([])))
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
async fn a_guard_that_fails_ends_the_controller() {
    async fn kept(
        task: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) -> Option<String> {
        let (client, _) = server(|_, _, _| None);
        let mut guards = Guards {
            shared: shared(client.clone(), "p"),
            guards: HashMap::new(),
            tasks: JoinSet::new(),
            listed: HashSet::new(),
        };
        guards.tasks.spawn(task);
        let kept = guards.keep(Api::all(client));
        let ended = timeout(Duration::from_secs(60), kept).await.ok()?;
        Some(ended.unwrap_err().to_string())
    }
    // Its node is no longer tainted.
    assert_eq!(kept(async { Ok(()) }).await, None);
    let failed = kept(async { Err(Error::Other("no pods".to_owned())) }).await;
    assert_eq!(failed.as_deref(), Some("no pods"));
    let panicked = kept(async { panic!("a fault") }).await;
    assert!(panicked.is_some_and(|error| error.contains("a fault")));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_told_once_and_after_it_was_accepted() {
    let mut failures = 1;
    let (client, requests) = server(move |method, path, _| match (method, path) {
        ("GET", "/api/v1/nodes/n") => ok(node()),
        ("DELETE", _) if failures > 0 => {
            failures -= 1;
            refused(500)
        }
        ("POST", _) => ok(json!({"metadata": {}, "involvedObject": {}})),
        _ => ok(pod("p", &json!([]))),
    });
    let shared = shared(client, "p");
    assert!(evict(shared.clone(), key("p")).await.is_err());
    sleep(Duration::from_secs(1)).await;
    let again = evict(shared.clone(), key("p")).await;
    assert_eq!(again.unwrap(), Done::Yes);
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
    assert_eq!(shared.plans().get(&key("p")), None);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_already_is_left_alone() {
    let (client, requests) = server(|_, _, _| {
        let mut ending = pod("p", &json!([]));
        ending["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        ok(ending)
    });
    let shared = shared(client, "p");
    let evicted = evict(shared.clone(), key("p")).await;
    assert_eq!(evicted.unwrap(), Done::Yes);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        *requests.lock().unwrap(),
        ["GET /api/v1/namespaces/ns/pods/p"]
    );
    assert_eq!(shared.plans().get(&key("p")), None);
}
