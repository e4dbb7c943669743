//! Limit ranges set the defaults that quotas count.

use k8s_openapi::api::core::v1::LimitRange;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::concurrency::{create_concurrently, pods_of_round};
use crate::make::object;
use crate::quota_namespace::{TestNamespace, pod, pod_requesting, start};

async fn make_range(namespace: &TestNamespace, container: Value) {
    let ranges: Api<LimitRange> = namespace.api();
    let mut limit = container;
    limit["type"] = json!("Container");
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [limit]}});
    let created_range = ranges.create(&PostParams::default(), &object(range)).await;
    created_range.expect("a limit range");
}

#[tokio::test]
async fn quota_counts_limit_range_defaults() {
    let server = start();
    let namespace = TestNamespace::make(&server.client().await, "a").await;
    let hard = json!({"requests.cpu": "1", "limits.cpu": "4"});
    namespace.make_quota("q", json!({"hard": hard})).await;
    assert_eq!(
        namespace.refused(pod("says-nothing")).await,
        "pods \"says-nothing\" is forbidden: failed quota: q: must specify limits.cpu for: main; \
         requests.cpu for: main"
    );
    make_range(
        &namespace,
        json!({
            "default": {"cpu": "500m"},
            "defaultRequest": {"cpu": "150m"},
            "max": {"cpu": "600m"},
        }),
    )
    .await;
    let result = create_concurrently(std::slice::from_ref(&namespace), pods_of_round(0)).await;
    assert_eq!(result.created.len(), 6);
    for (_, message) in &result.refused {
        assert!(
            message.ends_with(
                "requested: requests.cpu=150m, used: requests.cpu=900m, limited: requests.cpu=1"
            ),
            "{message}"
        );
    }
    let used = json!({"requests.cpu": "900m", "limits.cpu": "3"});
    assert_eq!(namespace.used("q").await, used);
    // Limit range violations are rejected before the quota is checked.
    let mut greedy = pod("greedy");
    greedy["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "700m"}});
    assert_eq!(
        namespace.refused(greedy).await,
        "pods \"greedy\" is forbidden: maximum cpu usage per Container is 600m, but limit is 700m"
    );
    // Explicit requests below the default are counted as given.
    namespace.must_create(pod_requesting("modest", 100)).await;
    let used = json!({"requests.cpu": "1", "limits.cpu": "3500m"});
    assert_eq!(namespace.used("q").await, used);
}
