//! Matching of requests to webhooks, and the resource names in reviews.

use http::Method;
use serde_json::{Value, json};

use crate::cluster::{Mutating, Validating, WebhookTestCluster, config_map};
use crate::support::CONFIG_MAPS;
use crate::webhook_builder::{WebhookBuilder, rule};

/// Registers all webhooks under their names and returns the names of those that are called for a request.
struct MatchingWebhooks {
    cluster: WebhookTestCluster,
}

impl MatchingWebhooks {
    async fn of<const N: usize>(hooks: [(&'static str, WebhookEdit); N]) -> MatchingWebhooks {
        let cluster = WebhookTestCluster::start().await;
        let hooks = hooks.map(|(name, change)| change(cluster.hook(name)));
        cluster.register(Validating, "all", hooks).await;
        MatchingWebhooks { cluster }
    }

    async fn called_webhooks(&self, method: Method, path: &str, body: Value) -> Vec<String> {
        self.cluster.webhook.clear_received();
        let response = self.cluster.send(method, path, &body).await;
        assert!(response.code.is_success(), "{path}: {}", response.text());
        let mut names = self.cluster.webhook.received_paths();
        names.sort_unstable();
        names
    }
}

type WebhookEdit = fn(WebhookBuilder) -> WebhookBuilder;

fn matching(
    operations: &[&str],
    group: &str,
    version: &str,
    resource: &str,
) -> impl Fn(WebhookBuilder) -> WebhookBuilder {
    move |hook: WebhookBuilder| {
        hook.with("rules", json!([rule(operations, group, version, resource)]))
    }
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment() -> Value {
    json!({
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_match_groups_versions_resources_and_operations() {
    let audience = MatchingWebhooks::of([
        ("all", |hook| matching(&["*"], "*", "*", "*/*")(hook)),
        ("all-main", |hook| matching(&["*"], "*", "*", "*")(hook)),
        ("apps", |hook| matching(&["CREATE"], "apps", "*", "*")(hook)),
        ("beta", |hook| {
            let hook = matching(&["CREATE"], "apps", "v1beta1", "deployments")(hook);
            hook.with("matchPolicy", json!("Exact"))
        }),
        ("core", |hook| matching(&["*"], "", "v1", "*")(hook)),
        ("deletes", |hook| matching(&["DELETE"], "*", "*", "*")(hook)),
        ("deployments", |hook| {
            matching(&["CREATE", "UPDATE"], "apps", "v1", "deployments")(hook)
        }),
        ("of-deployments", |hook| {
            matching(&["*"], "apps", "v1", "deployments/*")(hook)
        }),
        ("scales", |hook| matching(&["*"], "*", "*", "*/scale")(hook)),
        ("status", |hook| {
            matching(&["UPDATE"], "apps", "v1", "deployments/status")(hook)
        }),
    ])
    .await;
    assert_eq!(
        audience
            .called_webhooks(Method::POST, DEPLOYMENTS, deployment())
            .await,
        [
            "/all",
            "/all-main",
            "/apps",
            "/deployments",
            "/of-deployments"
        ]
    );
    let scale = json!({"metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": 2}});
    assert_eq!(
        audience
            .called_webhooks(Method::PUT, &format!("{DEPLOYMENTS}/d/scale"), scale)
            .await,
        ["/all", "/of-deployments", "/scales"]
    );
    let status = audience.cluster.get(&format!("{DEPLOYMENTS}/d")).await;
    assert_eq!(
        audience
            .called_webhooks(Method::PUT, &format!("{DEPLOYMENTS}/d/status"), status)
            .await,
        ["/all", "/of-deployments", "/status"]
    );
    assert_eq!(
        audience
            .called_webhooks(Method::POST, CONFIG_MAPS, config_map("c"))
            .await,
        ["/all", "/all-main", "/core"]
    );
    assert_eq!(
        audience
            .called_webhooks(Method::DELETE, &format!("{DEPLOYMENTS}/d"), Value::Null)
            .await,
        ["/all", "/all-main", "/deletes", "/of-deployments"]
    );
    assert!(
        audience
            .called_webhooks(Method::GET, CONFIG_MAPS, Value::Null)
            .await
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_match_the_scope() {
    fn scoped(hook: WebhookBuilder, scope: &str) -> WebhookBuilder {
        let mut rule = rule(&["*"], "*", "*", "*");
        rule["scope"] = json!(scope);
        hook.with("rules", json!([rule]))
    }
    let audience = MatchingWebhooks::of([
        ("any", |hook| scoped(hook, "*")),
        ("cluster", |hook| scoped(hook, "Cluster")),
        ("namespaced", |hook| scoped(hook, "Namespaced")),
    ])
    .await;
    assert_eq!(
        audience
            .called_webhooks(Method::POST, CONFIG_MAPS, config_map("c"))
            .await,
        ["/any", "/namespaced"]
    );
    let class = json!({"metadata": {"name": "x"}, "value": 1});
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    assert_eq!(
        audience.called_webhooks(Method::POST, classes, class).await,
        ["/any", "/cluster"]
    );
    // A namespace is cluster-scoped.
    let namespace = json!({"metadata": {"name": "n"}});
    let seen = audience
        .called_webhooks(Method::POST, "/api/v1/namespaces", namespace)
        .await;
    assert!(seen.contains(&"/cluster".to_owned()), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_selector_matches_labels_and_name() {
    fn selecting(hook: WebhookBuilder, selector: Value) -> WebhookBuilder {
        let all = matching(&["*"], "*", "*", "*")(hook);
        all.with("namespaceSelector", selector)
    }
    let audience = MatchingWebhooks::of([
        ("labelled", |hook| {
            selecting(hook, json!({"matchLabels": {"team": "a"}}))
        }),
        ("named", |hook| {
            selecting(hook, json!({"matchLabels": {"kubernetes.io/metadata.name": "one"}}))
        }),
        ("not-named", |hook| {
            let one = json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["one"]});
            selecting(hook, json!({"matchExpressions": [one]}))
        }),
    ])
    .await;
    let namespace =
        |name: &str, team: &str| json!({"metadata": {"name": name, "labels": {"team": team}}});
    // A namespace is selected by its own labels, including the name label before it is stored.
    let path = "/api/v1/namespaces";
    assert_eq!(
        audience
            .called_webhooks(Method::POST, path, namespace("one", "a"))
            .await,
        ["/labelled", "/named"]
    );
    assert_eq!(
        audience
            .called_webhooks(Method::POST, path, namespace("two", "b"))
            .await,
        ["/not-named"]
    );
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    assert_eq!(
        audience
            .called_webhooks(Method::POST, &maps("one"), config_map("c"))
            .await,
        ["/labelled", "/named"]
    );
    assert_eq!(
        audience
            .called_webhooks(Method::POST, &maps("two"), config_map("c"))
            .await,
        ["/not-named"]
    );
    // Namespace selectors do not apply to cluster-scoped objects.
    let class = json!({"metadata": {"name": "x"}, "value": 1});
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    assert_eq!(
        audience.called_webhooks(Method::POST, classes, class).await,
        ["/labelled", "/named", "/not-named"]
    );
    // Label changes apply as soon as they are stored.
    let label = json!({"metadata": {"name": "two", "labels": {"team": "a"}}});
    audience
        .called_webhooks(Method::PUT, "/api/v1/namespaces/two", label)
        .await;
    assert_eq!(
        audience
            .called_webhooks(Method::POST, &maps("two"), config_map("d"))
            .await,
        ["/labelled", "/not-named"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_selector_matches_old_or_new_labels() {
    fn selecting(hook: WebhookBuilder, selector: Value) -> WebhookBuilder {
        let all = matching(&["*"], "", "v1", "configmaps")(hook);
        all.with("objectSelector", selector)
    }
    let audience = MatchingWebhooks::of([
        ("red", |hook| {
            selecting(hook, json!({"matchLabels": {"color": "red"}}))
        }),
        ("blue", |hook| {
            selecting(hook, json!({"matchLabels": {"color": "blue"}}))
        }),
    ])
    .await;
    let colored = |color: &str| {
        let mut map = config_map("c");
        map["metadata"]["labels"] = json!({"color": color});
        map
    };
    let path = format!("{CONFIG_MAPS}/c");
    for (method, path, body, expect) in [
        (Method::POST, CONFIG_MAPS, colored("red"), vec!["/red"]),
        (Method::PUT, &path, colored("blue"), vec!["/blue", "/red"]),
        (Method::PUT, &path, colored("green"), vec!["/blue"]),
        (Method::PUT, &path, colored("green"), vec![]),
        (Method::PUT, &path, colored("red"), vec!["/red"]),
        (Method::DELETE, &path, Value::Null, vec!["/red"]),
    ] {
        assert_eq!(audience.called_webhooks(method, path, body).await, expect);
    }
}

fn scaler() -> Value {
    json!({
        "metadata": {"name": "s"},
        "spec": {
            "maxReplicas": 2,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "metrics": [{
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 55}},
            }],
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equivalent_version_is_converted_for_the_rule() {
    let cluster = WebhookTestCluster::start().await;
    for (webhook_kind, name) in [(Validating, "check"), (Mutating, "change")] {
        let hook = |policy: &str| {
            cluster
                .hook(&format!("{name}-{}", policy.to_lowercase()))
                .matching(&["CREATE"], "autoscaling", "v1", "horizontalpodautoscalers")
                .with("matchPolicy", json!(policy))
        };
        cluster
            .register(webhook_kind, name, [hook("Equivalent"), hook("Exact")])
            .await;
    }
    cluster.webhook.on("/change-equivalent", |_| {
        crate::webhook::patch(&json!([
            {"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 66},
        ]))
    });
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let response = cluster.must_create(path, scaler()).await;
    // A change in one version applies to all versions.
    assert_eq!(
        response["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"],
        66
    );
    assert_eq!(
        cluster.webhook.received_paths(),
        ["/change-equivalent", "/check-equivalent"]
    );
    for (path, percentage) in [("/change-equivalent", 55), ("/check-equivalent", 66)] {
        let request = &cluster.webhook.received(path)[0].request;
        let kind = |version: &str| json!({"group": "autoscaling", "version": version, "kind": "HorizontalPodAutoscaler"});
        let resource = |version: &str| json!({"group": "autoscaling", "version": version, "resource": "horizontalpodautoscalers"});
        assert_eq!(request["kind"], kind("v1"));
        assert_eq!(request["resource"], resource("v1"));
        assert_eq!(request["requestKind"], kind("v2"));
        assert_eq!(request["requestResource"], resource("v2"));
        let object = &request["object"];
        assert_eq!(object["apiVersion"], "autoscaling/v1");
        assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], percentage);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_both_groups_are_equivalent() {
    let cluster = WebhookTestCluster::start().await;
    let hook = cluster
        .hook("hook")
        .matching(&["CREATE"], "events.k8s.io", "v1", "events");
    let exact = cluster
        .hook("exact")
        .matching(&["CREATE"], "events.k8s.io", "v1", "events")
        .with("matchPolicy", json!("Exact"));
    // As upstream, conditions see the requested resource, and the kind that is sent.
    let condition = "request.resource.group == '' && request.kind.group == 'events.k8s.io'";
    let conditional = cluster
        .hook("conditional")
        .matching(&["CREATE"], "events.k8s.io", "v1", "events")
        .with(
            "matchConditions",
            json!([{"name": "c", "expression": condition}]),
        );
    let hooks = [hook, exact, conditional];
    cluster.register(Validating, "hook", hooks).await;
    let event = json!({
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Tested",
        "message": "it was",
        "type": "Normal",
    });
    cluster
        .must_create("/api/v1/namespaces/default/events", event)
        .await;
    let mut called = cluster.webhook.received_paths();
    called.sort_unstable();
    assert_eq!(called, ["/conditional", "/hook"]);
    let request = &cluster.webhook.received("/hook")[0].request;
    assert_eq!(request["kind"]["group"], "events.k8s.io");
    assert_eq!(request["requestKind"]["group"], "");
    assert_eq!(request["object"]["note"], "it was");
    assert_eq!(request["object"]["regarding"]["name"], "p");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subresource_posts_have_the_kind_of_the_body() {
    let cluster = WebhookTestCluster::start().await;
    cluster.wait_for_default_account("default").await;
    let pods = "/api/v1/namespaces/default/pods";
    for name in ["bound", "evicted"] {
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        cluster.must_create(pods, pod).await;
    }
    let hook = cluster.hook("hook").matching(&["*"], "*", "*", "*/*");
    cluster.register(Validating, "hook", [hook]).await;
    let seen = async |path: &str, body: Value| {
        cluster.webhook.clear_received();
        let posted = cluster.post(path, &body).await;
        assert!(posted.code.is_success(), "{path}: {}", posted.text());
        let received = cluster.webhook.received("/hook");
        let request = &received.first().expect(path).request;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = &request["kind"];
        format!(
            "{} {}/{} {} of {}/{} {}",
            text(&request["operation"]),
            text(&kind["group"]),
            text(&kind["version"]),
            text(&kind["kind"]),
            text(&request["resource"]["resource"]),
            text(&request["subResource"]),
            text(&request["name"]),
        )
    };
    let target = json!({"kind": "Node", "name": "n"});
    let binding = json!({"metadata": {"name": "bound"}, "target": target});
    let eviction = json!({"metadata": {"name": "evicted"}});
    let token = json!({"spec": {"audiences": []}});
    let access = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    for (path, body, expect) in [
        (
            format!("{pods}/bound/binding"),
            binding,
            "CREATE /v1 Binding of pods/binding bound",
        ),
        (
            format!("{pods}/evicted/eviction"),
            eviction,
            "CREATE policy/v1 Eviction of pods/eviction evicted",
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts/default/token".into(),
            token,
            "CREATE authentication.k8s.io/v1 TokenRequest of serviceaccounts/token default",
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".into(),
            access,
            "CREATE authorization.k8s.io/v1 SelfSubjectAccessReview of selfsubjectaccessreviews/ ",
        ),
    ] {
        assert_eq!(seen(&path, body).await, expect);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scale_updates_have_kind_scale() {
    let cluster = WebhookTestCluster::start().await;
    cluster.must_create(DEPLOYMENTS, deployment()).await;
    let hook = cluster
        .hook("hook")
        .matching(&["UPDATE"], "apps", "v1", "deployments/scale");
    cluster.register(Validating, "hook", [hook]).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let patched = cluster
        .merge(&path, &json!({"spec": {"replicas": 3}}))
        .await;
    assert!(patched.code.is_success(), "{}", patched.text());
    let request = &cluster.webhook.received("/hook")[0].request;
    let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    assert_eq!(request["kind"], kind);
    assert_eq!(request["resource"]["resource"], "deployments");
    assert_eq!(request["subResource"], "scale");
    assert_eq!(request["oldObject"]["spec"]["replicas"], 1);
    assert_eq!(request["object"]["spec"]["replicas"], 3);
    assert_eq!(request["object"]["kind"], "Scale");
}
