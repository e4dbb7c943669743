//! What the simulation may do, where it has an account of its own.

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::Request;
use rhumb_client::Error;
use serde_json::{Value, json};

use crate::nodes::LEASES;
use crate::requests::Server;

/// Its service account, in `kube-system`.
pub const ACCOUNT: &str = "simulated-nodes";

const ROLE: &str = "rhumb:simulated-nodes";
const GROUP: &str = "rbac.authorization.k8s.io";

/// Gives the account the rights that it needs, and no other: leases of nodes, but not those by which others lead.
/// `client` must have them all, or be allowed to grant them. Clusters without simulated nodes have no such roles.
pub async fn grant(client: &Client) -> Result<(), Error> {
    let server = Server::new(client.clone());
    let leases = format!("namespaces/{LEASES}/");
    for (place, kind, rules) in [
        ("", "ClusterRole", everywhere()),
        (&*leases, "Role", on_leases()),
    ] {
        let plural = format!("{place}{}s", kind.to_lowercase());
        put(&server, &plural, kind, json!({"rules": rules})).await?;
        let plural = format!("{place}{}bindings", kind.to_lowercase());
        let binding = json!({
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "kube-system"}],
        });
        put(&server, &plural, &format!("{kind}Binding"), binding).await?;
    }
    Ok(())
}

/// Makes it, or makes what is there like it.
async fn put(server: &Server, plural: &str, kind: &str, fields: Value) -> Result<(), Error> {
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
