//! Warnings about workloads whose pods no quota admits.

use http::Method;
use serde_json::{Value, json};

use crate::make::CROSS_NAMESPACE_AFFINITY_LIMITED;
use crate::quota_namespace::{CONTROLLERS, TestNamespace, pod_near};
use crate::requests::{JSON, MERGE, send};
use crate::support::TestServer;

const DENIED: &str = "its pods will be rejected, because their affinity crosses namespaces: ";

/// A pod template with labels `app: x`, and a term that crosses namespaces or does not.
fn template(crosses: bool) -> Value {
    let term = if crosses {
        json!({"namespaceSelector": {}})
    } else {
        json!({})
    };
    let mut spec = pod_near("x", term)["spec"].take();
    spec["restartPolicy"] = json!("Never");
    json!({"metadata": {"labels": {"app": "x"}}, "spec": spec})
}

/// Path, template path and object of one workload of some kinds.
fn workloads(name: &str, crosses: bool) -> [(&'static str, &'static str, Value); 4] {
    let mut always = template(crosses);
    always["spec"]["restartPolicy"] = json!("Always");
    let metadata = json!({"name": name});
    let selector = json!({"matchLabels": {"app": "x"}});
    let job = json!({"template": template(crosses)});
    [
        (
            "apis/apps/v1/namespaces/NS/deployments",
            "spec.template",
            json!({"metadata": metadata, "spec": {"selector": selector, "template": always}}),
        ),
        (
            "apis/batch/v1/namespaces/NS/jobs",
            "spec.template",
            json!({"metadata": metadata, "spec": job}),
        ),
        (
            "apis/batch/v1/namespaces/NS/cronjobs",
            "spec.jobTemplate.spec.template",
            json!({"metadata": metadata, "spec": {"schedule": "@daily", "jobTemplate": {"spec": job}}}),
        ),
        (
            "api/v1/namespaces/NS/podtemplates",
            "template",
            json!({"metadata": metadata, "template": always}),
        ),
    ]
}

/// Creates the workloads and checks the warning of each.
async fn check_creates(ns: &TestNamespace, name: &str, crosses: bool, denial: Option<&str>) {
    for (path, template_path, object) in workloads(name, crosses) {
        let path = format!("/{}", path.replace("NS", &ns.namespace));
        let created = send(&ns.client, Method::POST, &path, JSON, object.to_string()).await;
        let expected = denial.map(|denial| {
            let text = format!("{template_path}.spec.affinity: {DENIED}{denial}");
            format!("299 - {text:?}")
        });
        assert_eq!(created.warnings, Vec::from_iter(expected), "{path} {name}");
        created.object();
    }
}

/// Starts a server on which pods whose affinity crosses namespaces need a quota.
fn start_limited(flags: &[&str]) -> TestServer {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("admission.yaml");
    std::fs::write(&file, CROSS_NAMESPACE_AFFINITY_LIMITED).expect("a file");
    let flag = format!("--admission-control-config-file={}", file.display());
    TestServer::start_with(&[&[CONTROLLERS, &flag], flags].concat())
}

#[tokio::test]
async fn templates_get_no_warning_if_quotas_are_disabled() {
    let server = start_limited(&["--disable-admission-plugins=ResourceQuota"]);
    let client = server.client().await;
    let ns = TestNamespace::make(&client, "shop").await;
    check_creates(&ns, "unlimited", true, None).await;
    ns.must_create(pod_near("any", json!({"namespaceSelector": {}})))
        .await;
}

#[tokio::test]
async fn workloads_whose_pods_the_scope_quota_rejects_get_a_warning() {
    let server = start_limited(&[]);
    let client = server.client().await;

    let ns = TestNamespace::make(&client, "shop").await;
    let uncovered =
        "insufficient quota to match these scopes: [{CrossNamespaceAffinity Exists []}]";
    check_creates(&ns, "uncovered", true, Some(uncovered)).await;
    check_creates(&ns, "plain", false, None).await;

    let scoped = json!({"hard": {"pods": "0"}, "scopes": ["CrossNamespaceAffinity"]});
    ns.make_quota("none", scoped).await;
    let exceeded = "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0";
    check_creates(&ns, "forbidden", true, Some(exceeded)).await;

    // A quota that is only full now may admit the pods later.
    ns.set_hard("none", json!({"pods": "1"})).await;
    ns.must_create(pod_near("only", json!({"namespaceSelector": {}})))
        .await;
    ns.refused(pod_near("second", json!({"namespaceSelector": {}})))
        .await;
    check_creates(&ns, "later", true, None).await;

    // Updates warn if they change the template.
    ns.set_hard("none", json!({"pods": "0"})).await;
    let path = "/apis/apps/v1/namespaces/shop/deployments/later";
    let labelled = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    let patched = send(&client, Method::PATCH, path, MERGE, labelled).await;
    assert_eq!(patched.warnings, Vec::<String>::new());
    let changed = json!({"spec": {"template": {"metadata": {"labels": {"b": "c"}}}}}).to_string();
    let patched = send(&client, Method::PATCH, path, MERGE, changed).await;
    assert_eq!(patched.warnings.len(), 1, "{:?}", patched.warnings);
    assert!(patched.warnings[0].contains("limited: pods=0"));

    // Another quota denies the template first, for a reason that a LimitRange may remove.
    ns.make_quota("compute", json!({"hard": {"requests.cpu": "10"}}))
        .await;
    check_creates(&ns, "incomplete", true, Some(exceeded)).await;
}
