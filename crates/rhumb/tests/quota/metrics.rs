//! Quota metrics.

use http::Request;
use serde_json::json;

use crate::metric_value::metric_value;
use crate::quota_namespace::{TestNamespace, pod, pod_near, pod_requesting, start};

/// The value of a metric with exactly these labels, in any order; 0 if absent.
async fn metric(namespace: &TestNamespace, name: &str, labels: &[(&str, &str)]) -> f64 {
    let request = Request::get("/metrics")
        .body(Vec::new())
        .expect("a request");
    let metrics = namespace
        .client
        .request_text(request)
        .await
        .expect("metrics");
    metric_value(&metrics, name, labels)
}

async fn evaluations(namespace: &TestNamespace, result: &str) -> f64 {
    let labels = [("group", ""), ("resource", "pods"), ("result", result)];
    metric(namespace, "rhumb_quota_evaluations_total", &labels).await
}

async fn denials(namespace: &TestNamespace, scope: &str, reason: &str) -> f64 {
    let labels = [
        ("group", ""),
        ("resource", "pods"),
        ("scope", scope),
        ("reason", reason),
    ];
    metric(namespace, "rhumb_quota_denials_total", &labels).await
}

#[tokio::test]
async fn evaluations_and_denials_are_counted_by_result() {
    let server = start();
    let namespace = TestNamespace::make(&server.client().await, "a").await;
    // Without quotas nothing is evaluated.
    namespace.must_create(pod("free")).await;
    assert_eq!(evaluations(&namespace, "unlimited").await, 0.0);
    namespace
        .make_quota("other", json!({"hard": {"configmaps": "9"}}))
        .await;
    namespace.must_create(pod("unlimited")).await;
    assert_eq!(evaluations(&namespace, "unlimited").await, 1.0);
    let count = "rhumb_quota_evaluation_duration_seconds_count";
    let initial = metric(&namespace, count, &[]).await;
    assert!(initial >= 1.0);

    let limits = json!({"pods": "4", "requests.cpu": "1"});
    namespace.make_quota("q", json!({"hard": limits})).await;
    namespace
        .make_quota(
            "near",
            json!({"hard": {"pods": "0"}, "scopes": ["CrossNamespaceAffinity"]}),
        )
        .await;
    for name in ["one", "two"] {
        namespace.must_create(pod_requesting(name, 100)).await;
    }
    for _ in 0..3 {
        namespace.refused(pod_requesting("three", 100)).await;
    }
    namespace.refused(pod("says-nothing")).await;
    namespace.set_hard("q", json!({"pods": "9"})).await;
    let mut near = pod_near("near", json!({"namespaces": ["b"]}));
    near["spec"]["containers"] = pod_requesting("near", 100)["spec"]["containers"].clone();
    namespace.refused(near).await;

    assert_eq!(evaluations(&namespace, "admitted").await, 2.0);
    assert_eq!(evaluations(&namespace, "denied").await, 5.0);
    assert_eq!(evaluations(&namespace, "failed").await, 0.0);
    assert_eq!(denials(&namespace, "", "exceeded").await, 3.0);
    assert_eq!(denials(&namespace, "", "incomplete").await, 1.0);
    assert_eq!(
        denials(&namespace, "CrossNamespacePodAffinity", "exceeded").await,
        1.0
    );
    let took = metric(
        &namespace,
        "rhumb_quota_evaluation_duration_seconds_sum",
        &[],
    )
    .await;
    assert!(took > 0.0);
    let evaluated = metric(&namespace, count, &[]).await - initial;
    assert!(evaluated >= 7.0, "{evaluated}");
}
