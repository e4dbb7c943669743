//! What meters say, in tables.

use rhumb_api::Object;
use serde_json::{Value, json};

use super::Meter;
use crate::{Amounts, Traits};

fn object(value: &Value) -> &Object {
    value.as_object().expect("an object")
}

fn meter(group: &str, plural: &str) -> Meter {
    Meter::of(group, plural).expect("a meter")
}

fn pods() -> Meter {
    meter("", "pods")
}

/// Measures both ways, which must agree.
fn check(meter: &Meter, value: &Value, want: &str) {
    let charge = meter.measure(object(value));
    assert_eq!(charge.amounts.to_string(), want, "{value}");
    let text = value.to_string();
    let of_json = meter.measure_json(text.as_bytes()).expect("JSON");
    assert_eq!(of_json, charge, "{value}");
}

#[test]
fn what_is_not_stored_has_no_meter() {
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
        assert_eq!(Meter::of(group, plural), None, "{plural}.{group}");
    }
    assert!(Meter::of("example.com", "events").is_some());
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
        check(&meter(group, plural), &json!({}), want);
    }
}

#[test]
fn names_are_covered_by_the_meter_of_their_objects() {
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
        ("requests.example.com/gpu", "pods"),
        ("example.com/gpu", ""),
        ("limits.example.com/gpu", ""),
        ("requests.kubernetes.io/gpu", ""),
        ("requests.deviceclass.resource.kubernetes.io/gpu", "pods"),
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
    let meters = [
        ("", "pods"),
        ("", "services"),
        ("", "persistentvolumeclaims"),
        ("resource.k8s.io", "resourceclaims"),
        ("", "configmaps"),
        ("batch", "jobs"),
    ];
    for (name, want) in table {
        for (group, plural) in meters {
            let covers = meter(group, plural).covers(name);
            assert_eq!(covers, plural == want, "{name} and {plural}");
        }
    }
}

#[test]
fn pods_that_are_overdue_count_as_objects_only() {
    let pod = json!({
        "metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 30},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
    });
    check(&pods(), &pod, "count/pods=1,cpu=1,pods=1,requests.cpu=1");
    let charge = pods().measure(object(&pod));
    let lapses = charge.lapses.map(|at| at.rfc3339().to_string());
    assert_eq!(lapses.as_deref(), Some("2026-01-02T03:04:35Z"));
    assert_eq!(charge.later.to_string(), "count/pods=1");
}

#[test]
fn pods_that_are_not_on_their_way_out_do_not_lapse() {
    let table = [
        json!({}),
        json!({"deletionTimestamp": "2026-01-02T03:04:05Z"}),
        json!({"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": null}),
        json!({"deletionTimestamp": null, "deletionGracePeriodSeconds": 0}),
    ];
    for metadata in table {
        let pod = json!({"metadata": metadata});
        let charge = pods().measure(object(&pod));
        assert_eq!((charge.lapses, charge.later), (None, Amounts::default()));
    }
}

#[test]
fn pods_at_their_end_count_as_objects_only() {
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
        let lapses = pods().measure(object(&pod)).lapses;
        assert_eq!(lapses.is_none(), want == "count/pods=1", "{phase}");
    }
}

/// Terminating, best effort, priority class, cross-namespace affinity.
fn traits_of(pod: &Value) -> (bool, bool, String, bool) {
    match pods().measure(object(pod)).traits {
        Traits::Pod {
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
fn a_pod_with_a_deadline_is_terminating() {
    for (deadline, want) in [(json!(null), false), (json!(0), true), (json!(-1), false)] {
        let pod = json!({"spec": {"activeDeadlineSeconds": deadline}});
        assert_eq!(traits_of(&pod).0, want, "{pod}");
    }
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}});
    assert!(!traits_of(&deleted).0, "deletion is no deadline");
}

#[test]
fn a_pod_is_best_effort_by_its_status_or_else_by_its_spec() {
    let asks = |what: Value| json!([{"resources": {"requests": what}}]);
    let table = [
        (json!({}), json!({}), true),
        (
            json!({"containers": asks(json!({"cpu": "1"}))}),
            json!({}),
            false,
        ),
        (
            json!({"containers": asks(json!({"cpu": "0"}))}),
            json!({}),
            true,
        ),
        (
            json!({"containers": asks(json!({"example.com/a": "1"}))}),
            json!({}),
            true,
        ),
        (
            json!({"initContainers": asks(json!({"memory": "1"}))}),
            json!({}),
            false,
        ),
        (
            json!({"containers": [{"resources": {"limits": {"memory": "1"}}}]}),
            json!({}),
            false,
        ),
        (
            json!({"resources": {}, "containers": asks(json!({"cpu": "1"}))}),
            json!({}),
            true,
        ),
        (
            json!({"resources": null, "containers": asks(json!({"cpu": "1"}))}),
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
            json!({"containers": asks(json!({"cpu": "1"}))}),
            json!({"qosClass": "BestEffort"}),
            true,
        ),
    ];
    for (spec, status, want) in table {
        let pod = json!({"spec": spec, "status": status});
        assert_eq!(traits_of(&pod).1, want, "{pod}");
    }
}

#[test]
fn a_pod_has_its_priority_class() {
    let pod = json!({"spec": {"priorityClassName": "high"}});
    assert_eq!(traits_of(&pod).2, "high");
    assert_eq!(traits_of(&json!({})).2, "");
}

#[test]
fn affinity_crosses_namespaces_where_a_term_names_some() {
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
                assert_eq!(traits_of(&pod).3, want, "{pod}");
            }
        }
    }
    assert!(!traits_of(&json!({"spec": {"affinity": {"nodeAffinity": {}}}})).3);
}

#[test]
fn claims_have_the_attributes_classes_they_name() {
    let claim = json!({
        "spec": {"volumeAttributesClassName": "b"},
        "status": {
            "currentVolumeAttributesClassName": "b",
            "modifyVolumeStatus": {"targetVolumeAttributesClassName": "a"},
        },
    });
    let charge = meter("", "persistentvolumeclaims").measure(object(&claim));
    let attributes_classes = ["a", "b"].map(Box::from).into();
    assert_eq!(charge.traits, Traits::VolumeClaim { attributes_classes });
}

fn required(names: &[&str]) -> Amounts {
    let names = names
        .iter()
        .map(|name| (name.to_string().into(), super::counts::ONE));
    names.collect()
}

#[test]
fn containers_must_name_what_a_quota_limits() {
    let asks = |name: &str, resources: Value| json!({"name": name, "resources": resources});
    let all =
        json!({"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}});
    let table = [
        (
            json!({"containers": [asks("b", json!({})), asks("a", json!({"requests": {"memory": "1"}}))]}),
            &["cpu", "memory"][..],
            Some("must specify cpu for: a,b; memory for: b"),
        ),
        (
            json!({"containers": [asks("a", json!({}))], "initContainers": [asks("i", json!({})), asks("a", json!({}))]}),
            &["limits.cpu", "requests.memory"],
            Some("must specify limits.cpu for: a,i; requests.memory for: a,i"),
        ),
        (
            json!({"containers": [asks("a", all)]}),
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
            json!({"containers": [asks("a", json!({"limits": {"cpu": "1"}}))]}),
            &["cpu", "limits.cpu"],
            Some("must specify cpu for: a"),
        ),
        (
            json!({"containers": [asks("a", json!({"requests": {"cpu": "0"}}))]}),
            &["cpu"],
            None,
        ),
        (
            json!({"containers": [asks("a", json!({}))]}),
            &[
                "pods",
                "requests.ephemeral-storage",
                "hugepages-2Mi",
                "requests.example.com/gpu",
            ],
            None,
        ),
        (
            json!({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}, "containers": [asks("a", json!({}))]}),
            &["cpu"],
            None,
        ),
        (
            json!({"resources": {"limits": {"example.com/a": "1"}}, "containers": [asks("a", json!({}))]}),
            &["cpu"],
            Some("must specify cpu for: a"),
        ),
    ];
    for (spec, names, want) in table {
        let pod = json!({"spec": spec});
        let got = pods().missing(&required(names), object(&pod));
        assert_eq!(got.as_deref(), want, "{pod}");
    }
    let other = meter("", "services").missing(&required(&["cpu"]), &Object::new());
    assert_eq!(other, None);
}

#[test]
fn updates_count_where_they_may_cost_more() {
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
        let minds = meter("", plural).minds_update(subresource, object(old), object(new));
        assert_eq!(minds, want, "{plural}/{subresource}: {old} to {new}");
    }
    let claims = meter("resource.k8s.io", "resourceclaims");
    assert!(claims.minds_update("", object(&plain), object(&plain)));
    assert!(!claims.minds_update("status", object(&plain), object(&plain)));
}

#[test]
fn what_is_none_of_these_objects_counts_as_one_that_has_nothing() {
    let odd = json!({"metadata": 1, "spec": "?", "status": true});
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
        let meter = meter(group, plural);
        let charge = meter.measure(object(&odd));
        assert_eq!(charge.amounts.to_string(), want);
        meter
            .measure_json(odd.to_string().as_bytes())
            .expect_err("it is none");
    }
}
