use serde_json::json;

use super::*;

fn fill(kind: &str) -> DefaultingFn {
    let suffix = format!(".{kind}");
    let found = DEFAULTERS.iter().find(|(name, _)| name.ends_with(&suffix));
    found.expect(kind).1
}

#[test]
fn absent_pod_fields_are_defaulted() {
    let table = [
        (
            "PodSpec",
            json!({}),
            json!({"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {},
                "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler"}),
        ),
        (
            "PodSpec",
            json!({"dnsPolicy": "None", "restartPolicy": "Never", "securityContext": {"runAsUser": 1},
                "terminationGracePeriodSeconds": 0, "schedulerName": "mine", "serviceAccount": "old"}),
            json!({"dnsPolicy": "None", "restartPolicy": "Never", "securityContext": {"runAsUser": 1},
                "terminationGracePeriodSeconds": 0, "schedulerName": "mine",
                "serviceAccount": "old", "serviceAccountName": "old"}),
        ),
        (
            "Container",
            json!({"image": "a:1"}),
            json!({"image": "a:1", "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}),
        ),
        (
            "Probe",
            json!({"periodSeconds": 0, "failureThreshold": 5}),
            json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 5}),
        ),
        (
            "HTTPGetAction",
            json!({"port": 1}),
            json!({"port": 1, "path": "/", "scheme": "HTTP"}),
        ),
        (
            "GRPCAction",
            json!({"port": 1}),
            json!({"port": 1, "service": ""}),
        ),
        ("ContainerPort", json!({}), json!({"protocol": "TCP"})),
        (
            "Volume",
            json!({"name": "v"}),
            json!({"name": "v", "emptyDir": {}}),
        ),
        (
            "Volume",
            json!({"name": "v", "image": {"reference": "a"}}),
            json!({"name": "v", "image": {"reference": "a", "pullPolicy": "Always"}}),
        ),
        (
            "HostPathVolumeSource",
            json!({"path": "/"}),
            json!({"path": "/", "type": ""}),
        ),
        ("SecretVolumeSource", json!({}), json!({"defaultMode": 420})),
        (
            "ProjectedVolumeSource",
            json!({"defaultMode": 0}),
            json!({"defaultMode": 0}),
        ),
        (
            "ServiceAccountTokenProjection",
            json!({}),
            json!({"expirationSeconds": 3600}),
        ),
        (
            "ISCSIVolumeSource",
            json!({}),
            json!({"iscsiInterface": "default"}),
        ),
        (
            "RBDVolumeSource",
            json!({}),
            json!({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
        ),
        (
            "AzureDiskVolumeSource",
            json!({"readOnly": true}),
            json!({"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": true}),
        ),
        (
            "ScaleIOVolumeSource",
            json!({}),
            json!({"storageMode": "ThinProvisioned", "fsType": "xfs"}),
        ),
        (
            "ObjectFieldSelector",
            json!({}),
            json!({"apiVersion": "v1"}),
        ),
        (
            "ResourceFieldSelector",
            json!({"resource": "limits.cpu"}),
            json!({"resource": "limits.cpu", "divisor": "0"}),
        ),
        (
            "ResourceRequirements",
            json!({"limits": {"cpu": "1u", "memory": "1Gi"}}),
            json!({"limits": {"cpu": "1m", "memory": "1Gi"}}),
        ),
        (
            "NodeStatus",
            json!({"capacity": {"cpu": "1"}}),
            json!({"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}}),
        ),
        (
            "ReplicationController",
            json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
            json!({"metadata": {"labels": {"a": "b"}},
                "spec": {"selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}}}}}),
        ),
        (
            "ReplicationControllerSpec",
            json!({"replicas": 0}),
            json!({"replicas": 0}),
        ),
    ];
    for (kind, mut object, want) in table {
        fill(kind)(object.as_object_mut().expect("an object"));
        assert_eq!(object, want, "{kind}");
    }
}

#[test]
fn requests_default_to_limits() {
    let table = [
        (
            json!({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}]}),
            json!({"enableServiceLinks": true, "containers": [{"resources": {
                "limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}}]}),
        ),
        (
            json!({"enableServiceLinks": false, "hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]}),
            json!({"enableServiceLinks": false, "hostNetwork": true,
                "containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]}),
        ),
        (
            json!({"enableServiceLinks": false, "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
                "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "500m"}}}]}),
            json!({"enableServiceLinks": false,
                "resources": {"limits": {"cpu": "4", "memory": "1Gi"}, "requests": {"cpu": "1500m", "memory": "1Gi"}},
                "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "500m"}}}]}),
        ),
    ];
    for (spec, want) in table {
        let mut pod = json!({ "spec": spec });
        fill("Pod")(pod.as_object_mut().expect("an object"));
        assert_eq!(pod["spec"], want);
    }
}
