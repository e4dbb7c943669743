//! The default RBAC roles and bindings of every cluster (upstream: `bootstrappolicy`).
//!
//! [`objects`] lists those of upstream v1.36 with its default feature gates, and rhumb's own. [`reconcile`] compares
//! them with the stored objects and returns the writes that are necessary. Aggregated roles are created with the rules
//! of the default roles that they select, so that they grant permissions before the controller that aggregates roles
//! runs; afterwards that controller alone writes their rules.

mod bindings;
mod cluster_roles;
mod controllers;
mod reconcile;
mod rhumb_roles;
mod role_declaration;

use serde_json::{Map, Value, json};

use self::bindings::{CLUSTER_BINDINGS, NAMESPACE_BINDINGS, NAMESPACE_ROLES};
use self::cluster_roles::CLUSTER_ROLES;
use self::controllers::{CONTROLLER_ROLE_PREFIX, CONTROLLER_ROLES};
use self::role_declaration::{RoleDeclaration, SubjectDeclaration, account};
use crate::rbac::{GROUP, InvalidRbacObjectError, RbacKind, RbacPolicyIndex};

pub use reconcile::{ReconcileAction, reconcile};

/// One default role or binding.
#[derive(Debug, Clone, PartialEq)]
pub struct BootstrapObject {
    pub kind: RbacKind,
    /// Empty for cluster-scoped kinds. The namespace must exist before the object is created.
    pub namespace: &'static str,
    pub name: String,
    pub object: Map<String, Value>,
}

/// All default objects: cluster roles first, then cluster role bindings, then namespaced roles and bindings.
pub fn objects() -> Result<Vec<BootstrapObject>, InvalidRbacObjectError> {
    let mut objects = declared_objects();
    add_aggregated_rules(&mut objects)?;
    Ok(objects)
}

/// Sets the rules of the aggregated cluster roles.
fn add_aggregated_rules(objects: &mut [BootstrapObject]) -> Result<(), InvalidRbacObjectError> {
    let index = RbacPolicyIndex::new();
    let is_cluster_role = |it: &&mut BootstrapObject| it.kind == RbacKind::ClusterRole;
    for role in objects.iter_mut().filter(is_cluster_role) {
        index.apply(role.kind, role.namespace, &role.name, Some(&role.object))?;
    }
    // A role that aggregates aggregated roles is complete once those are. Aggregation only adds, so this ends.
    loop {
        let stale = index.policy().stale_aggregates();
        if stale.is_empty() {
            return Ok(());
        }
        for (name, rules) in stale {
            let mut roles = objects.iter_mut().filter(is_cluster_role);
            if let Some(role) = roles.find(|role| role.name == name) {
                role.object.insert("rules".to_owned(), json!(rules));
                index.apply(role.kind, role.namespace, &name, Some(&role.object))?;
            }
        }
    }
}

fn declared_objects() -> Vec<BootstrapObject> {
    let mut objects = Vec::new();
    for declared in CLUSTER_ROLES.iter().chain(rhumb_roles::CLUSTER_ROLES) {
        objects.push(role_object(
            RbacKind::ClusterRole,
            "",
            declared.name.to_owned(),
            declared,
        ));
    }
    for declared in controller_roles() {
        let name = format!("{CONTROLLER_ROLE_PREFIX}{}", declared.name);
        objects.push(role_object(RbacKind::ClusterRole, "", name, declared));
    }
    for (name, subjects) in CLUSTER_BINDINGS {
        objects.push(binding_object(
            RbacKind::ClusterRoleBinding,
            "",
            name,
            name,
            subjects,
        ));
    }
    for declared in controller_roles() {
        let name = format!("{CONTROLLER_ROLE_PREFIX}{}", declared.name);
        let subjects = [account("kube-system", declared.name)];
        objects.push(binding_object(
            RbacKind::ClusterRoleBinding,
            "",
            &name,
            &name,
            &subjects,
        ));
    }
    for (namespace, declared) in NAMESPACE_ROLES {
        objects.push(role_object(
            RbacKind::Role,
            namespace,
            declared.name.to_owned(),
            declared,
        ));
    }
    for (namespace, name, role, subjects) in NAMESPACE_BINDINGS {
        objects.push(binding_object(
            RbacKind::RoleBinding,
            namespace,
            name,
            role,
            subjects,
        ));
    }
    objects
}

fn controller_roles() -> impl Iterator<Item = &'static RoleDeclaration> {
    CONTROLLER_ROLES.iter().chain(rhumb_roles::CONTROLLER_ROLES)
}

fn role_object(
    kind: RbacKind,
    namespace: &'static str,
    name: String,
    declared: &RoleDeclaration,
) -> BootstrapObject {
    object(kind, namespace, name, declared.label(), declared.fields())
}

fn binding_object(
    kind: RbacKind,
    namespace: &'static str,
    name: &str,
    role: &str,
    subjects: &[SubjectDeclaration],
) -> BootstrapObject {
    let role_kind = match kind {
        RbacKind::RoleBinding => RbacKind::Role,
        _ => RbacKind::ClusterRole,
    };
    let subjects: Vec<Value> = subjects.iter().map(SubjectDeclaration::value).collect();
    let mut fields = json!({
        "roleRef": {"apiGroup": GROUP, "kind": role_kind.as_str(), "name": role},
    });
    if !subjects.is_empty() {
        fields["subjects"] = Value::Array(subjects);
    }
    object(kind, namespace, name.to_owned(), None, fields)
}

fn object(
    kind: RbacKind,
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
