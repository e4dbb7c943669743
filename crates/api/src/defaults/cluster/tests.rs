use serde_json::{Value, json};

use crate::FeatureGates;
use crate::feature_gates::Feature;

/// Applies the defaults of a core type, or of a fully qualified type name.
fn check(type_name: &str, given: Value, want: Value) {
    let full = if type_name.contains('.') {
        format!("io.k8s.api.{type_name}")
    } else {
        format!("io.k8s.api.core.v1.{type_name}")
    };
    let (_, fill) = super::DEFAULTERS
        .iter()
        .find(|(name, _)| *name == full)
        .expect(&full);
    let mut object = given.as_object().expect("an object").clone();
    fill(&mut object);
    assert_eq!(Value::Object(object), want, "{given}");
}

#[test]
fn namespaces_get_the_name_label() {
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
fn namespace_name_label_depends_on_the_gate() {
    let off = FeatureGates::default().with(Feature::NamespaceDefaultLabelName, false);
    let has_label = |gates: &FeatureGates| {
        super::super::enabled_by_type(gates).any(|(name, _)| name == super::NAMESPACE)
    };
    assert!(has_label(&FeatureGates::default()));
    assert!(!has_label(&off));
}

#[test]
fn secret_string_data_is_encoded() {
    check(
        "Secret",
        json!({"data": {"a": "eA==", "b": "eA=="}, "stringData": {"b": "yz", "c": ""}}),
        json!({"data": {"a": "eA==", "b": "eXo=", "c": ""}, "type": "Opaque"}),
    );
    check("Secret", json!({"type": "x"}), json!({"type": "x"}));
}

#[test]
fn container_limit_range_defaults_are_derived() {
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
fn quantities_are_rounded_up_to_milli() {
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
fn services_are_defaulted_by_type() {
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
fn policy_types_are_defaulted() {
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
fn rbac_api_groups_are_defaulted() {
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
fn only_absent_fields_are_defaulted() {
    check(
        "discovery.v1.EndpointPort",
        json!({}),
        json!({"name": "", "protocol": "TCP"}),
    );
    let empty = json!({"preemptionPolicy": ""});
    check("scheduling.v1.PriorityClass", empty.clone(), empty);
}

#[test]
fn storage_objects_are_defaulted() {
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
