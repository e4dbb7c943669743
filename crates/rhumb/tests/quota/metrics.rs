//! What is counted of quotas, for those who watch over a cluster.

use http::Request;
use serde_json::json;

use crate::space::{Space, pod, pod_near, pod_requesting, start};

/// The value of a metric with exactly these labels, in any order; 0 if there is none.
async fn metric(space: &Space, name: &str, labels: &[(&str, &str)]) -> f64 {
    let request = Request::get("/metrics")
        .body(Vec::new())
        .expect("a request");
    let metrics = space.client.request_text(request).await.expect("metrics");
    let mut wanted: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}=\"{value}\""))
        .collect();
    wanted.sort_unstable();
    let of_line = |line: &str| {
        let (head, value) = line.rsplit_once(' ')?;
        let rest = head.strip_prefix(name)?;
        let inside = match rest.strip_prefix('{') {
            Some(inside) => inside.strip_suffix('}')?,
            None => rest,
        };
        let mut found: Vec<&str> = inside
            .split(',')
            .filter(|label| !label.is_empty())
            .collect();
        found.sort_unstable();
        (found == wanted).then(|| value.parse().expect("a number"))
    };
    metrics.lines().find_map(of_line).unwrap_or(0.0)
}

async fn evaluations(space: &Space, result: &str) -> f64 {
    let labels = [("group", ""), ("resource", "pods"), ("result", result)];
    metric(space, "rhumb_quota_evaluations_total", &labels).await
}

async fn denials(space: &Space, scope: &str, reason: &str) -> f64 {
    let labels = [
        ("group", ""),
        ("resource", "pods"),
        ("scope", scope),
        ("reason", reason),
    ];
    metric(space, "rhumb_quota_denials_total", &labels).await
}

#[tokio::test]
async fn evaluations_and_denials_are_counted_by_what_came_of_them() {
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    // Where there are no quotas nothing is held against any.
    space.must_create(pod("free")).await;
    assert_eq!(evaluations(&space, "unlimited").await, 0.0);
    space
        .make_quota("other", json!({"hard": {"configmaps": "9"}}))
        .await;
    space.must_create(pod("unlimited")).await;
    assert_eq!(evaluations(&space, "unlimited").await, 1.0);
    let count = "rhumb_quota_evaluation_duration_seconds_count";
    let begun = metric(&space, count, &[]).await;
    assert!(begun >= 1.0);

    let limits = json!({"pods": "4", "requests.cpu": "1"});
    space.make_quota("q", json!({"hard": limits})).await;
    space
        .make_quota(
            "near",
            json!({"hard": {"pods": "0"}, "scopes": ["CrossNamespaceAffinity"]}),
        )
        .await;
    for name in ["one", "two"] {
        space.must_create(pod_requesting(name, 100)).await;
    }
    for _ in 0..3 {
        space.refused(pod_requesting("three", 100)).await;
    }
    space.refused(pod("says-nothing")).await;
    space.set_hard("q", json!({"pods": "9"})).await;
    let mut near = pod_near("near", json!({"namespaces": ["b"]}));
    near["spec"]["containers"] = pod_requesting("near", 100)["spec"]["containers"].clone();
    space.refused(near).await;

    assert_eq!(evaluations(&space, "admitted").await, 2.0);
    assert_eq!(evaluations(&space, "denied").await, 5.0);
    assert_eq!(evaluations(&space, "failed").await, 0.0);
    assert_eq!(denials(&space, "", "exceeded").await, 3.0);
    assert_eq!(denials(&space, "", "incomplete").await, 1.0);
    assert_eq!(
        denials(&space, "CrossNamespacePodAffinity", "exceeded").await,
        1.0
    );
    let took = metric(&space, "rhumb_quota_evaluation_duration_seconds_sum", &[]).await;
    assert!(took > 0.0);
    let judged = metric(&space, count, &[]).await - begun;
    assert!(judged >= 7.0, "{judged}");
}
