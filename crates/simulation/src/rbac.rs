//! RBAC roles of the simulation's service account.

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::Request;
use rhumb_client::Error;
use serde_json::{Value, json};

use crate::api_client::ApiClient;
use crate::node_objects::LEASE_NAMESPACE;

/// The simulation's service account, in `kube-system`.
pub const SERVICE_ACCOUNT: &str = "simulated-nodes";

const ROLE: &str = "rhumb:simulated-nodes";
const GROUP: &str = "rbac.authorization.k8s.io";

/// Creates or updates the roles and bindings of the service account, with least privilege: node leases, but not leases
/// for leader election. `client` must have these permissions or the `escalate` verb. Called only if nodes are
/// simulated.
pub async fn grant(client: &Client) -> Result<(), Error> {
    let server = ApiClient::new(client.clone());
    let leases = format!("namespaces/{LEASE_NAMESPACE}/");
    for (identity, kind, rules) in [
        ("", "ClusterRole", everywhere()),
        (&*leases, "Role", on_leases()),
    ] {
        let plural = format!("{identity}{}s", kind.to_lowercase());
        put(&server, &plural, kind, json!({"rules": rules})).await?;
        let plural = format!("{identity}{}bindings", kind.to_lowercase());
        let binding = json!({
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": "kube-system"}],
        });
        put(&server, &plural, &format!("{kind}Binding"), binding).await?;
    }
    Ok(())
}

/// Creates the object, or patches the existing one.
async fn put(server: &ApiClient, plural: &str, kind: &str, fields: Value) -> Result<(), Error> {
    let mut object = fields;
    object["apiVersion"] = json!(format!("{GROUP}/v1"));
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": ROLE});
    let path = format!("/apis/{GROUP}/v1/{plural}");
    match server.create(&path, &object).await {
        Err(error) if error.is_conflict() => {
            let params = PatchParams::default();
            let patch = Patch::Merge(&object);
            let request = Request::new(&path).patch(ROLE, &params, &patch);
            server.send::<DynamicObject>(request).await?;
        }
        created => drop(created?),
    }
    Ok(())
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn everywhere() -> Value {
    json!([
        rule(
            "",
            &["nodes"],
            &["create", "delete", "get", "list", "patch", "watch"]
        ),
        rule("", &["nodes/status", "pods/status"], &["patch"]),
        rule("", &["pods"], &["delete", "list", "watch"]),
        rule("", &["events"], &["create"]),
    ])
}

fn on_leases() -> Value {
    json!([rule(
        "coordination.k8s.io",
        &["leases"],
        &["create", "delete", "patch"]
    )])
}
