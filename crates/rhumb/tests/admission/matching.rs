//! Which webhooks see which requests, and under which names.

use http::Method;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Mutating, Validating, config_map};
use crate::hook::{Hook, rule};
use crate::support::CONFIG_MAPS;

/// Registers all webhooks, each under its own name, and gives the names of those that see a request.
struct Audience {
    cluster: Cluster,
}

impl Audience {
    async fn of<const N: usize>(hooks: [(&'static str, Change); N]) -> Audience {
        let cluster = Cluster::start().await;
        let hooks = hooks.map(|(name, change)| change(cluster.hook(name)));
        cluster.register(Validating, "all", hooks).await;
        Audience { cluster }
    }

    async fn see(&self, method: Method, path: &str, body: Value) -> Vec<String> {
        self.cluster.webhook.forget();
        let answer = self.cluster.ask(method, path, &body).await;
        assert!(answer.code.is_success(), "{path}: {}", answer.text());
        let mut names = self.cluster.webhook.order();
        names.sort_unstable();
        names
    }
}

type Change = fn(Hook) -> Hook;

fn sees(operations: &[&str], group: &str, version: &str, resource: &str) -> impl Fn(Hook) -> Hook {
    move |hook: Hook| hook.with("rules", json!([rule(operations, group, version, resource)]))
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
async fn rules_have_groups_versions_resources_and_operations() {
    let audience = Audience::of([
        ("all", |hook| sees(&["*"], "*", "*", "*/*")(hook)),
        ("all-main", |hook| sees(&["*"], "*", "*", "*")(hook)),
        ("apps", |hook| sees(&["CREATE"], "apps", "*", "*")(hook)),
        ("beta", |hook| {
            let hook = sees(&["CREATE"], "apps", "v1beta1", "deployments")(hook);
            hook.with("matchPolicy", json!("Exact"))
        }),
        ("core", |hook| sees(&["*"], "", "v1", "*")(hook)),
        ("deletes", |hook| sees(&["DELETE"], "*", "*", "*")(hook)),
        ("deployments", |hook| {
            sees(&["CREATE", "UPDATE"], "apps", "v1", "deployments")(hook)
        }),
        ("of-deployments", |hook| {
            sees(&["*"], "apps", "v1", "deployments/*")(hook)
        }),
        ("scales", |hook| sees(&["*"], "*", "*", "*/scale")(hook)),
        ("status", |hook| {
            sees(&["UPDATE"], "apps", "v1", "deployments/status")(hook)
        }),
    ])
    .await;
    assert_eq!(
        audience.see(Method::POST, DEPLOYMENTS, deployment()).await,
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
            .see(Method::PUT, &format!("{DEPLOYMENTS}/d/scale"), scale)
            .await,
        ["/all", "/of-deployments", "/scales"]
    );
    let status = audience.cluster.get(&format!("{DEPLOYMENTS}/d")).await;
    assert_eq!(
        audience
            .see(Method::PUT, &format!("{DEPLOYMENTS}/d/status"), status)
            .await,
        ["/all", "/of-deployments", "/status"]
    );
    assert_eq!(
        audience
            .see(Method::POST, CONFIG_MAPS, config_map("c"))
            .await,
        ["/all", "/all-main", "/core"]
    );
    assert_eq!(
        audience
            .see(Method::DELETE, &format!("{DEPLOYMENTS}/d"), Value::Null)
            .await,
        ["/all", "/all-main", "/deletes", "/of-deployments"]
    );
    assert!(
        audience
            .see(Method::GET, CONFIG_MAPS, Value::Null)
            .await
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_have_a_scope() {
    fn scoped(hook: Hook, scope: &str) -> Hook {
        let mut rule = rule(&["*"], "*", "*", "*");
        rule["scope"] = json!(scope);
        hook.with("rules", json!([rule]))
    }
    let audience = Audience::of([
        ("any", |hook| scoped(hook, "*")),
        ("cluster", |hook| scoped(hook, "Cluster")),
        ("namespaced", |hook| scoped(hook, "Namespaced")),
    ])
    .await;
    assert_eq!(
        audience
            .see(Method::POST, CONFIG_MAPS, config_map("c"))
            .await,
        ["/any", "/namespaced"]
    );
    let class = json!({"metadata": {"name": "x"}, "value": 1});
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    assert_eq!(
        audience.see(Method::POST, classes, class).await,
        ["/any", "/cluster"]
    );
    // A namespace is not in itself.
    let namespace = json!({"metadata": {"name": "n"}});
    let seen = audience
        .see(Method::POST, "/api/v1/namespaces", namespace)
        .await;
    assert!(seen.contains(&"/cluster".to_owned()), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_are_selected_by_labels_and_by_name() {
    fn selecting(hook: Hook, selector: Value) -> Hook {
        let all = sees(&["*"], "*", "*", "*")(hook);
        all.with("namespaceSelector", selector)
    }
    let audience = Audience::of([
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
    // A namespace is selected by its own labels, of which one is its name before it is stored.
    let path = "/api/v1/namespaces";
    assert_eq!(
        audience
            .see(Method::POST, path, namespace("one", "a"))
            .await,
        ["/labelled", "/named"]
    );
    assert_eq!(
        audience
            .see(Method::POST, path, namespace("two", "b"))
            .await,
        ["/not-named"]
    );
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    assert_eq!(
        audience
            .see(Method::POST, &maps("one"), config_map("c"))
            .await,
        ["/labelled", "/named"]
    );
    assert_eq!(
        audience
            .see(Method::POST, &maps("two"), config_map("c"))
            .await,
        ["/not-named"]
    );
    // What is in no namespace is never left out by a selector of namespaces.
    let class = json!({"metadata": {"name": "x"}, "value": 1});
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    assert_eq!(
        audience.see(Method::POST, classes, class).await,
        ["/labelled", "/named", "/not-named"]
    );
    // Labels count from the moment they are stored.
    let label = json!({"metadata": {"name": "two", "labels": {"team": "a"}}});
    audience
        .see(Method::PUT, "/api/v1/namespaces/two", label)
        .await;
    assert_eq!(
        audience
            .see(Method::POST, &maps("two"), config_map("d"))
            .await,
        ["/labelled", "/not-named"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_selected_by_what_they_were_or_what_they_become() {
    fn selecting(hook: Hook, selector: Value) -> Hook {
        let all = sees(&["*"], "", "v1", "configmaps")(hook);
        all.with("objectSelector", selector)
    }
    let audience = Audience::of([
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
        assert_eq!(audience.see(method, path, body).await, expect);
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
async fn another_version_of_a_kind_is_seen_as_the_rule_names_it() {
    let cluster = Cluster::start().await;
    for (flavor, name) in [(Validating, "check"), (Mutating, "change")] {
        let hook = |policy: &str| {
            cluster
                .hook(&format!("{name}-{}", policy.to_lowercase()))
                .sees(&["CREATE"], "autoscaling", "v1", "horizontalpodautoscalers")
                .with("matchPolicy", json!(policy))
        };
        cluster
            .register(flavor, name, [hook("Equivalent"), hook("Exact")])
            .await;
    }
    cluster.webhook.on("/change-equivalent", |_| {
        crate::webhook::patch(&json!([
            {"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 66},
        ]))
    });
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let made = cluster.must_make(path, scaler()).await;
    // What was changed in one version is changed in all.
    assert_eq!(
        made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"],
        66
    );
    assert_eq!(
        cluster.webhook.order(),
        ["/change-equivalent", "/check-equivalent"]
    );
    for (path, percentage) in [("/change-equivalent", 55), ("/check-equivalent", 66)] {
        let request = &cluster.webhook.asked(path)[0].request;
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
async fn events_are_the_same_in_both_of_their_groups() {
    let cluster = Cluster::start().await;
    let hook = cluster
        .hook("hook")
        .sees(&["CREATE"], "events.k8s.io", "v1", "events");
    let exact = cluster
        .hook("exact")
        .sees(&["CREATE"], "events.k8s.io", "v1", "events")
        .with("matchPolicy", json!("Exact"));
    cluster.register(Validating, "hook", [hook, exact]).await;
    let event = json!({
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Tested",
        "message": "it was",
        "type": "Normal",
    });
    cluster
        .must_make("/api/v1/namespaces/default/events", event)
        .await;
    assert_eq!(cluster.webhook.order(), ["/hook"]);
    let request = &cluster.webhook.asked("/hook")[0].request;
    assert_eq!(request["kind"]["group"], "events.k8s.io");
    assert_eq!(request["requestKind"]["group"], "");
    assert_eq!(request["object"]["note"], "it was");
    assert_eq!(request["object"]["regarding"]["name"], "p");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_posted_to_a_subresource_is_seen_as_what_it_is() {
    let cluster = Cluster::start().await;
    cluster.until_accounts("default").await;
    let pods = "/api/v1/namespaces/default/pods";
    for name in ["bound", "evicted"] {
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        cluster.must_make(pods, pod).await;
    }
    let hook = cluster.hook("hook").sees(&["*"], "*", "*", "*/*");
    cluster.register(Validating, "hook", [hook]).await;
    let seen = async |path: &str, body: Value| {
        cluster.webhook.forget();
        let posted = cluster.post(path, &body).await;
        assert!(posted.code.is_success(), "{path}: {}", posted.text());
        let asked = cluster.webhook.asked("/hook");
        let request = &asked.first().expect(path).request;
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
async fn a_scale_is_seen_as_a_scale() {
    let cluster = Cluster::start().await;
    cluster.must_make(DEPLOYMENTS, deployment()).await;
    let hook = cluster
        .hook("hook")
        .sees(&["UPDATE"], "apps", "v1", "deployments/scale");
    cluster.register(Validating, "hook", [hook]).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let patched = cluster
        .merge(&path, &json!({"spec": {"replicas": 3}}))
        .await;
    assert!(patched.code.is_success(), "{}", patched.text());
    let request = &cluster.webhook.asked("/hook")[0].request;
    let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    assert_eq!(request["kind"], kind);
    assert_eq!(request["resource"]["resource"], "deployments");
    assert_eq!(request["subResource"], "scale");
    assert_eq!(request["oldObject"]["spec"]["replicas"], 1);
    assert_eq!(request["object"]["spec"]["replicas"], 3);
    assert_eq!(request["object"]["kind"], "Scale");
}
