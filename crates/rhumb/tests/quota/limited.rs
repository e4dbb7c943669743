//! What may be used only where a quota says how much.

use serde_json::{Value, json};

use crate::rush::rush;
use crate::space::{CONTROLLERS, Space, pod, pod_near};
use crate::support::Server;

/// As KEP-2249 prints it: without an operator.
const LIMITED: &str = r#"
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: "ResourceQuota"
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: pods
      matchScopes:
      - scopeName: CrossNamespaceAffinity
"#;

/// Looks at other namespaces.
fn nosy(name: &str) -> Value {
    pod_near(name, json!({"namespaceSelector": {}}))
}

#[tokio::test]
async fn the_configuration_of_the_kep_lets_in_only_what_a_quota_of_the_scope_covers() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("admission.yaml");
    std::fs::write(&file, LIMITED).expect("a file");
    let flag = format!("--admission-control-config-file={}", file.display());
    let server = Server::start_with(&[CONTROLLERS, &flag]);
    let client = server.client().await;

    let bare = Space::make(&client, "bare").await;
    let insufficient = |name: &str| {
        format!(
            "pods \"{name}\" is forbidden: insufficient quota to match these scopes: \
             [{{CrossNamespaceAffinity Exists []}}]"
        )
    };
    assert_eq!(bare.refused(nosy("x")).await, insufficient("x"));
    bare.must_create(pod("plain")).await;
    // A quota that does not look at the scope covers nothing of it.
    bare.make_quota("wide", json!({"hard": {"pods": "100"}}))
        .await;
    assert_eq!(bare.refused(nosy("x")).await, insufficient("x"));
    assert_eq!(bare.used("wide").await, json!({"pods": "1"}));

    for (namespace, scope) in [
        ("of-the-kep", "CrossNamespaceAffinity"),
        ("upstream", "CrossNamespacePodAffinity"),
    ] {
        let space = Space::make(&client, namespace).await;
        assert_eq!(space.refused(nosy("x")).await, insufficient("x"));
        space
            .make_quota("q", json!({"hard": {"pods": "3"}, "scopes": [scope]}))
            .await;
        let crowd = (0..30).map(|place| nosy(&format!("p-{place}")));
        let rushed = rush(std::slice::from_ref(&space), crowd.collect()).await;
        assert_eq!(rushed.created.len(), 3);
        assert_eq!(
            space.refused(nosy("x")).await,
            "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"
        );
        space.must_create(pod("plain")).await;
        // What covered it goes, and so does the permission.
        let params = kube::api::DeleteParams::default();
        let deleted = space.quotas().delete("q", &params).await;
        deleted.expect("a deletion");
        assert_eq!(space.refused(nosy("x")).await, insufficient("x"));
    }
}
