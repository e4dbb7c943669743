//! Tests of critical resources: what is intercepted, and the warnings.

mod limits;
mod object_selectors;
mod webhook_namespace;

use std::collections::BTreeMap;

use rhumb_meta::{GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};

use super::{ClusterInventory, ClusterNamespace, CriticalResources, ServedResource};
use crate::match_attributes::{Operation, ResourceAndKind};
use crate::match_criteria::CriteriaFeatures;
use crate::webhook::{Webhook, parse_webhooks};

const WRITES: [Operation; 3] = [Operation::Create, Operation::Update, Operation::Delete];

fn names(group: &'static str, version: &'static str, resource: &'static str) -> ResourceAndKind {
    ResourceAndKind {
        resource: GroupVersionResource::new(group, version, resource),
        kind: GroupVersionKind::new(group, version, resource),
    }
}

/// A cluster with all resources that the built-in rules cover, and a few that they do not.
struct TestCluster {
    resources: Vec<TestResource>,
    namespaces: Vec<ClusterNamespace>,
}

struct TestResource {
    names: ResourceAndKind,
    equivalents: Vec<ResourceAndKind>,
    subresource: &'static str,
    is_namespaced: bool,
    operations: Vec<Operation>,
}

impl TestCluster {
    fn new() -> TestCluster {
        let create = vec![Operation::Create];
        let all = WRITES.to_vec();
        let plain =
            |group, resource, sub, is_namespaced, operations: &Vec<Operation>| TestResource {
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
        TestCluster {
            resources: vec![
                plain("coordination.k8s.io", "leases", "", true, &all),
                plain("", "pods", "", true, &all),
                plain("", "pods", "status", true, &all),
                plain("", "configmaps", "", true, &all),
                plain("", "namespaces", "", false, &all),
                plain("", "nodes", "", false, &all),
                plain("", "nodes", "status", false, &all),
                plain("authentication.k8s.io", "tokenreviews", "", false, &create),
                plain(reviews, "subjectaccessreviews", "", false, &create),
                plain(reviews, "localsubjectaccessreviews", "", true, &create),
                plain(requests, "certificatesigningrequests", "", false, &all),
                TestResource {
                    equivalents: vec![new],
                    ..plain("", "events", "", true, &all)
                },
                TestResource {
                    equivalents: vec![old],
                    ..plain("events.k8s.io", "events", "", true, &all)
                },
            ],
            namespaces: vec![
                ClusterNamespace::named("kube-system"),
                ClusterNamespace {
                    labels: BTreeMap::from([("tier".to_owned(), "base".to_owned())]),
                    ..ClusterNamespace::named("base")
                },
                ClusterNamespace::named("shop"),
            ],
        }
    }

    fn inventory(&self) -> ClusterInventory<'_> {
        ClusterInventory {
            resources: self
                .resources
                .iter()
                .map(|it| ServedResource {
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
    let configuration = configuration.as_object().expect("a JSON object");
    parse_webhooks(
        configuration,
        CriteriaFeatures {
            exclusion_rules: exclusions,
        },
    )
}

fn webhook(changes: Value) -> Value {
    let mut webhook = json!({
        "name": "w.example.com",
        "failurePolicy": "Fail",
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
    });
    for (field, value) in changes.as_object().expect("a JSON object") {
        webhook[field] = value.clone();
    }
    webhook
}

fn rules(group: &str, operation: &str, resource: &str) -> Value {
    json!([{"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}])
}

/// The names of the rules that a webhook intercepts.
fn intercepted_names(critical: &CriticalResources, changes: Value) -> String {
    let fixture = TestCluster::new();
    let webhooks = webhooks(json!([webhook(changes)]), true);
    let mut budget = super::ProbeBudget::default();
    let cluster = fixture.inventory();
    let found = super::intercepted_rules(&critical.coverage(&cluster), &webhooks[0], &mut budget);
    let names: Vec<&str> = found.iter().map(|rule| rule.name()).collect();
    names.join("; ")
}

fn condition(expression: &str) -> Value {
    json!({"matchConditions": [{"name": "c", "expression": expression}]})
}

const ALL: &str = "leases of nodes and of the control plane; pods in kube-system; nodes; token reviews; \
                   access reviews; certificate signing requests";

#[test]
fn built_in_rules_are_matched_against_webhooks() {
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
        // Reviews can only be created: an UPDATE rule never matches.
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
            json!({"objectSelector": {"matchExpressions": [{"key": "unchecked", "operator": "DoesNotExist"}]}}),
            ALL,
        ),
        // By conditions, as far as they can be evaluated without the request.
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
        // By exclusion rules.
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
        // Exclusion rules that exclude only some of the writes.
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
        let actual = intercepted_names(&CriticalResources::default(), changes.clone());
        assert_eq!(actual, want, "{changes}");
    }
}

#[test]
fn configured_rules_are_matched_against_webhooks() {
    let name_of = |label: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": label}});
    let table = [
        // Wildcards match existing resources.
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
        // Namespaces by name, by label, or any, including ones that do not exist yet.
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
        // Namespaces themselves, which count as being in themselves.
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
        // Equivalent resources match unless the webhook's `matchPolicy` is `Exact`.
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
        let actual = !intercepted_names(&critical, changes.clone()).is_empty();
        assert_eq!(actual, want, "{rule} {changes}");
    }
}

#[test]
fn suggested_rules_remove_the_warning() {
    let critical = CriticalResources::default();
    let fixture = TestCluster::new();
    let warnings_for =
        |list: Value| critical.warnings(&webhooks(list, true), &fixture.inventory(), true);
    let texts = warnings_for(json!([webhook(json!({}))]));
    assert_eq!(texts.len(), 1);
    let (problem, rules) = texts[0]
        .split_once("add excludeResourceRules: ")
        .expect("the warning suggests exclusion rules");
    assert!(
        problem.starts_with(
            "webhook \"w.example.com\" with failurePolicy Fail can stop what the cluster depends on: leases of nodes"
        ),
        "{problem}"
    );
    let rules: Value = serde_json::from_str(rules).expect("valid JSON");
    assert_eq!(rules.as_array().map(Vec::len), Some(6));
    let mended = webhook(json!({"excludeResourceRules": rules}));
    assert_eq!(warnings_for(json!([mended])), [""; 0]);
    assert_eq!(
        warnings_for(json!([webhook(json!({"failurePolicy": "Ignore"}))])),
        [""; 0]
    );
}

#[test]
fn common_findings_of_webhooks_are_merged() {
    let critical = CriticalResources::default();
    let fixture = TestCluster::new();
    let mut list: Vec<Value> = (0..7)
        .map(|n| webhook(json!({"name": format!("w{n}.example.com")})))
        .collect();
    list.push(webhook(
        json!({"name": "pods.example.com", "rules": rules("", "CREATE", "pods")}),
    ));
    let texts = critical.warnings(&webhooks(json!(list), true), &fixture.inventory(), true);
    assert_eq!(texts.len(), 2);
    assert!(
        texts[0].contains("\"w4.example.com\" and 2 more with"),
        "{}",
        texts[0]
    );
    assert_eq!(
        texts[1],
        "webhook \"pods.example.com\" with failurePolicy Fail can stop what the cluster depends on: pods in \
         kube-system (the webhook itself may need them to run); to leave them out, add excludeResourceRules: \
         [{\"apiGroups\":[\"\"],\"resources\":[\"pods\",\"pods/binding\",\"pods/status\"],\
         \"namespaces\":[\"kube-system\"]}]"
    );
    let bytes: usize = texts.iter().map(String::len).sum();
    assert!(
        bytes < 4096,
        "{bytes} bytes do not fit into the headers of a response"
    );
}

#[test]
fn exclusion_rules_are_not_suggested_while_the_gate_is_off() {
    let fixture = TestCluster::new();
    let hooks = webhooks(
        json!([webhook(json!({
            "excludeResourceRules": [{"resources": ["*/*"], "apiGroups": [""]}],
            "matchConditions": [{"name": "c", "expression": "true"}],
        }))]),
        false,
    );
    let texts = CriticalResources::default().warnings(&hooks, &fixture.inventory(), false);
    assert_eq!(texts.len(), 1);
    assert!(
        texts[0].contains("pods in kube-system"),
        "rules that are ignored exclude nothing: {}",
        texts[0]
    );
    assert!(
        texts[0].contains("unless matchConditions leave them out"),
        "{}",
        texts[0]
    );
    assert!(
        texts[0].ends_with("or set failurePolicy: Ignore"),
        "{}",
        texts[0]
    );
    assert!(!texts[0].contains("excludeResourceRules"), "{}", texts[0]);
}
