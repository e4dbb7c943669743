//! Table tests of the evaluators.

use rhumb_api::JsonObject;
use serde_json::{Value, json};

use super::Evaluator;
use crate::{ResourceQuantities, ScopeAttributes};

fn object(value: &Value) -> &JsonObject {
    value.as_object().expect("JSON object")
}

fn evaluator(group: &str, plural: &str) -> Evaluator {
    Evaluator::for_resource(group, plural).expect("resource has an evaluator")
}

fn pods() -> Evaluator {
    evaluator("", "pods")
}

/// Computes the usage from the object and from JSON; both must agree.
fn check(evaluator: &Evaluator, value: &Value, want: &str) {
    let usage = evaluator.usage(object(value));
    assert_eq!(usage.quantities.to_string(), want, "{value}");
    let text = value.to_string();
    let from_json = evaluator.usage_from_json(text.as_bytes());
    assert_eq!(from_json.expect("valid JSON"), usage, "{value}");
}

#[test]
fn resources_that_are_not_stored_have_no_evaluator() {
    for (group, plural) in [
        ("", "bindings"),
        ("", "componentstatuses"),
        ("", "events"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("events.k8s.io", "events"),
    ] {
        assert_eq!(
            Evaluator::for_resource(group, plural),
            None,
            "{plural}.{group}"
        );
    }
    assert!(Evaluator::for_resource("example.com", "events").is_some());
}

#[test]
fn other_objects_are_counted() {
    let table = [
        ("batch", "jobs", "count/jobs.batch=1"),
        ("", "configmaps", "configmaps=1,count/configmaps=1"),
        ("", "secrets", "count/secrets=1,secrets=1"),
        (
            "",
            "resourcequotas",
            "count/resourcequotas=1,resourcequotas=1",
        ),
        (
            "",
            "replicationcontrollers",
            "count/replicationcontrollers=1,replicationcontrollers=1",
        ),
        ("", "endpoints", "count/endpoints=1"),
        ("example.com", "secrets", "count/secrets.example.com=1"),
        ("example.com", "pods", "count/pods.example.com=1"),
        ("example.com", "services", "count/services.example.com=1"),
    ];
    for (group, plural, want) in table {
        check(&evaluator(group, plural), &json!({}), want);
    }
}

#[test]
fn resource_names_are_covered_by_their_evaluator() {
    let both = "pods resourceclaims";
    let table = [
        ("count/pods", "pods"),
        ("pods", "pods"),
        ("cpu", "pods"),
        ("memory", "pods"),
        ("ephemeral-storage", "pods"),
        ("requests.cpu", "pods"),
        ("requests.memory", "pods"),
        ("requests.ephemeral-storage", "pods"),
        ("limits.cpu", "pods"),
        ("limits.memory", "pods"),
        ("limits.ephemeral-storage", "pods"),
        ("hugepages-2Mi", "pods"),
        ("requests.hugepages-2Mi", "pods"),
        ("limits.hugepages-2Mi", ""),
        ("requests.example.com/gpu", both),
        ("example.com/gpu", ""),
        ("limits.example.com/gpu", ""),
        ("requests.kubernetes.io/gpu", ""),
        ("requests.deviceclass.resource.kubernetes.io/gpu", both),
        ("deviceclass.resource.kubernetes.io/gpu", ""),
        ("storage", ""),
        ("count/services", "services"),
        ("services", "services"),
        ("services.nodeports", "services"),
        ("services.loadbalancers", "services"),
        ("services.others", ""),
        ("count/persistentvolumeclaims", "persistentvolumeclaims"),
        ("persistentvolumeclaims", "persistentvolumeclaims"),
        ("requests.storage", "persistentvolumeclaims"),
        (
            "gold.storageclass.storage.k8s.io/requests.storage",
            "persistentvolumeclaims",
        ),
        (
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
            "persistentvolumeclaims",
        ),
        ("gold.storageclass.storage.k8s.io/pods", ""),
        ("gold/requests.storage", ""),
        ("count/resourceclaims.resource.k8s.io", "resourceclaims"),
        ("resourceclaims", ""),
        ("gpu.deviceclass.resource.k8s.io/devices", "resourceclaims"),
        ("configmaps", "configmaps"),
        ("count/configmaps", "configmaps"),
        ("count/jobs.batch", "jobs"),
        ("count/jobs", ""),
        ("jobs", ""),
    ];
    let evaluators = [
        ("", "pods"),
        ("", "services"),
        ("", "persistentvolumeclaims"),
        ("resource.k8s.io", "resourceclaims"),
        ("", "configmaps"),
        ("batch", "jobs"),
    ];
    for (name, want) in table {
        for (group, plural) in evaluators {
            let covers = evaluator(group, plural).covers(name);
            assert_eq!(covers, want.contains(plural), "{name} and {plural}");
        }
    }
}

#[test]
fn pods_past_their_grace_period_count_as_objects_only() {
    let pod = json!({
        "metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 30},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
    });
    check(&pods(), &pod, "count/pods=1,cpu=1,pods=1,requests.cpu=1");
    let usage = pods().usage(object(&pod));
    let lapses = usage.lapses_at.map(|at| at.rfc3339().to_string());
    assert_eq!(lapses.as_deref(), Some("2026-01-02T03:04:35Z"));
    assert_eq!(usage.after_lapse.to_string(), "count/pods=1");
}

#[test]
fn pods_without_deletion_and_grace_period_do_not_lapse() {
    let table = [
        json!({}),
        json!({"deletionTimestamp": "2026-01-02T03:04:05Z"}),
        json!({"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": null}),
        json!({"deletionTimestamp": null, "deletionGracePeriodSeconds": 0}),
    ];
    for metadata in table {
        let pod = json!({"metadata": metadata});
        let usage = pods().usage(object(&pod));
        assert_eq!(
            (usage.lapses_at, usage.after_lapse),
            (None, ResourceQuantities::default())
        );
    }
}

#[test]
fn finished_pods_count_as_objects_only() {
    for (phase, want) in [
        ("Failed", "count/pods=1"),
        ("Succeeded", "count/pods=1"),
        ("Running", "count/pods=1,pods=1"),
        ("Pending", "count/pods=1,pods=1"),
        ("Unknown", "count/pods=1,pods=1"),
        ("", "count/pods=1,pods=1"),
    ] {
        let deleted =
            json!({"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 0});
        let pod = json!({"metadata": deleted, "status": {"phase": phase}});
        check(&pods(), &pod, want);
        let lapses = pods().usage(object(&pod)).lapses_at;
        assert_eq!(lapses.is_none(), want == "count/pods=1", "{phase}");
    }
}

/// Terminating, best effort, priority class, cross-namespace affinity.
fn pod_attributes(pod: &Value) -> (bool, bool, String, bool) {
    match pods().usage(object(pod)).scope_attributes {
        ScopeAttributes::Pod {
            is_terminating,
            is_best_effort,
            priority_class,
            has_cross_namespace_affinity,
        } => (
            is_terminating,
            is_best_effort,
            priority_class.into(),
            has_cross_namespace_affinity,
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_with_an_active_deadline_is_terminating() {
    for (deadline, want) in [(json!(null), false), (json!(0), true), (json!(-1), false)] {
        let pod = json!({"spec": {"activeDeadlineSeconds": deadline}});
        assert_eq!(pod_attributes(&pod).0, want, "{pod}");
    }
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}});
    assert!(!pod_attributes(&deleted).0, "deletion is no deadline");
}

#[test]
fn a_pod_is_best_effort_by_its_status_or_else_by_its_spec() {
    let containers = |what: Value| json!([{"resources": {"requests": what}}]);
    let table = [
        (json!({}), json!({}), true),
        (
            json!({"containers": containers(json!({"cpu": "1"}))}),
            json!({}),
            false,
        ),
        (
            json!({"containers": containers(json!({"cpu": "0"}))}),
            json!({}),
            true,
        ),
        (
            json!({"containers": containers(json!({"example.com/a": "1"}))}),
            json!({}),
            true,
        ),
        (
            json!({"initContainers": containers(json!({"memory": "1"}))}),
            json!({}),
            false,
        ),
        (
            json!({"containers": [{"resources": {"limits": {"memory": "1"}}}]}),
            json!({}),
            false,
        ),
        (
            json!({"resources": {}, "containers": containers(json!({"cpu": "1"}))}),
            json!({}),
            true,
        ),
        (
            json!({"resources": null, "containers": containers(json!({"cpu": "1"}))}),
            json!({}),
            false,
        ),
        (
            json!({"resources": {"requests": {"cpu": "1"}}}),
            json!({}),
            false,
        ),
        (json!({}), json!({"qosClass": "Burstable"}), false),
        (
            json!({"containers": containers(json!({"cpu": "1"}))}),
            json!({"qosClass": "BestEffort"}),
            true,
        ),
    ];
    for (spec, status, want) in table {
        let pod = json!({"spec": spec, "status": status});
        assert_eq!(pod_attributes(&pod).1, want, "{pod}");
    }
}

#[test]
fn a_pod_has_its_priority_class() {
    let pod = json!({"spec": {"priorityClassName": "high"}});
    assert_eq!(pod_attributes(&pod).2, "high");
    assert_eq!(pod_attributes(&json!({})).2, "");
}

#[test]
fn affinity_crosses_namespaces_if_a_term_names_namespaces() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let terms = [
        (json!({"topologyKey": "zone"}), false),
        (json!({"namespaces": []}), false),
        (
            json!({"namespaces": null, "namespaceSelector": null}),
            false,
        ),
        (json!({"namespaces": ["a"]}), true),
        (json!({"namespaceSelector": {}}), true),
        (
            json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}),
            true,
        ),
    ];
    for (term, want) in terms {
        for side in ["podAffinity", "podAntiAffinity"] {
            let weighted = json!({"weight": 1, "podAffinityTerm": term});
            for (list, term) in [(required, &term), (preferred, &weighted)] {
                let pod = json!({"spec": {"affinity": {side: {list: [{}, term]}}}});
                assert_eq!(pod_attributes(&pod).3, want, "{pod}");
            }
        }
    }
    assert!(!pod_attributes(&json!({"spec": {"affinity": {"nodeAffinity": {}}}})).3);
}

#[test]
fn claims_have_the_volume_attributes_classes_they_name() {
    let claim = json!({
        "spec": {"volumeAttributesClassName": "b"},
        "status": {
            "currentVolumeAttributesClassName": "b",
            "modifyVolumeStatus": {"targetVolumeAttributesClassName": "a"},
        },
    });
    let usage = evaluator("", "persistentvolumeclaims").usage(object(&claim));
    let attributes_classes = ["a", "b"].map(Box::from).into();
    assert_eq!(
        usage.scope_attributes,
        ScopeAttributes::VolumeClaim { attributes_classes }
    );
}

fn required(names: &[&str]) -> ResourceQuantities {
    let names = names
        .iter()
        .map(|name| (name.to_string().into(), super::object_count::ONE));
    names.collect()
}

#[test]
fn containers_must_specify_resources_that_a_quota_limits() {
    let container = |name: &str, resources: Value| json!({"name": name, "resources": resources});
    let all =
        json!({"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}});
    let table = [
        (
            json!({"containers": [container("b", json!({})), container("a", json!({"requests": {"memory": "1"}}))]}),
            &["cpu", "memory"][..],
            Some("must specify cpu for: a,b; memory for: b"),
        ),
        (
            json!({"containers": [container("a", json!({}))], "initContainers": [container("i", json!({})), container("a", json!({}))]}),
            &["limits.cpu", "requests.memory"],
            Some("must specify limits.cpu for: a,i; requests.memory for: a,i"),
        ),
        (
            json!({"containers": [container("a", all)]}),
            &[
                "cpu",
                "limits.cpu",
                "limits.memory",
                "memory",
                "requests.cpu",
                "requests.memory",
            ],
            None,
        ),
        (
            json!({"containers": [container("a", json!({"limits": {"cpu": "1"}}))]}),
            &["cpu", "limits.cpu"],
            Some("must specify cpu for: a"),
        ),
        (
            json!({"containers": [container("a", json!({"requests": {"cpu": "0"}}))]}),
            &["cpu"],
            None,
        ),
        (
            json!({"containers": [container("a", json!({}))]}),
            &[
                "pods",
                "requests.ephemeral-storage",
                "hugepages-2Mi",
                "requests.example.com/gpu",
            ],
            None,
        ),
        (
            json!({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}, "containers": [container("a", json!({}))]}),
            &["cpu"],
            None,
        ),
        (
            json!({"resources": {"limits": {"example.com/a": "1"}}, "containers": [container("a", json!({}))]}),
            &["cpu"],
            Some("must specify cpu for: a"),
        ),
    ];
    for (spec, names, want) in table {
        let pod = json!({"spec": spec});
        let got = pods().missing_constraints(&required(names), object(&pod));
        assert_eq!(got.as_deref(), want, "{pod}");
    }
    let other =
        evaluator("", "services").missing_constraints(&required(&["cpu"]), &JsonObject::new());
    assert_eq!(other, None);
}

#[test]
fn updates_are_handled_if_they_can_change_usage() {
    let plain = json!({"spec": {"containers": []}});
    let deadline = json!({"spec": {"activeDeadlineSeconds": 5}});
    let allocated = |storage: &str| json!({"status": {"allocatedResources": {"storage": storage}}});
    let current = json!({"status": {"currentVolumeAttributesClassName": "a"}});
    let table = [
        ("pods", "", &plain, &plain, false),
        ("pods", "", &plain, &deadline, true),
        ("pods", "", &deadline, &plain, true),
        ("pods", "", &deadline, &deadline, false),
        ("pods", "resize", &plain, &plain, true),
        ("pods", "status", &plain, &deadline, false),
        ("pods", "ephemeralcontainers", &plain, &deadline, false),
        ("services", "", &plain, &plain, true),
        ("services", "status", &plain, &plain, false),
        ("persistentvolumeclaims", "", &plain, &plain, true),
        ("persistentvolumeclaims", "status", &plain, &plain, false),
        (
            "persistentvolumeclaims",
            "status",
            &plain,
            &allocated("1Gi"),
            true,
        ),
        (
            "persistentvolumeclaims",
            "status",
            &allocated("1Gi"),
            &allocated("2Gi"),
            true,
        ),
        (
            "persistentvolumeclaims",
            "status",
            &allocated("1Gi"),
            &allocated("1024Mi"),
            false,
        ),
        ("persistentvolumeclaims", "status", &plain, &current, true),
        (
            "persistentvolumeclaims",
            "status",
            &current,
            &current,
            false,
        ),
        ("persistentvolumeclaims", "other", &plain, &current, false),
        ("configmaps", "", &plain, &deadline, false),
    ];
    for (plural, subresource, old, new, want) in table {
        let handles = evaluator("", plural).handles_update(subresource, object(old), object(new));
        assert_eq!(handles, want, "{plural}/{subresource}: {old} to {new}");
    }
    let claims = evaluator("resource.k8s.io", "resourceclaims");
    assert!(claims.handles_update("", object(&plain), object(&plain)));
    assert!(!claims.handles_update("status", object(&plain), object(&plain)));
}

#[test]
fn malformed_objects_count_as_empty_ones() {
    let malformed = json!({"metadata": 1, "spec": "?", "status": true});
    for (group, plural, want) in [
        ("", "pods", "count/pods=1,pods=1"),
        (
            "",
            "services",
            "count/services=1,services=1,services.loadbalancers=0,services.nodeports=0",
        ),
        (
            "",
            "persistentvolumeclaims",
            "count/persistentvolumeclaims=1,persistentvolumeclaims=1",
        ),
        (
            "resource.k8s.io",
            "resourceclaims",
            "count/resourceclaims.resource.k8s.io=1",
        ),
    ] {
        let evaluator = evaluator(group, plural);
        let usage = evaluator.usage(object(&malformed));
        assert_eq!(usage.quantities.to_string(), want);
        evaluator
            .usage_from_json(malformed.to_string().as_bytes())
            .expect_err("invalid object must not decode");
    }
}
