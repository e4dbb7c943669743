use serde_json::{Value, json};

use crate::Gates;
use crate::gates::Feature;

/// Fills one object of a type in the core group, or of a full type name.
fn check(type_name: &str, given: Value, want: Value) {
    let full = if type_name.contains('.') {
        format!("io.k8s.api.{type_name}")
    } else {
        format!("io.k8s.api.core.v1.{type_name}")
    };
    let (_, fill) = super::TYPES
        .iter()
        .find(|(name, _)| *name == full)
        .expect(&full);
    let mut object = given.as_object().expect("an object").clone();
    fill(&mut object);
    assert_eq!(Value::Object(object), want, "{given}");
}

#[test]
fn namespaces_carry_their_name() {
    let labelled =
        |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    check(
        "Namespace",
        labelled("a", json!({"kubernetes.io/metadata.name": "b", "c": "d"})),
        labelled("a", json!({"kubernetes.io/metadata.name": "a", "c": "d"})),
    );
    let nameless = json!({"metadata": {"generateName": "a-"}});
    check("Namespace", nameless.clone(), nameless);
}

#[test]
fn the_label_of_namespaces_has_a_gate() {
    let off = Gates::default().with(Feature::NamespaceDefaultLabelName, false);
    let has_label =
        |gates: &Gates| super::super::by_type_for(gates).any(|(name, _)| name == super::NAMESPACE);
    assert!(has_label(&Gates::default()));
    assert!(!has_label(&off));
}

#[test]
fn secrets_take_text() {
    check(
        "Secret",
        json!({"data": {"a": "eA==", "b": "eA=="}, "stringData": {"b": "yz", "c": ""}}),
        json!({"data": {"a": "eA==", "b": "eXo=", "c": ""}, "type": "Opaque"}),
    );
    check("Secret", json!({"type": "x"}), json!({"type": "x"}));
}

#[test]
fn limits_of_containers_follow_from_each_other() {
    check(
        "LimitRangeItem",
        json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1"},
            "default": {"memory": "2"}}),
        json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1"},
            "default": {"cpu": "2", "memory": "2"}, "defaultRequest": {"cpu": "2", "memory": "2"}}),
    );
    let pod = json!({"type": "Pod", "max": {"cpu": "2"}});
    check("LimitRangeItem", pod.clone(), pod);
}

#[test]
fn amounts_are_no_finer_than_thousandths() {
    let fine = json!({"a": "999999u", "b": "1", "c": "0.5m", "d": "100n"});
    let round = json!({"a": "1", "b": "1", "c": "1m", "d": "1m"});
    for (name, list) in [
        ("ResourceQuotaSpec", "hard"),
        ("ResourceQuotaStatus", "hard"),
        ("ResourceQuotaStatus", "used"),
        ("LimitRangeItem", "max"),
        ("LimitRangeItem", "min"),
        ("LimitRangeItem", "default"),
        ("LimitRangeItem", "defaultRequest"),
        ("LimitRangeItem", "maxLimitRequestRatio"),
        ("PersistentVolumeSpec", "capacity"),
        ("VolumeResourceRequirements", "requests"),
        ("PersistentVolumeClaimStatus", "allocatedResources"),
    ] {
        check(name, json!({list: fine}), json!({list: round}));
    }
    check(
        "LimitRangeItem",
        json!({"type": "Container", "max": {"cpu": "1.0005"}}),
        json!({"type": "Container", "max": {"cpu": "1001m"}, "default": {"cpu": "1001m"},
            "defaultRequest": {"cpu": "1001m"}}),
    );
}

#[test]
fn services_are_filled_by_their_type() {
    let plain =
        json!({"sessionAffinity": "None", "type": "ClusterIP", "internalTrafficPolicy": "Cluster"});
    check("Service", json!({}), json!({"spec": plain}));
    check(
        "Service",
        json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP",
            "ports": [{"port": 80}, {"port": 81, "targetPort": "web", "protocol": "UDP"}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "a"}]}}}),
        json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80},
                {"port": 81, "targetPort": "web", "protocol": "UDP"}],
            "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
            "allocateLoadBalancerNodePorts": true},
            "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1", "ipMode": "VIP"}, {"hostname": "a"}]}}}),
    );
    let name =
        json!({"spec": {"type": "ExternalName", "sessionAffinity": "None", "externalName": "a"}});
    check("Service", name.clone(), name);
}

#[test]
fn policies_say_what_they_are_about() {
    let policy = |spec: Value| json!({"spec": spec});
    check(
        "networking.v1.NetworkPolicy",
        policy(json!({})),
        policy(json!({"policyTypes": ["Ingress"]})),
    );
    check(
        "networking.v1.NetworkPolicy",
        policy(json!({"egress": [{}]})),
        policy(json!({"egress": [{}], "policyTypes": ["Ingress", "Egress"]})),
    );
    let egress = policy(json!({"egress": [{}], "policyTypes": ["Egress"]}));
    check("networking.v1.NetworkPolicy", egress.clone(), egress);
}

#[test]
fn bindings_are_within_their_group() {
    let group = "rbac.authorization.k8s.io";
    check(
        "rbac.v1.RoleBinding",
        json!({"roleRef": {"kind": "Role"}}),
        json!({"roleRef": {"kind": "Role", "apiGroup": group}}),
    );
    check(
        "rbac.v1.Subject",
        json!({"kind": "User"}),
        json!({"kind": "User", "apiGroup": group}),
    );
    let account = json!({"kind": "ServiceAccount"});
    check("rbac.v1.Subject", account.clone(), account);
}

#[test]
fn absent_is_not_empty_where_it_matters() {
    check(
        "discovery.v1.EndpointPort",
        json!({}),
        json!({"name": "", "protocol": "TCP"}),
    );
    let empty = json!({"preemptionPolicy": ""});
    check("scheduling.v1.PriorityClass", empty.clone(), empty);
}

#[test]
fn storage_is_filled() {
    check(
        "PersistentVolume",
        json!({}),
        json!({"status": {"phase": "Pending"},
            "spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}}),
    );
    check(
        "storage.v1.StorageClass",
        json!({"reclaimPolicy": "Retain"}),
        json!({"reclaimPolicy": "Retain", "volumeBindingMode": "Immediate"}),
    );
    check(
        "storage.v1.CSIDriver",
        json!({"spec": {"attachRequired": false}}),
        json!({"spec": {"attachRequired": false, "podInfoOnMount": false, "storageCapacity": false,
            "fsGroupPolicy": "ReadWriteOnceWithFSType", "volumeLifecycleModes": ["Persistent"],
            "requiresRepublish": false, "seLinuxMount": false}}),
    );
}
