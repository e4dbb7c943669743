//! The gate PodAffinityNamespaceSelector goes off and on again: what was written stays, and nothing new comes in
//! meanwhile.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::make::{code, object};
use crate::space::{CONTROLLERS, Space, pod_near, start};

const OFF: &str = "--feature-gates=PodAffinityNamespaceSelector=false";

/// Whether the pods look at all namespaces.
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
async fn what_was_written_while_the_gate_was_on_stays_and_nothing_joins_it_while_it_is_off() {
    let mut server = start();
    let space = Space::make(&server.client().await, "a").await;
    for (name, scope) in SCOPES {
        space.make_quota(name, limiting(scope)).await;
    }
    let params = PostParams::default();
    let old = space.must_create(around("old")).await;
    assert!(of_pod(&old));
    let deployments: Api<Deployment> = space.api();
    let made = deployments.create(&params, &deployment("old")).await;
    assert!(of_deployment(&made.expect("a deployment")));

    server.restart_with(&[CONTROLLERS, OFF]);
    let space = Space::of(&server.client().await, "a");
    check_while_off(&space).await;

    server.restart_with(&[CONTROLLERS]);
    let space = Space::of(&server.client().await, "a");
    assert!(of_pod(&space.pods().get("old").await.expect("the pod")));
    let deployments: Api<Deployment> = space.api();
    let kept = deployments.get("old").await.expect("the deployment");
    assert!(of_deployment(&kept));
    let dropped = deployments.get("new").await.expect("the deployment");
    assert!(!of_deployment(&dropped), "it comes back by itself");
    for (name, _) in SCOPES {
        assert_eq!(space.used(name).await, json!({"pods": "1"}), "{name}");
    }
    assert!(of_pod(&space.must_create(around("again")).await));
    let full = space.refused(around("more")).await;
    assert!(full.contains("used: pods=2, limited: pods=2"), "{full}");
    space
        .make_quota("again", limiting("CrossNamespaceAffinity"))
        .await;
    assert_eq!(space.used("again").await, json!({"pods": "2"}));
}

async fn check_while_off(space: &Space) {
    let (post, patch) = (PostParams::default(), PatchParams::default());
    let label = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    let changed = space.pods().patch("old", &patch, &label).await;
    assert!(of_pod(&changed.expect("a patch")), "an update drops it");
    let deployments: Api<Deployment> = space.api();
    let replicas = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let changed = deployments.patch("old", &patch, &replicas).await;
    assert!(
        of_deployment(&changed.expect("a patch")),
        "an update drops it"
    );

    // New pods lose the field, and so the scope is not theirs.
    for name in ["new", "newer", "newest"] {
        assert!(!of_pod(&space.must_create(around(name)).await), "{name}");
    }
    let made = deployments.create(&post, &deployment("new")).await;
    assert!(!of_deployment(&made.expect("a deployment")));

    for (name, scope) in SCOPES {
        assert_eq!(space.used(name).await, json!({"pods": "1"}), "{name}");
        // Quotas that have the scope can be changed and keep it; others cannot get it.
        let changed = space.set_hard(name, json!({"pods": "3"})).await;
        let scopes = changed.spec.expect("a spec").scopes;
        assert_eq!(scopes.as_deref(), Some(&[scope.to_owned()][..]));
        space.set_hard(name, json!({"pods": "2"})).await;
        let quota = object(json!({"metadata": {"name": "new"}, "spec": limiting(scope)}));
        let refused = space.quotas().create(&post, &quota).await;
        assert_eq!(code(refused), (422, "Invalid".to_owned()), "{scope}");
    }
}
