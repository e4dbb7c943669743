//! Controllers that write what follows from other objects: rules of aggregated cluster roles, type checks of policies.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::make::object;
use crate::program::NO_CONTROLLERS;
use crate::support::TestServer;
use crate::waiting::wait_for;

fn resources(role: &ClusterRole) -> Vec<String> {
    let rules = role.rules.iter().flatten();
    rules
        .filter_map(|rule| rule.resources.clone())
        .flatten()
        .collect()
}

#[tokio::test]
async fn aggregated_cluster_roles_follow_what_they_select() {
    let server = TestServer::start_with(&["--controllers=clusterrole-aggregation-controller"]);
    let roles: Api<ClusterRole> = Api::all(server.client().await);
    let params = PostParams::default();
    let create = async |name: &str, mut role: Value| {
        role["metadata"]["name"] = json!(name);
        roles.create(&params, &object(role)).await.expect("a role");
    };
    let grants = |label: &str, resource: &str| {
        json!({
            "metadata": {"labels": {label: "true"}},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}],
        })
    };
    let selects = |label: &str| json!([{"matchLabels": {label: "true"}}]);
    create(
        "sum",
        json!({"aggregationRule": {"clusterRoleSelectors": selects("to-sum")}}),
    )
    .await;
    create(
        "total",
        json!({"aggregationRule": {"clusterRoleSelectors": selects("to-total")}}),
    )
    .await;
    create("a", grants("to-sum", "nodes")).await;
    create("b", grants("to-sum", "pods")).await;
    let both = |role: &ClusterRole| resources(role) == ["nodes", "pods"];
    wait_for(&roles, "sum", both).await;
    // A role that aggregates an aggregated role.
    let label = Patch::Merge(json!({"metadata": {"labels": {"to-total": "true"}}}));
    let labelled = roles.patch("sum", &PatchParams::default(), &label).await;
    labelled.expect("a patch");
    wait_for(&roles, "total", both).await;
    let deleted = roles.delete("a", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    wait_for(&roles, "total", |role| resources(role) == ["pods"]).await;
}

/// Users may have been given these roles, whether or not a controller runs.
#[tokio::test]
async fn default_aggregated_roles_grant_permissions_without_controllers() {
    let server = TestServer::start_with(&[NO_CONTROLLERS]);
    let roles: Api<ClusterRole> = Api::all(server.client().await);
    for (role, resource) in [
        ("view", "pods"),
        ("edit", "secrets"),
        ("admin", "rolebindings"),
    ] {
        let role = roles.get(role).await.expect("a role");
        let resources = resources(&role);
        assert!(resources.iter().any(|own| own == resource), "{resources:?}");
    }
}

#[tokio::test]
async fn type_errors_are_reported_in_the_policy_status() {
    let controller = "--controllers=validatingadmissionpolicy-status-controller";
    let server = TestServer::start_with(&[controller]);
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(server.client().await);
    let policy = object(json!({
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["deployments"],
            }]},
            "validations": [
                {"expression": "object.spec.replicas > 1"},
                {"expression": "object.spec.replicasWrong > 1"},
            ],
        },
    }));
    let created = policies.create(&PostParams::default(), &policy).await;
    created.expect("a policy");
    let status = async |generation: i64| {
        let is_checked = |policy: &ValidatingAdmissionPolicy| {
            let status = policy.status.as_ref();
            status.and_then(|status| status.observed_generation) == Some(generation)
        };
        json!(wait_for(&policies, "p", is_checked).await.status)
    };
    let checked = status(1).await;
    let warnings = &checked["typeChecking"]["expressionWarnings"];
    assert_eq!(warnings.as_array().map(Vec::len), Some(1), "{checked}");
    assert_eq!(warnings[0]["fieldRef"], "spec.validations[1].expression");
    assert_eq!(
        warnings[0]["warning"],
        "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicasWrong'\n | object.spec.replicasWrong > 1\n | ...........^\n"
    );
    let corrected = Patch::Merge(json!({
        "spec": {"validations": [{"expression": "object.spec.replicas > 1"}]},
    }));
    let patched = policies
        .patch("p", &PatchParams::default(), &corrected)
        .await;
    patched.expect("a patch");
    let checked = status(2).await;
    assert_eq!(checked["typeChecking"], json!({}), "{checked}");
}
