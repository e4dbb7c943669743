//! Label indexes: equal responses with and without them, flags and metrics.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::support::{ClientCredentials, HttpResponse, HttpTestClient, TestServer};

const PODS: &str = "/api/v1/namespaces/jobs/pods";

const LABEL_SELECTORS: &[&str] = &[
    "",
    "spark-app-selector=app-1",
    "spark-app-selector in (app-1,app-2)",
    "spark-app-selector",
    "!spark-app-selector",
    "spark-app-selector!=app-1",
    "spark-app-selector notin (app-1,app-2)",
    "spark-app-selector=app-1,role=executor",
    "role=executor,tier",
    "role=none",
    "role in (driver,executor),spark-app-selector in (app-0,app-3)",
];

const FIELD_SELECTORS: &[&str] = &[
    "",
    "spec.nodeName=node-1",
    "spec.nodeName=",
    "spec.nodeName!=node-1",
    "status.phase=Running",
    "metadata.name=pod-3",
    "metadata.namespace=jobs,status.phase=Pending",
];

const SCOPES: &[&str] = &["/api/v1/pods", PODS, "/api/v1/namespaces/other/pods"];

/// Fields that differ between servers.
const DIFFERENT: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "resourceVersion",
    "continue",
];

/// Paths with selectors and other parameters.
fn list_path(scope: &str, labels: &str, fields: &str, more: &str) -> String {
    let encode = |text: &str| {
        let mut encoded = String::new();
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => encoded.push(byte.into()),
                _ => encoded.push_str(&format!("%{byte:02X}")),
            }
        }
        encoded
    };
    let (labels, fields) = (encode(labels), encode(fields));
    format!("{scope}?labelSelector={labels}&fieldSelector={fields}{more}")
}

fn all_selections() -> Vec<(&'static str, &'static str, &'static str)> {
    let mut all = Vec::new();
    for scope in SCOPES {
        for labels in LABEL_SELECTORS {
            all.extend(
                FIELD_SELECTORS
                    .iter()
                    .map(|fields| (*scope, *labels, *fields)),
            );
        }
    }
    all
}

/// Removes values that differ between servers.
fn normal(mut value: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(object) => {
                for key in DIFFERENT {
                    object.remove(*key);
                }
                object.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut value);
    value
}

/// A deterministic random sequence of pod writes.
struct RandomPodWrites(u64);

impl RandomPodWrites {
    fn below(&mut self, limit: u64) -> u64 {
        // A linear congruential generator with Knuth's constants.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn labels(&mut self) -> Value {
        let role = ["driver", "executor"][self.below(2) as usize];
        let mut labels = json!({"role": role});
        if self.below(4) > 0 {
            labels["spark-app-selector"] = format!("app-{}", self.below(4)).into();
        }
        if self.below(2) > 0 {
            labels["tier"] = "batch".into();
        }
        labels
    }

    /// The next write: method, path and body.
    fn next(&mut self) -> (Method, String, Value) {
        let namespace = ["jobs", "other"][self.below(2) as usize];
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let name = format!("pod-{}", self.below(12));
        match self.below(6) {
            0 => {
                let options = json!({"gracePeriodSeconds": 0});
                (Method::DELETE, format!("{pods}/{name}"), options)
            }
            1 => {
                // In a merge patch, null removes a label that is no longer set.
                let mut labels = json!({"spark-app-selector": null, "tier": null});
                let new = self.labels();
                for (key, value) in new.as_object().into_iter().flatten() {
                    labels[key] = value.clone();
                }
                let patch = json!({"metadata": {"labels": labels}});
                (Method::PATCH, format!("{pods}/{name}"), patch)
            }
            2 => {
                let phase = ["Pending", "Running", "Succeeded"][self.below(3) as usize];
                let patch = json!({"status": {"phase": phase}});
                (Method::PATCH, format!("{pods}/{name}/status"), patch)
            }
            _ => {
                // The name of the token volume differs between servers.
                let mut spec = json!({
                    "containers": [{"name": "main", "image": "spark"}],
                    "automountServiceAccountToken": false,
                });
                if self.below(2) > 0 {
                    spec["nodeName"] = format!("node-{}", self.below(3)).into();
                }
                let pod =
                    json!({"metadata": {"name": name, "labels": self.labels()}, "spec": spec});
                (Method::POST, pods, pod)
            }
        }
    }
}

async fn write(
    client: &mut HttpTestClient,
    method: Method,
    path: &str,
    body: &Value,
) -> HttpResponse {
    let mut request = client.request(method.clone(), path, &body.to_string());
    if method == Method::PATCH {
        let merge = http::HeaderValue::from_static("application/merge-patch+json");
        request.headers_mut().insert("content-type", merge);
    }
    HttpResponse::read(client.send(request).await.expect("an answer")).await
}

async fn begin(flags: &[&str]) -> TestServer {
    let server = TestServer::start(flags);
    for namespace in ["jobs", "other"] {
        let body = json!({"metadata": {"name": namespace}}).to_string();
        let created_object = server.send_request(
            ClientCredentials::Admin,
            Method::POST,
            "/api/v1/namespaces",
            &body,
        );
        assert_eq!(created_object.await.code, 201);
        account_of(&server, namespace).await;
    }
    server
}

/// Waits for the default service account, which pods need.
async fn account_of(server: &TestServer, namespace: &str) {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    for _ in 0..1500 {
        if server.get(&path).await.code == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{namespace} gets no account");
}

/// Reads a watch until the server ends it.
async fn follow(client: &mut HttpTestClient, path: String) -> JoinHandle<Vec<Value>> {
    let request = client.request(Method::GET, &path, "");
    let response = client.send(request).await.expect("an answer");
    tokio::spawn(async move {
        let mut body = Vec::new();
        let mut stream = response.into_body();
        while let Some(Ok(frame)) = stream.frame().await {
            body.extend_from_slice(&frame.into_data().unwrap_or_else(|_| Bytes::new()));
        }
        let lines = body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        lines
            .map(|line| normal(serde_json::from_slice(line).expect("an event")))
            .collect()
    })
}

async fn lists(client: &mut HttpTestClient) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (scope, labels, fields) in all_selections() {
        for more in ["", "&resourceVersion=0"] {
            let path = list_path(scope, labels, fields, more);
            let http_response = client.send_request(Method::GET, &path, "").await;
            assert_eq!(http_response.code, 200, "{path}");
            all.push((path, normal(http_response.json())));
        }
        if scope == PODS {
            continue;
        }
        // All pages of one list, in order.
        let first = list_path(scope, labels, fields, "&limit=2");
        let mut path = first.clone();
        loop {
            let page = client.send_request(Method::GET, &path, "").await.json();
            let next = page["metadata"]["continue"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            all.push((path.clone(), normal(page)));
            if next.is_empty() {
                break;
            }
            path = format!("{first}&continue={next}");
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_watches_are_equal_with_the_gate_on_and_off() {
    let on = begin(&["--index-labels=pods#spark-app-selector"]).await;
    let off = begin(&["--feature-gates=CacherLabelIndex=false"]).await;
    let mut told = Vec::new();
    for mut server in [on, off] {
        // A connection allows at most a hundred streams, of which the writes need some.
        let mut watchers = Vec::new();
        for selections in all_selections().chunks(50) {
            let mut client = server.http2(ClientCredentials::Admin).await;
            for (scope, labels, fields) in selections {
                let path = list_path(scope, labels, fields, "&watch=true");
                watchers.push((path.clone(), follow(&mut client, path).await));
            }
        }
        let mut client = server.http2(ClientCredentials::Admin).await;
        let (mut script, mut codes) = (RandomPodWrites(7), Vec::new());
        for _ in 0..500 {
            let (method, path, body) = script.next();
            let http_response = write(&mut client, method, &path, &body).await;
            codes.push(http_response.code.as_u16());
        }
        let created = codes.iter().filter(|code| **code == 201).count();
        assert!(created > 50, "{codes:?}");
        let lists = lists(&mut client).await;
        drop(client);
        server.program.terminate();
        let output = server.ended_within(Duration::from_secs(30)).await;
        assert!(output.is_some_and(|status| status.success()));
        let mut events = Vec::new();
        for (path, watcher) in watchers {
            events.push((path, watcher.await.expect("a watcher")));
        }
        told.push((codes, lists, events));
    }
    let (off, on) = (told.pop().expect("two"), told.pop().expect("two"));
    assert_eq!(on.0, off.0);
    assert_eq!(on.1.len(), off.1.len());
    for ((path, with), (_, without)) in on.1.iter().zip(&off.1) {
        assert_eq!(with, without, "{path}");
    }
    let mut count = 0;
    for ((path, with), (_, without)) in on.2.iter().zip(&off.2) {
        for (number, (a, b)) in with.iter().zip(without).enumerate() {
            assert_eq!(a, b, "event {number} of {path}");
        }
        assert_eq!(with.len(), without.len(), "{path}");
        count += with.len();
    }
    assert!(count > 1_000, "only {count} events were compared");
}

#[tokio::test]
async fn metrics_show_watchers_by_trigger_and_objects_evaluated_by_lists() {
    let server = begin(&["--index-labels=pods#spark-app-selector,pods#role"]).await;
    let mut client = server.http2(ClientCredentials::Admin).await;
    for number in 0..20 {
        let metadata = json!({"name": format!("hot-{number}"), "labels": {"role": "hot"}});
        let spec = json!({"containers": [{"name": "main", "image": "spark"}]});
        let pod = json!({"metadata": metadata, "spec": spec});
        let created = write(&mut client, Method::POST, PODS, &pod).await;
        assert_eq!(created.code, 201);
    }
    let mut script = RandomPodWrites(1);
    for _ in 0..40 {
        let (method, path, body) = script.next();
        write(&mut client, method, &path, &body).await;
    }
    let selections = [
        ("spark-app-selector=app-1", ""),
        ("spark-app-selector=app-2", ""),
        ("", "spec.nodeName=node-1"),
    ];
    let mut watchers = Vec::new();
    for (labels, fields) in selections {
        let path = list_path("/api/v1/pods", labels, fields, "&watch=true");
        let request = client.request(Method::GET, &path, "");
        watchers.push(client.send(request).await.expect("a watch"));
    }
    let path = list_path(PODS, "spark-app-selector=app-1", "", "");
    client.send_request(Method::GET, &path, "").await;
    let metrics = client
        .send_request(Method::GET, "/metrics", "")
        .await
        .text();
    let has = |line: &str| {
        assert!(
            metrics.lines().any(|other| other == line),
            "{line}\n{metrics}"
        );
    };
    has(
        "apiserver_watch_cache_watcher_counter{index=\"spark-app-selector\",resource=\"*core.Pod\"} 2",
    );
    has("apiserver_watch_cache_watcher_counter{index=\"spec.nodeName\",resource=\"*core.Pod\"} 1");
    for name in [
        "apiserver_watch_cache_dispatch_event_num_watchers_bucket{le=\"1.0\",resource=\"*core.Pod\"}",
        "rhumb_watch_cache_dispatch_duration_seconds_count{group=\"\",resource=\"pods\"}",
        "apiserver_cache_list_total{group=\"\",resource=\"pods\",index=\"spark-app-selector\"}",
        "apiserver_cache_list_fetched_objects_total{group=\"\",resource=\"pods\",index=\"spark-app-selector\"}",
        "apiserver_cache_list_returned_objects_total{group=\"\",resource=\"pods\"}",
        "apiserver_terminated_watchers_total{group=\"\",resource=\"pods\"}",
        "rhumb_list_index_entries{group=\"\",resource=\"pods\",index=\"spec.nodeName\",type=\"field\",origin=\"built-in\"}",
        "rhumb_list_index_bytes{group=\"\",resource=\"pods\",index=\"spark-app-selector\",type=\"label\",origin=\"configured\"}",
        "rhumb_list_index_values{group=\"\",resource=\"pods\",index=\"spark-app-selector\",type=\"label\",origin=\"configured\"}",
        "rhumb_list_index_hot_value_entries{group=\"\",resource=\"pods\",index=\"role\",type=\"label\",value=\"hot\"} 20",
    ] {
        assert!(metrics.contains(name), "{name}\n{metrics}");
    }
    drop(watchers);
    // The series of a configured index remains without watchers.
    let ended = "apiserver_watch_cache_watcher_counter{index=\"spark-app-selector\",resource=\"*core.Pod\"} 0\n";
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let metrics = client
            .send_request(Method::GET, "/metrics", "")
            .await
            .text();
        if metrics.contains(ended) {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{metrics}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Also of resources that nobody has used.
#[tokio::test]
async fn repeated_index_labels_have_metrics_from_the_start() {
    let server = TestServer::start(&[
        "--controllers=",
        "--index-labels=pods#a;b",
        "--index-labels=deployments.apps#team, cronjobs.batch#team",
    ]);
    let metrics = server.get("/metrics").await.text();
    for (group, resource, go_type, index, attribute, origin) in [
        ("", "pods", "core.Pod", "a", "label", "configured"),
        ("", "pods", "core.Pod", "b", "label", "configured"),
        ("", "pods", "core.Pod", "spec.nodeName", "field", "built-in"),
        (
            "apps",
            "deployments",
            "apps.Deployment",
            "team",
            "label",
            "configured",
        ),
        (
            "batch",
            "cronjobs",
            "batch.CronJob",
            "team",
            "label",
            "configured",
        ),
    ] {
        let labels = format!(
            "{{group=\"{group}\",resource=\"{resource}\",index=\"{index}\",type=\"{attribute}\",origin=\"{origin}\"}} 0"
        );
        for line in [
            format!("rhumb_list_index_entries{labels}"),
            format!("rhumb_list_index_bytes{labels}"),
            format!("rhumb_list_index_values{labels}"),
            format!(
                "apiserver_watch_cache_watcher_counter{{index=\"{index}\",resource=\"*{go_type}\"}} 0"
            ),
        ] {
            assert!(metrics.lines().any(|other| other == line), "{line}");
        }
    }
}
