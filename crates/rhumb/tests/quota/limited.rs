//! Limited resources: usable only in namespaces with a covering quota.

use serde_json::{Value, json};

use crate::concurrency::create_concurrently;
use crate::make::CROSS_NAMESPACE_AFFINITY_LIMITED;
use crate::quota_namespace::{CONTROLLERS, TestNamespace, pod, pod_near};
use crate::support::TestServer;

/// A pod with a cross-namespace term.
fn cross_namespace_pod(name: &str) -> Value {
    pod_near(name, json!({"namespaceSelector": {}}))
}

#[tokio::test]
async fn limited_resources_require_a_covering_quota() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("admission.yaml");
    std::fs::write(&file, CROSS_NAMESPACE_AFFINITY_LIMITED).expect("a file");
    let flag = format!("--admission-control-config-file={}", file.display());
    let server = TestServer::start_with(&[CONTROLLERS, &flag]);
    let client = server.client().await;

    let bare = TestNamespace::make(&client, "bare").await;
    let insufficient = |name: &str| {
        format!(
            "pods \"{name}\" is forbidden: insufficient quota to match these scopes: \
             [{{CrossNamespaceAffinity Exists []}}]"
        )
    };
    assert_eq!(
        bare.refused(cross_namespace_pod("x")).await,
        insufficient("x")
    );
    bare.must_create(pod("plain")).await;
    // A quota without the scope does not cover it.
    bare.make_quota("wide", json!({"hard": {"pods": "100"}}))
        .await;
    assert_eq!(
        bare.refused(cross_namespace_pod("x")).await,
        insufficient("x")
    );
    assert_eq!(bare.used("wide").await, json!({"pods": "1"}));

    for (namespace, scope) in [
        ("of-the-kep", "CrossNamespaceAffinity"),
        ("upstream", "CrossNamespacePodAffinity"),
    ] {
        let ns = TestNamespace::make(&client, namespace).await;
        assert_eq!(
            ns.refused(cross_namespace_pod("x")).await,
            insufficient("x")
        );
        ns.make_quota("q", json!({"hard": {"pods": "3"}, "scopes": [scope]}))
            .await;
        let pods_of_round = (0..30).map(|index| cross_namespace_pod(&format!("p-{index}")));
        let result = create_concurrently(std::slice::from_ref(&ns), pods_of_round.collect()).await;
        assert_eq!(result.created.len(), 3);
        assert_eq!(
            ns.refused(cross_namespace_pod("x")).await,
            "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"
        );
        ns.must_create(pod("plain")).await;
        // Deleting the covering quota withdraws the permission.
        let params = kube::api::DeleteParams::default();
        let deleted = ns.quotas().delete("q", &params).await;
        deleted.expect("a deletion");
        assert_eq!(
            ns.refused(cross_namespace_pod("x")).await,
            insufficient("x")
        );
    }
}
