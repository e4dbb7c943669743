//! The requests for which webhooks are compared: dry runs of several kinds, in two namespaces and cluster-scoped.

use bytes::Bytes;
use rhumb_admission::{Operation, ResourceAndKind};
use rhumb_meta::{GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};

use crate::client::RawRequest;

/// Group, version and resource.
pub(super) type Gvr = (&'static str, &'static str, &'static str);

/// The resources that serve the same objects.
pub(super) const EQUIVALENT_RESOURCES: &[&[Gvr]] = &[
    &[("", "v1", "events"), ("events.k8s.io", "v1", "events")],
    &[
        ("autoscaling", "v1", "horizontalpodautoscalers"),
        ("autoscaling", "v2", "horizontalpodautoscalers"),
    ],
];

/// Namespaces with their label `team`.
pub(super) const NAMESPACES: &[(&str, &str)] = &[("n1", "a"), ("n2", "b")];

pub(super) struct AdmissionTestRequest {
    pub(super) name: &'static str,
    method: &'static str,
    path: String,
    body: Value,
    pub(super) operation: Operation,
    pub(super) gvr: Gvr,
    pub(super) subresource: &'static str,
    /// Empty if the name is unknown or generated.
    pub(super) object_name: &'static str,
    /// For a namespace, its own name.
    pub(super) namespace: &'static str,
    /// The request may fail after admission.
    pub(super) may_fail: bool,
}

pub(super) fn resource(gvr: &Gvr) -> GroupVersionResource {
    GroupVersionResource::new(gvr.0, gvr.1, gvr.2)
}

impl AdmissionTestRequest {
    pub(super) fn raw(&self) -> RawRequest {
        let content_type = match self.method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let query = match self.operation {
            Operation::Connect => "",
            _ => "?dryRun=All",
        };
        RawRequest {
            method: self.method.to_owned(),
            path: format!("{}{query}", self.path),
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            body: match &self.body {
                Value::Null => Bytes::new(),
                body => Bytes::from(body.to_string()),
            },
            ..RawRequest::default()
        }
    }

    /// The requested resource, then the equivalent ones.
    pub(super) fn names(&self) -> Vec<ResourceAndKind> {
        let sets = EQUIVALENT_RESOURCES.iter();
        let others = sets.filter(|set| set.contains(&self.gvr));
        let others = others
            .flat_map(|set| set.iter())
            .filter(|gvr| **gvr != self.gvr);
        std::iter::once(&self.gvr)
            .chain(others)
            .map(|gvr| ResourceAndKind {
                resource: resource(gvr),
                kind: GroupVersionKind::new(gvr.0, gvr.1, "Kind"),
            })
            .collect()
    }
}

/// `/api/v1/namespaces/n1/pods`; a namespace may be empty.
fn collection(gvr: Gvr, namespace: &str) -> String {
    let (group, version, plural) = gvr;
    let root = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    match namespace {
        "" => format!("{root}/{plural}"),
        namespace => format!("{root}/namespaces/{namespace}/{plural}"),
    }
}

fn api_version(gvr: Gvr) -> String {
    match gvr.0 {
        "" => gvr.1.to_owned(),
        group => format!("{group}/{}", gvr.1),
    }
}

fn object(gvr: Gvr, kind: &str, metadata: Value, more: Value) -> Value {
    let mut object = json!({"apiVersion": api_version(gvr), "kind": kind, "metadata": metadata});
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

const CONFIG_MAPS: Gvr = ("", "v1", "configmaps");
const PODS: Gvr = ("", "v1", "pods");
const NAMESPACE_RESOURCE: Gvr = ("", "v1", "namespaces");
const NODES: Gvr = ("", "v1", "nodes");
const DEPLOYMENTS: Gvr = ("apps", "v1", "deployments");
const LEASES: Gvr = ("coordination.k8s.io", "v1", "leases");
const REVIEWS: Gvr = ("authorization.k8s.io", "v1", "subjectaccessreviews");

fn pod(name: &str) -> Value {
    let spec = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    object(PODS, "Pod", json!({ "name": name }), spec)
}

fn deployment(name: &str) -> Value {
    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let spec = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    object(DEPLOYMENTS, "Deployment", json!({ "name": name }), spec)
}

fn autoscaler(gvr: Gvr) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"});
    let spec = json!({"spec": {"maxReplicas": 2, "scaleTargetRef": target}});
    object(gvr, "HorizontalPodAutoscaler", json!({"name": "x"}), spec)
}

fn event(gvr: Gvr, namespace: &str) -> Value {
    let more = match gvr.0 {
        "" => json!({"involvedObject": {"kind": "Pod", "namespace": namespace, "name": "x"}}),
        _ => json!({
            "regarding": {"kind": "Pod", "namespace": namespace, "name": "x"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "example.com/interop",
            "reportingInstance": "interop",
            "action": "Compare",
            "reason": "Compared",
            "type": "Normal",
        }),
    };
    object(gvr, "Event", json!({"name": "x"}), more)
}

/// The objects that exist before the comparison: path and body.
pub(super) fn prerequisites() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (namespace, team) in NAMESPACES {
        let metadata = json!({"name": namespace, "labels": {"team": team}});
        let body = object(NAMESPACE_RESOURCE, "Namespace", metadata, json!({}));
        all.push((collection(NAMESPACE_RESOURCE, ""), body));
        let accounts = ("", "v1", "serviceaccounts");
        let account = object(
            accounts,
            "ServiceAccount",
            json!({"name": "default"}),
            json!({}),
        );
        all.push((collection(accounts, namespace), account));
        for name in ["x", "y"] {
            let map = object(CONFIG_MAPS, "ConfigMap", json!({ "name": name }), json!({}));
            all.push((collection(CONFIG_MAPS, namespace), map));
        }
        all.push((collection(PODS, namespace), pod("x")));
        all.push((collection(DEPLOYMENTS, namespace), deployment("x")));
    }
    let node = object(NODES, "Node", json!({"name": "x"}), json!({}));
    all.push((collection(NODES, ""), node));
    all
}

/// The request for which the marker is called.
pub(super) fn marker_request() -> AdmissionTestRequest {
    create(
        "marker",
        CONFIG_MAPS,
        "n1",
        "",
        config_map(json!({"generateName": "marker-"})),
    )
}

fn config_map(metadata: Value) -> Value {
    object(CONFIG_MAPS, "ConfigMap", metadata, json!({}))
}

fn create(
    name: &'static str,
    gvr: Gvr,
    namespace: &'static str,
    object_name: &'static str,
    body: Value,
) -> AdmissionTestRequest {
    AdmissionTestRequest {
        name,
        method: "POST",
        path: collection(gvr, namespace),
        body,
        operation: Operation::Create,
        gvr,
        subresource: "",
        object_name,
        namespace,
        may_fail: false,
    }
}

/// A request for an object or one of its subresources.
fn existing(
    name: &'static str,
    (method, operation): (&'static str, Operation),
    gvr: Gvr,
    namespace: &'static str,
    (object_name, subresource): (&'static str, &'static str),
    body: Value,
) -> AdmissionTestRequest {
    // A namespace is its own namespace, but not in its path.
    let path_namespace = if gvr == NAMESPACE_RESOURCE {
        ""
    } else {
        namespace
    };
    let mut path = collection(gvr, path_namespace);
    for part in [object_name, subresource] {
        if !part.is_empty() {
            path = format!("{path}/{part}");
        }
    }
    AdmissionTestRequest {
        name,
        method,
        path,
        body,
        operation,
        gvr,
        subresource,
        object_name,
        namespace,
        may_fail: operation == Operation::Connect,
    }
}

pub(super) fn all() -> Vec<AdmissionTestRequest> {
    const PATCH: (&str, Operation) = ("PATCH", Operation::Update);
    const DELETE: (&str, Operation) = ("DELETE", Operation::Delete);
    const POST: (&str, Operation) = ("POST", Operation::Create);
    let label = || json!({"metadata": {"labels": {"changed": "yes"}}});
    let mut all = vec![
        create(
            "create node y",
            NODES,
            "",
            "y",
            object(NODES, "Node", json!({"name": "y"}), json!({})),
        ),
        existing("label node x", PATCH, NODES, "", ("x", ""), label()),
        existing(
            "label the status of node x",
            PATCH,
            NODES,
            "",
            ("x", "status"),
            label(),
        ),
        existing("delete node x", DELETE, NODES, "", ("x", ""), Value::Null),
        existing(
            "label namespace n1",
            PATCH,
            NAMESPACE_RESOURCE,
            "n1",
            ("n1", ""),
            label(),
        ),
        existing(
            "delete namespace n2",
            DELETE,
            NAMESPACE_RESOURCE,
            "n2",
            ("n2", ""),
            Value::Null,
        ),
        create(
            "review access",
            REVIEWS,
            "",
            "",
            object(
                REVIEWS,
                "SubjectAccessReview",
                json!({}),
                json!({
                    "spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}},
                }),
            ),
        ),
    ];
    let mut namespace = create(
        "create namespace x",
        NAMESPACE_RESOURCE,
        "",
        "x",
        object(
            NAMESPACE_RESOURCE,
            "Namespace",
            json!({"name": "x"}),
            json!({}),
        ),
    );
    namespace.namespace = "x";
    all.push(namespace);
    for (namespace, _) in NAMESPACES {
        all.extend([
            create(
                "create config map z",
                CONFIG_MAPS,
                namespace,
                "z",
                config_map(json!({"name": "z"})),
            ),
            create(
                "generate a config map",
                CONFIG_MAPS,
                namespace,
                "",
                config_map(json!({"generateName": "x-"})),
            ),
            existing(
                "label config map x",
                PATCH,
                CONFIG_MAPS,
                namespace,
                ("x", ""),
                label(),
            ),
            existing(
                "delete config map y",
                DELETE,
                CONFIG_MAPS,
                namespace,
                ("y", ""),
                Value::Null,
            ),
            existing(
                "delete all config maps",
                DELETE,
                CONFIG_MAPS,
                namespace,
                ("", ""),
                Value::Null,
            ),
            create("create pod y", PODS, namespace, "y", pod("y")),
            existing(
                "label the status of pod x",
                PATCH,
                PODS,
                namespace,
                ("x", "status"),
                label(),
            ),
            existing(
                "delete pod x",
                DELETE,
                PODS,
                namespace,
                ("x", ""),
                Value::Null,
            ),
            existing(
                "evict pod x",
                POST,
                PODS,
                namespace,
                ("x", "eviction"),
                json!({
                    "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"},
                }),
            ),
            existing(
                "connect to pod x",
                ("GET", Operation::Connect),
                PODS,
                namespace,
                ("x", "proxy"),
                Value::Null,
            ),
            create(
                "create deployment y",
                DEPLOYMENTS,
                namespace,
                "y",
                deployment("y"),
            ),
            existing(
                "scale deployment x",
                PATCH,
                DEPLOYMENTS,
                namespace,
                ("x", "scale"),
                json!({"spec": {"replicas": 3}}),
            ),
            create(
                "create lease x",
                LEASES,
                namespace,
                "x",
                object(LEASES, "Lease", json!({"name": "x"}), json!({})),
            ),
        ]);
        for gvr in EQUIVALENT_RESOURCES[0] {
            all.push(create(
                "create event x",
                *gvr,
                namespace,
                "x",
                event(*gvr, namespace),
            ));
        }
        for gvr in EQUIVALENT_RESOURCES[1] {
            all.push(create(
                "create autoscaler x",
                *gvr,
                namespace,
                "x",
                autoscaler(*gvr),
            ));
        }
    }
    all
}
