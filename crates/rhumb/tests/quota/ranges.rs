//! Limit ranges make pods countable that say nothing themselves.

use k8s_openapi::api::core::v1::LimitRange;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::make::object;
use crate::rush::{crowd, rush};
use crate::space::{Space, pod, pod_requesting, start};

async fn make_range(space: &Space, container: Value) {
    let ranges: Api<LimitRange> = space.api();
    let mut limit = container;
    limit["type"] = json!("Container");
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [limit]}});
    let made = ranges.create(&PostParams::default(), &object(range)).await;
    made.expect("a limit range");
}

#[tokio::test]
async fn defaults_of_a_limit_range_are_what_a_quota_counts() {
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    let hard = json!({"requests.cpu": "1", "limits.cpu": "4"});
    space.make_quota("q", json!({"hard": hard})).await;
    assert_eq!(
        space.refused(pod("says-nothing")).await,
        "pods \"says-nothing\" is forbidden: failed quota: q: must specify limits.cpu for: main; \
         requests.cpu for: main"
    );
    make_range(
        &space,
        json!({
            "default": {"cpu": "500m"},
            "defaultRequest": {"cpu": "150m"},
            "max": {"cpu": "600m"},
        }),
    )
    .await;
    let rushed = rush(std::slice::from_ref(&space), crowd(0)).await;
    assert_eq!(rushed.created.len(), 6);
    for (_, message) in &rushed.refused {
        assert!(
            message.ends_with(
                "requested: requests.cpu=150m, used: requests.cpu=900m, limited: requests.cpu=1"
            ),
            "{message}"
        );
    }
    let used = json!({"requests.cpu": "900m", "limits.cpu": "3"});
    assert_eq!(space.used("q").await, used);
    // What the range does not allow is refused before the quota is asked.
    let mut greedy = pod("greedy");
    greedy["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "700m"}});
    assert_eq!(
        space.refused(greedy).await,
        "pods \"greedy\" is forbidden: maximum cpu usage per Container is 600m, but limit is 700m"
    );
    // What says less than the default is counted as it says.
    space.must_create(pod_requesting("modest", 100)).await;
    let used = json!({"requests.cpu": "1", "limits.cpu": "3500m"});
    assert_eq!(space.used("q").await, used);
}
