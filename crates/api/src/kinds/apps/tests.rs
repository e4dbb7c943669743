//! Tests of the validation errors of workloads.

use serde_json::{Value, json};

use super::{controller_revision, daemon_set, deployment, replica_set, stateful_set};
use crate::validation_helpers::testing::{
    check_create, check_status_update, check_update, created, defaulted, updated, warnings, with,
};

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{
                "name": "web",
                "image": "web:1",
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler",
            "securityContext": {},
        },
    })
}

fn workload() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template()},
    })
}

#[test]
fn deployments_are_validated_on_create() {
    let check = |path: &str, value: Value, expect: &[&str]| {
        check_create(&deployment::kind(), &with(&workload(), path, value), expect);
    };
    check("spec.replicas", json!(3), &[]);
    check(
        "spec.replicas",
        json!(-1),
        &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    );
    check(
        "spec.selector",
        Value::Null,
        &[
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
        ],
    );
    check(
        "spec.selector",
        json!({}),
        &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
    );
    check(
        "spec.selector.matchLabels.app",
        json!("db"),
        &[
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
        ],
    );
    check(
        "spec.template.spec.restartPolicy",
        json!("Never"),
        &[
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ],
    );
    check(
        "spec.template.spec.activeDeadlineSeconds",
        json!(5),
        &[
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
        ],
    );
    check(
        "spec.strategy",
        json!({"type": "Recreate", "rollingUpdate": {}}),
        &[
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ],
    );
    check(
        "spec.strategy",
        json!({"type": "Slow"}),
        &[
            "spec.strategy: Unsupported value: {\"Type\":\"Slow\",\"RollingUpdate\":null}: supported values: \"Recreate\", \"RollingUpdate\"",
        ],
    );
    check(
        "spec.strategy",
        json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}),
        &[
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ],
    );
    check(
        "spec.strategy",
        json!({"rollingUpdate": {"maxUnavailable": "150%", "maxSurge": "much"}}),
        &[
            "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"much\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"150%\": must not be greater than 100%",
        ],
    );
    check(
        "spec.progressDeadlineSeconds",
        json!(0),
        &["spec.progressDeadlineSeconds: Invalid value: 0: must be greater than minReadySeconds"],
    );
}

#[test]
fn selector_is_immutable() {
    let changed = with(
        &with(&workload(), "spec.selector.matchLabels.app", json!("db")),
        "spec.template.metadata.labels.app",
        json!("db"),
    );
    let expect =
        ["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"db\"}}: field is immutable"];
    for kind in [deployment::kind(), replica_set::kind(), daemon_set::kind()] {
        check_update(&kind, &workload(), &workload(), &[]);
        check_update(&kind, &changed, &workload(), &expect);
    }
}

#[test]
fn status_replica_counts_do_not_exceed_replicas() {
    let kind = deployment::kind();
    let status = json!({"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": -1}});
    check_status_update(
        &kind,
        &status,
        &json!({}),
        &[
            "status.availableReplicas: Invalid value: -1: must be greater than or equal to 0",
            "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        ],
    );
    check_status_update(
        &kind,
        &json!({"status": {"collisionCount": 1}}),
        &json!({"status": {"collisionCount": 2}}),
        &["status.collisionCount: Invalid value: 1: cannot be decremented"],
    );
    check_status_update(
        &stateful_set::kind(),
        &json!({"status": {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2}}),
        &json!({}),
        &[
            "status.availableReplicas: Invalid value: 2: cannot be greater than status.readyReplicas",
        ],
    );
}

#[test]
fn names_invalid_for_pods_cause_a_warning() {
    let object = json!({"metadata": {"name": "a.b"}});
    let expect = "metadata.name: this is used in Pod names and hostnames, which can result in surprising \
                  behavior; a DNS label is recommended: [must not contain dots]";
    assert_eq!(warnings(&deployment::kind(), &object), [expect]);
    assert_eq!(warnings(&replica_set::kind(), &object), [expect]);
}

#[test]
fn annotation_change_increments_deployment_generation() {
    let kind = deployment::kind();
    let old = with(&workload(), "metadata.generation", json!(4));
    let generation =
        |object: &Value| updated(&kind, object, &old)["metadata"]["generation"].clone();
    assert_eq!(generation(&old), 4);
    let changed = with(&old, "metadata.annotations", json!({"a": "b"}));
    assert_eq!(generation(&changed), 5);
}

#[test]
fn pod_templates_are_validated() {
    let object = with(&workload(), "spec.template.spec.containers", json!([]));
    for kind in [
        deployment::kind(),
        replica_set::kind(),
        daemon_set::kind(),
        stateful_set::kind(),
    ] {
        check_create(
            &kind,
            &object,
            &["spec.template.spec.containers: Required value"],
        );
    }
}

#[test]
fn daemon_set_template_generation_counts_template_changes() {
    let kind = daemon_set::kind();
    let name = "deprecated.daemonset.template.generation";
    let generation = |object: crate::JsonObject| object["metadata"]["annotations"][name].clone();
    assert_eq!(generation(created(&kind, &workload())), "1");

    let old = with(&workload(), "metadata.annotations", json!({name: "4"}));
    assert_eq!(generation(updated(&kind, &workload(), &old)), "4");
    let changed = with(&workload(), "spec.template.spec.nodeName", json!("n"));
    assert_eq!(generation(updated(&kind, &changed, &old)), "5");
}

#[test]
fn daemon_set_update_strategy_is_validated() {
    let check = |strategy: Value, expect: &[&str]| {
        let object = with(&workload(), "spec.updateStrategy", strategy);
        check_create(&daemon_set::kind(), &object, expect);
    };
    check(json!({"type": "OnDelete"}), &[]);
    check(
        json!({"rollingUpdate": {"maxSurge": 1}}),
        &[
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
        ],
    );
    check(
        json!({"rollingUpdate": {"maxUnavailable": 0}}),
        &[
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
        ],
    );
}

#[test]
fn stateful_sets_are_validated_on_create() {
    let check = |path: &str, value: Value, expect: &[&str]| {
        let object = with(&workload(), path, value);
        check_create(&stateful_set::kind(), &object, expect);
    };
    check("spec.serviceName", json!("web"), &[]);
    check(
        "spec.podManagementPolicy",
        json!("Random"),
        &[
            "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
        ],
    );
    check(
        "spec.updateStrategy",
        json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
        &[
            "spec.updateStrategy.rollingUpdate: Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only allowed for updateStrategy 'RollingUpdate'",
        ],
    );
    check(
        "spec.persistentVolumeClaimRetentionPolicy",
        json!({"whenScaled": "Keep"}),
        &[
            "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"Keep\": supported values: \"Retain\", \"Delete\"",
        ],
    );
    check(
        "spec.ordinals",
        json!({"start": -1}),
        &["spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"],
    );
    check(
        "spec.serviceName",
        json!("a.b"),
        &["spec.serviceName: Invalid value: \"a.b\": must not contain dots"],
    );
}

#[test]
fn volume_claim_templates_are_validated_on_create_only() {
    let kind = stateful_set::kind();
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let object = with(&workload(), "spec.volumeClaimTemplates", json!([claim]));
    let expect = ["spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"];
    check_create(&kind, &object, &expect);
    check_update(&kind, &object, &object, &[]);
}

#[test]
fn pod_template_warnings_are_returned() {
    let note = "scheduler.alpha.kubernetes.io/critical-pod";
    let object = with(
        &workload(),
        "spec.template.metadata.annotations",
        json!({note: ""}),
    );
    let expect = format!(
        "spec.template.metadata.annotations[{note}]: non-functional in v1.16+; use the \"priorityClassName\" field instead"
    );
    for kind in [
        deployment::kind(),
        replica_set::kind(),
        daemon_set::kind(),
        stateful_set::kind(),
    ] {
        assert_eq!(warnings(&kind, &object), std::slice::from_ref(&expect));
    }
}

#[test]
fn only_some_stateful_set_fields_are_mutable() {
    let kind = stateful_set::kind();
    for name in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        let changed = with(&workload(), &format!("spec.{name}"), json!(7));
        check_update(&kind, &changed, &workload(), &[]);
    }
    let stored = with(&workload(), "spec.serviceName", json!(""));
    check_update(&kind, &workload(), &stored, &[]);
    let changed = with(&workload(), "spec.serviceName", json!("other"));
    let expect = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                  'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' \
                  and 'minReadySeconds' are forbidden";
    check_update(&kind, &changed, &workload(), &[expect]);
}

#[test]
fn workload_specs_are_defaulted() {
    let spec = |kind, object: &Value| defaulted(&kind, object)["spec"].clone();
    assert_eq!(
        spec(deployment::kind(), &json!({})),
        json!({
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
            },
        })
    );
    assert_eq!(
        spec(
            daemon_set::kind(),
            &json!({"spec": {"updateStrategy": {"type": "OnDelete"}}})
        ),
        json!({"revisionHistoryLimit": 10, "updateStrategy": {"type": "OnDelete"}})
    );
    assert_eq!(
        spec(stateful_set::kind(), &json!({})),
        json!({
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "replicas": 1,
            "revisionHistoryLimit": 10,
        })
    );
}

#[test]
fn controller_revision_data_is_required_and_immutable() {
    let kind = controller_revision::kind();
    check_create(&kind, &json!({"revision": 1, "data": {"a": 1}}), &[]);
    check_create(
        &kind,
        &json!({"revision": -1}),
        &[
            "revision: Invalid value: -1: must be greater than or equal to 0",
            "data: Required value: data is mandatory",
        ],
    );
    check_create(
        &kind,
        &json!({"data": [1]}),
        &["data: Required value: data must be a valid JSON object"],
    );
    check_update(
        &kind,
        &json!({"data": {"a": 2}}),
        &json!({"data": {"a": 1}}),
        &["data: Invalid value: {\"a\":2}: field is immutable"],
    );
}
