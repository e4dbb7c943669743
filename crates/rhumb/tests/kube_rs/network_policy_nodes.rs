//! NetworkPolicyNode objects: the reports of network policy agents.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Client, Discovery, ResourceExt};
use serde_json::{Value, json};

use crate::make::{object, refusal};
use crate::requests::{TABLE, get_as};
use crate::support::TestServer;

fn reports(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("networking.rhumb.dev", "v1alpha1", "NetworkPolicyNode");
    Api::all_with(
        client.clone(),
        &ApiResource::from_gvk_with_plural(&kind, "networkpolicynodes"),
    )
}

fn report(applied: Value) -> DynamicObject {
    object(json!({
        "apiVersion": "networking.rhumb.dev/v1alpha1", "kind": "NetworkPolicyNode", "metadata": {"name": "node-a"},
        "agent": "rhumb 0.1.0", "versions": ["1.3", "1.8"], "applied": applied,
        "unimplemented": [{"feature": "SCTP", "message": "the kernel has none"}],
    }))
}

fn policy(name: &str, generation: i64) -> Value {
    json!({"namespace": "x", "name": name, "uid": "u", "generation": generation})
}

#[tokio::test]
async fn report_is_created_by_update_and_replaced_by_the_next() {
    let server = TestServer::start();
    let client = server.client().await;
    let reports = reports(&client);
    let params = PostParams::default();
    for applied in [
        json!([policy("a", 1)]),
        json!([policy("a", 2), policy("b", 1)]),
    ] {
        let written = reports
            .replace("node-a", &params, &report(applied.clone()))
            .await;
        assert_eq!(written.expect("an update").data["applied"], applied);
    }
    let problem = Patch::Merge(json!({"problem": "nft: busy"}));
    let patched = reports
        .patch("node-a", &PatchParams::default(), &problem)
        .await;
    assert_eq!(patched.expect("a patch").data["problem"], "nft: busy");
    let listed = reports.list(&ListParams::default()).await.expect("reports");
    let names: Vec<String> = listed.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["node-a"]);

    let path = "/apis/networking.rhumb.dev/v1alpha1/networkpolicynodes";
    let table = get_as(&client, path, TABLE).await.object();
    let mut cells = table["rows"][0]["cells"].clone();
    cells[5].take();
    let want = json!([
        "node-a",
        "1.3,1.8",
        2,
        "nft: busy",
        "<unknown>",
        null,
        "rhumb 0.1.0",
        "SCTP"
    ]);
    assert_eq!(cells, want);
    reports
        .delete("node-a", &DeleteParams::default())
        .await
        .expect("a deletion");
    assert!(
        reports
            .get_opt("node-a")
            .await
            .expect("an answer")
            .is_none()
    );
}

#[tokio::test]
async fn empty_and_duplicate_report_entries_are_rejected() {
    let server = TestServer::start();
    let reports = reports(&server.client().await);
    let params = PostParams::default();
    let twice = json!([policy("a", 1), policy("a", 2), {"namespace": "x"}]);
    let refused = refusal(reports.create(&params, &report(twice)).await);
    assert_eq!(refused.code, 422);
    for want in [
        "applied[1]: Duplicate value",
        "applied[2].name: Required value",
    ] {
        assert!(refused.message.contains(want), "{}", refused.message);
    }
}

#[tokio::test]
async fn kind_is_found_by_discovery() {
    let server = TestServer::start();
    let discovery = Discovery::new(server.client().await);
    let found = discovery.run().await.expect("a discovery");
    let group = found.get("networking.rhumb.dev").expect("the group");
    let (resource, capabilities) = group
        .recommended_kind("NetworkPolicyNode")
        .expect("the kind");
    assert_eq!(resource.plural, "networkpolicynodes");
    assert_eq!(capabilities.scope, kube::discovery::Scope::Cluster);
    let group = found.get("networking.k8s.io").expect("the group");
    let (_, capabilities) = group.recommended_kind("NetworkPolicy").expect("the kind");
    let subresources = capabilities.subresources.iter();
    let subresources: Vec<&str> = subresources
        .map(|(resource, _)| resource.plural.as_str())
        .collect();
    assert_eq!(subresources, ["status"]);
}

/// A client with the token of an agent, bound to an object.
async fn agent(server: &TestServer, bound_to: Value) -> Client {
    let client = server.client().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "kube-system");
    let request: TokenRequest =
        object(json!({"spec": {"audiences": [], "boundObjectRef": bound_to}}));
    let token: TokenRequest = accounts
        .create_subresource(
            "token",
            "network-policy-agent",
            &PostParams::default(),
            &request,
        )
        .await
        .expect("a token");
    let user = json!({"token": token.status.expect("a status").token});
    server
        .client_with(|config| config.auth_info = object(user))
        .await
}

#[tokio::test]
async fn an_agent_writes_only_the_report_of_its_node() {
    let server = TestServer::start();
    let client = server.client().await;
    let params = PostParams::default();
    let account = object(json!({"metadata": {"name": "network-policy-agent"}}));
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "kube-system");
    accounts
        .create(&params, &account)
        .await
        .expect("an account");
    let binding = object(json!({
        "metadata": {"name": "network-policy-agent"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:network-policy-agent",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "network-policy-agent", "namespace": "kube-system"}],
    }));
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&params, &binding).await.expect("a binding");
    let nodes: Api<Node> = Api::all(client.clone());
    let mut uids = Vec::new();
    for name in ["node-a", "node-b"] {
        let node = object(json!({"metadata": {"name": name}}));
        uids.push(nodes.create(&params, &node).await.expect("a node").uid());
    }

    let bound = json!({"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": uids[0]});
    let own = reports(&agent(&server, bound).await);
    let other = json!({"apiVersion": "v1", "kind": "Node", "name": "node-b", "uid": uids[1]});
    let other = reports(&agent(&server, other).await);
    let unbound = reports(&agent(&server, Value::Null).await);
    for (agent, name, reason) in [
        (&other, "a", "this identity is bound to node \"node-b\""),
        (&unbound, "b", "this identity is bound to no node"),
    ] {
        // Neither a new report nor one that exists.
        for generation in 1..=2 {
            let report = report(json!([policy(name, generation)]));
            let refused = refusal(agent.replace("node-a", &params, &report).await);
            assert_eq!(refused.code, 403, "{refused:?}");
            assert!(refused.message.contains(reason), "{}", refused.message);
            let written = own.replace("node-a", &params, &report).await;
            written.expect("its own report");
        }
    }
    let refused = refusal(other.delete("node-a", &DeleteParams::default()).await);
    assert_eq!(refused.code, 403, "{refused:?}");
    let deleted = own.delete("node-a", &DeleteParams::default()).await;
    deleted.expect("its own report");
    // An administrator may write any.
    let report = report(json!([]));
    let written = reports(&client).replace("node-a", &params, &report).await;
    written.expect("a report");
}
