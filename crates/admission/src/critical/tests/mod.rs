mod limits;
mod own;

use std::collections::BTreeMap;

use rhumb_meta::{GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};

use super::{Cluster, CriticalResources, Known, Namespace};
use crate::criteria::Reading;
use crate::facts::{Names, Operation};
use crate::webhook::{Webhook, webhooks_of};

const WRITES: [Operation; 3] = [Operation::Create, Operation::Update, Operation::Delete];

fn names(group: &'static str, version: &'static str, resource: &'static str) -> Names {
    Names {
        resource: GroupVersionResource::new(group, version, resource),
        kind: GroupVersionKind::new(group, version, resource),
    }
}

/// All that the built-in rules are about, and a few that they are not.
struct World {
    resources: Vec<Resource>,
    namespaces: Vec<Namespace>,
}

struct Resource {
    names: Names,
    equivalents: Vec<Names>,
    subresource: &'static str,
    is_namespaced: bool,
    operations: Vec<Operation>,
}

impl World {
    fn new() -> World {
        let asked = vec![Operation::Create];
        let all = WRITES.to_vec();
        let plain = |group, resource, sub, is_namespaced, operations: &Vec<Operation>| Resource {
            names: names(group, "v1", resource),
            equivalents: Vec::new(),
            subresource: sub,
            is_namespaced,
            operations: operations.clone(),
        };
        let (old, new) = (
            names("", "v1", "events"),
            names("events.k8s.io", "v1", "events"),
        );
        let reviews = "authorization.k8s.io";
        let requests = "certificates.k8s.io";
        World {
            resources: vec![
                plain("coordination.k8s.io", "leases", "", true, &all),
                plain("", "pods", "", true, &all),
                plain("", "pods", "status", true, &all),
                plain("", "configmaps", "", true, &all),
                plain("", "namespaces", "", false, &all),
                plain("", "nodes", "", false, &all),
                plain("", "nodes", "status", false, &all),
                plain("authentication.k8s.io", "tokenreviews", "", false, &asked),
                plain(reviews, "subjectaccessreviews", "", false, &asked),
                plain(reviews, "localsubjectaccessreviews", "", true, &asked),
                plain(requests, "certificatesigningrequests", "", false, &all),
                Resource {
                    equivalents: vec![new],
                    ..plain("", "events", "", true, &all)
                },
                Resource {
                    equivalents: vec![old],
                    ..plain("events.k8s.io", "events", "", true, &all)
                },
            ],
            namespaces: vec![
                Namespace::named("kube-system"),
                Namespace {
                    labels: BTreeMap::from([("tier".to_owned(), "base".to_owned())]),
                    ..Namespace::named("base")
                },
                Namespace::named("shop"),
            ],
        }
    }

    fn cluster(&self) -> Cluster<'_> {
        Cluster {
            resources: self
                .resources
                .iter()
                .map(|it| Known {
                    names: &it.names,
                    equivalents: &it.equivalents,
                    subresource: it.subresource,
                    is_namespaced: it.is_namespaced,
                    operations: it.operations.clone(),
                })
                .collect(),
            namespaces: self.namespaces.clone(),
        }
    }
}

fn webhooks(list: Value, exclusions: bool) -> Vec<Webhook> {
    let configuration = json!({"metadata": {"name": "c"}, "webhooks": list});
    let configuration = configuration.as_object().expect("an object");
    webhooks_of(configuration, Reading { exclusions })
}

fn webhook(changes: Value) -> Value {
    let mut webhook = json!({
        "name": "w.example.com",
        "failurePolicy": "Fail",
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
    });
    for (field, value) in changes.as_object().expect("an object") {
        webhook[field] = value.clone();
    }
    webhook
}

fn rules(group: &str, operation: &str, resource: &str) -> Value {
    json!([{"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}])
}

/// The names of the rules of which a webhook sees something.
fn intercepted(critical: &CriticalResources, changes: Value) -> String {
    let world = World::new();
    let webhooks = webhooks(json!([webhook(changes)]), true);
    let mut budget = super::Budget::default();
    let cluster = world.cluster();
    let found = super::intercepted(&critical.targets(&cluster), &webhooks[0], &mut budget);
    let names: Vec<&str> = found.iter().map(|rule| rule.name()).collect();
    names.join("; ")
}

fn condition(expression: &str) -> Value {
    json!({"matchConditions": [{"name": "c", "expression": expression}]})
}

const ALL: &str = "leases of nodes and of the control plane; pods in kube-system; nodes; token reviews; \
                   access reviews; certificate signing requests";

#[test]
fn what_a_webhook_sees_of_the_built_in_list() {
    let leases = "leases of nodes and of the control plane";
    let outside = "nodes; token reviews; access reviews; certificate signing requests";
    let table = [
        (json!({}), ALL),
        (json!({"rules": rules("*", "*", "*")}), ALL),
        (json!({"rules": rules("apps", "*", "*")}), ""),
        (json!({"rules": rules("", "*", "configmaps")}), ""),
        (
            json!({"rules": rules("", "CREATE", "pods")}),
            "pods in kube-system",
        ),
        (
            json!({"rules": rules("", "UPDATE", "pods/status")}),
            "pods in kube-system",
        ),
        (json!({"rules": rules("", "CONNECT", "pods/exec")}), ""),
        (json!({"rules": rules("", "UPDATE", "nodes/*")}), "nodes"),
        // Reviews can only be made: nobody could ever see one that is changed.
        (
            json!({"rules": rules("authentication.k8s.io", "UPDATE", "*")}),
            "",
        ),
        (
            json!({"rules": rules("authentication.k8s.io", "CREATE", "*")}),
            "token reviews",
        ),
        // By selectors.
        (
            json!({"namespaceSelector": {"matchLabels": {"tier": "web"}}}),
            outside,
        ),
        (
            json!({"namespaceSelector": {"matchExpressions": [{
                "key": "kubernetes.io/metadata.name", "operator": "NotIn",
                "values": ["kube-system", "kube-node-lease"],
            }]}}),
            "nodes; token reviews; access reviews; certificate signing requests",
        ),
        (
            json!({"namespaceSelector": {"matchExpressions": [{
                "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"],
            }]}}),
            "leases of nodes and of the control plane; nodes; token reviews; access reviews; certificate signing requests",
        ),
        (
            json!({"objectSelector": {"matchLabels": {"checked": "yes"}}}),
            "",
        ),
        (
            json!({"objectSelector": {"matchExpressions": [{"key": "unchecked", "operator": "DoesNotExist"}]}}),
            ALL,
        ),
        // By conditions, as far as they can be judged without the request.
        (
            condition("request.resource.group != 'coordination.k8s.io'"),
            "pods in kube-system; nodes; token reviews; access reviews; certificate signing requests",
        ),
        (condition("request.namespace == 'shop'"), outside),
        (condition("object != null"), ALL),
        (condition("object == null"), ALL),
        (condition("has(object.spec)"), ALL),
        (
            condition("!('system:nodes' in request.userInfo.groups)"),
            ALL,
        ),
        (condition("false"), ""),
        (condition("nonsense"), ALL),
        // By exclusions.
        (
            json!({
                "rules": rules("*", "*", "leases"),
                "excludeResourceRules": [{"resources": ["leases"], "namespaces": ["kube-system"]}],
            }),
            leases,
        ),
        (
            json!({
                "rules": rules("*", "*", "leases"),
                "excludeResourceRules": [
                    {"resources": ["leases"], "namespaces": ["kube-system"]},
                    {"resources": ["leases"], "namespaceSelector": {"matchLabels": {
                        "kubernetes.io/metadata.name": "kube-node-lease",
                    }}},
                ],
            }),
            "",
        ),
        // Only some of them are left out.
        (
            json!({
                "rules": rules("*", "*", "leases"),
                "excludeResourceRules": [{"resources": ["leases"], "resourceNames": ["one"]}],
            }),
            leases,
        ),
        (
            json!({
                "rules": rules("*", "*", "leases"),
                "excludeResourceRules": [{"resources": ["leases"], "operations": ["UPDATE"]}],
            }),
            leases,
        ),
        (
            json!({"excludeResourceRules": [
                {"apiGroups": ["", "coordination.k8s.io", "certificates.k8s.io"], "resources": ["*/*"]},
            ]}),
            "token reviews; access reviews",
        ),
    ];
    for (changes, want) in table {
        let got = intercepted(&CriticalResources::default(), changes.clone());
        assert_eq!(got, want, "{changes}");
    }
}

#[test]
fn what_a_webhook_sees_of_an_operators_list() {
    let name_of = |label: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": label}});
    let table = [
        // Stars stand for what there is.
        (
            "apiGroups: ['']",
            json!({"rules": rules("", "*", "configmaps")}),
            true,
        ),
        (
            "apiGroups: [''], resources: ['*/*']",
            json!({"rules": rules("", "*", "nodes/status")}),
            true,
        ),
        (
            "apiGroups: ['']",
            json!({"rules": rules("", "*", "nodes/status")}),
            false,
        ),
        (
            "apiGroups: [''], scope: Namespaced",
            json!({"rules": rules("", "*", "nodes")}),
            false,
        ),
        (
            "apiGroups: [''], scope: Cluster",
            json!({"rules": rules("", "*", "nodes")}),
            true,
        ),
        (
            "resources: [pods], operations: [DELETE]",
            json!({"rules": rules("", "CREATE", "pods")}),
            false,
        ),
        (
            "resources: [pods], operations: [DELETE]",
            json!({"rules": rules("", "*", "pods")}),
            true,
        ),
        ("apiVersions: [v2], resources: [pods]", json!({}), false),
        // Namespaces by name, by label, or any, also one that does not exist yet.
        (
            "resources: [pods], namespaces: [shop]",
            json!({"namespaceSelector": name_of("shop")}),
            true,
        ),
        (
            "resources: [pods], namespaces: [shop]",
            json!({"namespaceSelector": name_of("base")}),
            false,
        ),
        (
            "resources: [pods], namespaces: [new]",
            json!({"namespaceSelector": name_of("new")}),
            true,
        ),
        (
            "resources: [pods], namespaceSelector: {matchLabels: {tier: base}}",
            json!({"namespaceSelector": {"matchLabels": {"tier": "base"}}}),
            true,
        ),
        (
            "resources: [pods], namespaceSelector: {matchLabels: {tier: base}}",
            json!({"excludeResourceRules": [{"namespaces": ["base"]}]}),
            false,
        ),
        (
            "resources: [pods]",
            json!({"namespaceSelector": {"matchLabels": {"tier": "base"}}}),
            true,
        ),
        (
            "resources: [pods]",
            json!({"excludeResourceRules": [{"namespaces": ["base", "shop", "kube-system"]}]}),
            true,
        ),
        (
            "resources: [pods]",
            json!({"excludeResourceRules": [{"resources": ["pods"]}]}),
            false,
        ),
        // Names of objects.
        (
            "resources: [nodes], resourceNames: [first]",
            json!({"excludeResourceRules": [{"resources": ["nodes"], "resourceNames": ["first"]}]}),
            false,
        ),
        (
            "resources: [nodes], resourceNames: [first, second]",
            json!({"excludeResourceRules": [{"resources": ["nodes"], "resourceNames": ["first"]}]}),
            true,
        ),
        // Namespaces themselves, which are in themselves.
        (
            "resources: [namespaces], resourceNames: [shop]",
            json!({"namespaceSelector": name_of("shop")}),
            true,
        ),
        (
            "resources: [namespaces], resourceNames: [shop]",
            json!({"namespaceSelector": name_of("base")}),
            false,
        ),
        (
            "resources: [namespaces], resourceNames: [shop], operations: [CREATE]",
            condition("request.namespace == 'shop'"),
            true,
        ),
        // What is the same by another name is seen unless the webhook wants exact names.
        (
            "apiGroups: [''], resources: [events]",
            json!({"rules": rules("events.k8s.io", "*", "events")}),
            true,
        ),
        (
            "apiGroups: [''], resources: [events]",
            json!({"rules": rules("events.k8s.io", "*", "events"), "matchPolicy": "Exact"}),
            false,
        ),
    ];
    for (rule, changes, want) in table {
        let file = format!(
            "{{apiVersion: admission.rhumb/v1, kind: CriticalResources, rules: [{{{rule}}}]}}"
        );
        let critical =
            CriticalResources::parse(&file).unwrap_or_else(|error| panic!("{rule}: {error}"));
        let got = !intercepted(&critical, changes.clone()).is_empty();
        assert_eq!(got, want, "{rule} {changes}");
    }
}

#[test]
fn advice_can_be_pasted_and_then_there_is_none() {
    let critical = CriticalResources::default();
    let world = World::new();
    let advice = |list: Value| critical.advice(&webhooks(list, true), &world.cluster(), true);
    let told = advice(json!([webhook(json!({}))]));
    assert_eq!(told.len(), 1);
    let (problem, rules) = told[0]
        .split_once("add excludeResourceRules: ")
        .expect("a remedy");
    assert!(
        problem.starts_with(
            "webhook \"w.example.com\" with failurePolicy Fail can stop what the cluster depends on: leases of nodes"
        ),
        "{problem}"
    );
    let rules: Value = serde_json::from_str(rules).expect("JSON");
    assert_eq!(rules.as_array().map(Vec::len), Some(6));
    let mended = webhook(json!({"excludeResourceRules": rules}));
    assert_eq!(advice(json!([mended])), [""; 0]);
    assert_eq!(
        advice(json!([webhook(json!({"failurePolicy": "Ignore"}))])),
        [""; 0]
    );
}

#[test]
fn what_several_webhooks_have_in_common_is_said_once() {
    let critical = CriticalResources::default();
    let world = World::new();
    let mut list: Vec<Value> = (0..7)
        .map(|n| webhook(json!({"name": format!("w{n}.example.com")})))
        .collect();
    list.push(webhook(
        json!({"name": "pods.example.com", "rules": rules("", "CREATE", "pods")}),
    ));
    let told = critical.advice(&webhooks(json!(list), true), &world.cluster(), true);
    assert_eq!(told.len(), 2);
    assert!(
        told[0].contains("\"w4.example.com\" and 2 more with"),
        "{}",
        told[0]
    );
    assert_eq!(
        told[1],
        "webhook \"pods.example.com\" with failurePolicy Fail can stop what the cluster depends on: pods in \
         kube-system (the webhook itself may need them to run); to leave them out, add excludeResourceRules: \
         [{\"apiGroups\":[\"\"],\"resources\":[\"pods\",\"pods/binding\",\"pods/status\"],\
         \"namespaces\":[\"kube-system\"]}]"
    );
    let bytes: usize = told.iter().map(String::len).sum();
    assert!(
        bytes < 4096,
        "{bytes} bytes do not fit into the headers of an answer"
    );
}

#[test]
fn nothing_is_suggested_that_the_server_would_drop() {
    let world = World::new();
    let hooks = webhooks(
        json!([webhook(json!({
            "excludeResourceRules": [{"resources": ["*/*"], "apiGroups": [""]}],
            "matchConditions": [{"name": "c", "expression": "true"}],
        }))]),
        false,
    );
    let told = CriticalResources::default().advice(&hooks, &world.cluster(), false);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("pods in kube-system"),
        "rules that are not read leave out nothing: {}",
        told[0]
    );
    assert!(
        told[0].contains("unless matchConditions leave them out"),
        "{}",
        told[0]
    );
    assert!(
        told[0].ends_with("or set failurePolicy: Ignore"),
        "{}",
        told[0]
    );
    assert!(!told[0].contains("excludeResourceRules"), "{}", told[0]);
}
