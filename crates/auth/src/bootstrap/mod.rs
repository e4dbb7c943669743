//! The roles and bindings that every cluster begins with.
//!
//! They are those of v1.36 with its default feature gates, and those for what only rhumb has. Where a cluster already has them, [`reconcile`] says
//! what is missing.

mod bindings;
mod cluster_roles;
mod controllers;
mod declare;
mod ours;
mod reconcile;

use serde_json::{Map, Value, json};

use self::bindings::{CLUSTER_BINDINGS, NAMESPACE_BINDINGS, NAMESPACE_ROLES};
use self::cluster_roles::CLUSTER_ROLES;
use self::controllers::{CONTROLLER_ROLES, PREFIX};
use self::declare::{Role, Subject, account};
use crate::rbac::{GROUP, Kind};

pub use reconcile::{Reconciled, reconcile};

/// One object of the policy that every cluster begins with.
#[derive(Debug, Clone, PartialEq)]
pub struct BootstrapObject {
    pub kind: Kind,
    /// Empty for cluster-wide kinds. The namespaces must be there before.
    pub namespace: &'static str,
    pub name: String,
    pub object: Map<String, Value>,
}

/// All of them: cluster-wide roles first, then their bindings, then those of namespaces.
pub fn objects() -> Vec<BootstrapObject> {
    let mut objects = Vec::new();
    for declared in CLUSTER_ROLES.iter().chain(ours::CLUSTER_ROLES) {
        objects.push(role_object(
            Kind::ClusterRole,
            "",
            declared.name.to_owned(),
            declared,
        ));
    }
    for declared in controller_roles() {
        let name = format!("{PREFIX}{}", declared.name);
        objects.push(role_object(Kind::ClusterRole, "", name, declared));
    }
    for (name, subjects) in CLUSTER_BINDINGS {
        objects.push(binding_object(
            Kind::ClusterRoleBinding,
            "",
            name,
            name,
            subjects,
        ));
    }
    for declared in controller_roles() {
        let name = format!("{PREFIX}{}", declared.name);
        let subjects = [account("kube-system", declared.name)];
        objects.push(binding_object(
            Kind::ClusterRoleBinding,
            "",
            &name,
            &name,
            &subjects,
        ));
    }
    for (namespace, declared) in NAMESPACE_ROLES {
        objects.push(role_object(
            Kind::Role,
            namespace,
            declared.name.to_owned(),
            declared,
        ));
    }
    for (namespace, name, role, subjects) in NAMESPACE_BINDINGS {
        objects.push(binding_object(
            Kind::RoleBinding,
            namespace,
            name,
            role,
            subjects,
        ));
    }
    objects
}

fn controller_roles() -> impl Iterator<Item = &'static Role> {
    CONTROLLER_ROLES.iter().chain(ours::CONTROLLER_ROLES)
}

fn role_object(
    kind: Kind,
    namespace: &'static str,
    name: String,
    declared: &Role,
) -> BootstrapObject {
    object(kind, namespace, name, declared.label(), declared.fields())
}

fn binding_object(
    kind: Kind,
    namespace: &'static str,
    name: &str,
    role: &str,
    subjects: &[Subject],
) -> BootstrapObject {
    let role_kind = match kind {
        Kind::RoleBinding => Kind::Role,
        _ => Kind::ClusterRole,
    };
    let subjects: Vec<Value> = subjects.iter().map(Subject::value).collect();
    let mut fields = json!({
        "roleRef": {"apiGroup": GROUP, "kind": role_kind.as_str(), "name": role},
    });
    if !subjects.is_empty() {
        fields["subjects"] = Value::Array(subjects);
    }
    object(kind, namespace, name.to_owned(), None, fields)
}

fn object(
    kind: Kind,
    namespace: &'static str,
    name: String,
    label: Option<String>,
    fields: Value,
) -> BootstrapObject {
    let mut metadata = json!({
        "name": name,
        "annotations": {reconcile::AUTO_UPDATE: "true"},
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    });
    if let Some(label) = label {
        metadata["labels"][label] = json!("true");
    }
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(format!("{GROUP}/v1")));
    object.insert("kind".to_owned(), json!(kind.as_str()));
    object.insert("metadata".to_owned(), metadata);
    if let Value::Object(fields) = fields {
        object.extend(fields);
    }
    BootstrapObject {
        kind,
        namespace,
        name,
        object,
    }
}

#[cfg(test)]
mod tests;
