//! The gate PodAffinityNamespaceSelector is disabled and enabled again: existing fields are kept, and new ones are
//! dropped meanwhile.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::make::{code, object};
use crate::quota_namespace::{CONTROLLERS, TestNamespace, pod_near, start};

const OFF: &str = "--feature-gates=PodAffinityNamespaceSelector=false";

/// Whether the pods' terms select all namespaces.
fn looks_around(spec: &PodSpec) -> bool {
    let affinity = spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let terms = near.and_then(|near| {
        near.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let [term] = &**terms.expect("terms") else {
        panic!("one term");
    };
    term.namespace_selector.is_some()
}

fn of_pod(pod: &Pod) -> bool {
    looks_around(pod.spec.as_ref().expect("a spec"))
}

fn of_deployment(deployment: &Deployment) -> bool {
    let spec = deployment.spec.as_ref().expect("a spec");
    looks_around(spec.template.spec.as_ref().expect("a spec"))
}

fn around(name: &str) -> Value {
    pod_near(name, json!({"namespaceSelector": {}}))
}

fn deployment(name: &str) -> Deployment {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": around(name)["spec"]});
    object(json!({
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }))
}

fn limiting(scope: &str) -> Value {
    json!({"hard": {"pods": "2"}, "scopes": [scope]})
}

const SCOPES: [(&str, &str); 2] = [
    ("of-the-kep", "CrossNamespaceAffinity"),
    ("upstream", "CrossNamespacePodAffinity"),
];

#[tokio::test]
async fn quotas_keep_their_scope_while_the_gate_is_off_and_no_quota_gains_it() {
    let mut server = start();
    let namespace = TestNamespace::make(&server.client().await, "a").await;
    for (name, scope) in SCOPES {
        namespace.make_quota(name, limiting(scope)).await;
    }
    let params = PostParams::default();
    let old = namespace.must_create(around("old")).await;
    assert!(of_pod(&old));
    let deployments: Api<Deployment> = namespace.api();
    let created = deployments.create(&params, &deployment("old")).await;
    assert!(of_deployment(&created.expect("a deployment")));

    server.restart_with(&[CONTROLLERS, OFF]);
    let namespace = TestNamespace::of(&server.client().await, "a");
    check_while_off(&namespace).await;

    server.restart_with(&[CONTROLLERS]);
    let namespace = TestNamespace::of(&server.client().await, "a");
    assert!(of_pod(&namespace.pods().get("old").await.expect("the pod")));
    let deployments: Api<Deployment> = namespace.api();
    let kept = deployments.get("old").await.expect("the deployment");
    assert!(of_deployment(&kept));
    let dropped = deployments.get("new").await.expect("the deployment");
    assert!(!of_deployment(&dropped), "it comes back by itself");
    for (name, _) in SCOPES {
        assert_eq!(namespace.used(name).await, json!({"pods": "1"}), "{name}");
    }
    assert!(of_pod(&namespace.must_create(around("again")).await));
    let full = namespace.refused(around("more")).await;
    assert!(full.contains("used: pods=2, limited: pods=2"), "{full}");
    namespace
        .make_quota("again", limiting("CrossNamespaceAffinity"))
        .await;
    assert_eq!(namespace.used("again").await, json!({"pods": "2"}));
}

async fn check_while_off(namespace: &TestNamespace) {
    let (post, patch) = (PostParams::default(), PatchParams::default());
    let label = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    let changed = namespace.pods().patch("old", &patch, &label).await;
    assert!(of_pod(&changed.expect("a patch")), "an update drops it");
    let deployments: Api<Deployment> = namespace.api();
    let replicas = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let changed = deployments.patch("old", &patch, &replicas).await;
    assert!(
        of_deployment(&changed.expect("a patch")),
        "an update drops it"
    );

    // New pods lose the field, so the scope does not match them.
    for name in ["new", "newer", "newest"] {
        assert!(
            !of_pod(&namespace.must_create(around(name)).await),
            "{name}"
        );
    }
    let created = deployments.create(&post, &deployment("new")).await;
    assert!(!of_deployment(&created.expect("a deployment")));

    for (name, scope) in SCOPES {
        assert_eq!(namespace.used(name).await, json!({"pods": "1"}), "{name}");
        // Quotas with the scope can be updated and keep it; others cannot add it.
        let changed = namespace.set_hard(name, json!({"pods": "3"})).await;
        let scopes = changed.spec.expect("a spec").scopes;
        assert_eq!(scopes.as_deref(), Some(&[scope.to_owned()][..]));
        namespace.set_hard(name, json!({"pods": "2"})).await;
        let quota = object(json!({"metadata": {"name": "new"}, "spec": limiting(scope)}));
        let refused = namespace.quotas().create(&post, &quota).await;
        assert_eq!(code(refused), (422, "Invalid".to_owned()), "{scope}");
    }
}
