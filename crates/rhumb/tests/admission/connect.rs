//! CONNECT requests: `exec`, `attach`, `portforward` and `proxy`.

use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::{Validating, WebhookTestCluster};

/// Otherwise policies on exec and attach could not see what is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connect_reviews_contain_the_options() {
    let cluster = WebhookTestCluster::start().await;
    let hook = cluster.hook("hook").matching(&["CONNECT"], "", "v1", "*/*");
    // Options have no labels, so no selector matches them.
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]});
    let selecting = cluster
        .hook("selecting")
        .matching(&["CONNECT"], "", "v1", "*/*")
        .with("objectSelector", selector);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let pods = "/api/v1/namespaces/default/pods";
    cluster.must_create(pods, pod).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    cluster
        .must_create("/api/v1/namespaces/default/services", service)
        .await;
    cluster
        .must_create("/api/v1/nodes", json!({"metadata": {"name": "n"}}))
        .await;
    cluster
        .register(Validating, "hook", [hook, selecting])
        .await;
    let long = "exec?command=sh&command=-c&container=c&stdin=true&stdout=1&tty=false";
    let options = |kind: &str| json!({"kind": kind, "apiVersion": "v1"});
    let with = |kind: &str, more: Value| {
        let mut value = options(kind);
        for (name, field) in more.as_object().expect("an object") {
            value[name] = field.clone();
        }
        value
    };
    for (path, kind, object) in [
        (
            &*format!("{pods}/p/{long}"),
            "PodExecOptions",
            json!({"command": ["sh", "-c"], "container": "c", "stdin": true, "stdout": true}),
        ),
        (
            &format!("{pods}/p/exec"),
            "PodExecOptions",
            json!({"command": null}),
        ),
        (
            &format!("{pods}/p/attach?stderr=true"),
            "PodAttachOptions",
            json!({"stderr": true}),
        ),
        (
            &format!("{pods}/p/portforward?ports=80&ports=443"),
            "PodPortForwardOptions",
            json!({"ports": [80, 443]}),
        ),
        (
            &format!("{pods}/p/proxy/a/b/"),
            "PodProxyOptions",
            json!({"path": "/a/b/"}),
        ),
        (
            "/api/v1/namespaces/default/services/s:80/proxy/a",
            "ServiceProxyOptions",
            json!({"path": "/a"}),
        ),
        (
            "/api/v1/namespaces/default/services/s/proxy",
            "ServiceProxyOptions",
            json!({}),
        ),
        (
            "/api/v1/nodes/n/proxy/metrics",
            "NodeProxyOptions",
            json!({"path": "/metrics"}),
        ),
        (
            "/api/v1/nodes/n:10250/proxy/",
            "NodeProxyOptions",
            json!({"path": "/"}),
        ),
    ] {
        cluster.webhook.clear_received();
        cluster.post(path, &Value::Null).await;
        let received = cluster.webhook.received("/hook");
        assert_eq!(received.len(), 1, "{path}");
        assert_eq!(cluster.webhook.received("/selecting").len(), 0, "{path}");
        let review = &received[0].request;
        assert_eq!(review["operation"], "CONNECT");
        assert_eq!(review["kind"]["kind"], kind);
        assert_eq!(review["object"], with(kind, object), "{path}");
        assert_eq!(review["oldObject"], Value::Null);
    }
    let refused = cluster
        .post(&format!("{pods}/p/portforward?ports=x"), &Value::Null)
        .await;
    assert_eq!(refused.code, StatusCode::BAD_REQUEST, "{}", refused.text());

    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = json!({
        "metadata": {"name": "no-terminals"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"],
                "resources": ["pods/exec", "pods/attach"],
            }]},
            "validations": [{"expression": "!has(object.tty) || !object.tty", "message": "no terminals"}],
        },
    });
    cluster.must_create(policies, policy).await;
    let binding = json!({
        "metadata": {"name": "no-terminals"},
        "spec": {"policyName": "no-terminals", "validationActions": ["Deny"]},
    });
    cluster
        .must_create(&policies.replace("policies", "policybindings"), binding)
        .await;
    let exec = async |query: &str| {
        let path = format!("{pods}/p/exec?command=sh&{query}");
        cluster.post(&path, &Value::Null).await
    };
    let refused = exec("tty=true").await;
    assert_eq!(
        refused.code,
        StatusCode::UNPROCESSABLE_ENTITY,
        "{}",
        refused.text()
    );
    assert!(
        refused.text().contains("no terminals"),
        "{}",
        refused.text()
    );
    let admitted = exec("stdin=true").await;
    assert!(
        !admitted.text().contains("no terminals"),
        "{}",
        admitted.text()
    );
}
