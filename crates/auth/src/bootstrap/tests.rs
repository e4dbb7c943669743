use std::collections::BTreeSet;

use super::*;
use crate::authz::{Attributes, Authorizer as _};
use crate::rbac::RbacPolicyIndex;
use crate::user::{ServiceAccountName, User};

fn policy() -> RbacPolicyIndex {
    let index = RbacPolicyIndex::new();
    let objects = objects().expect("all objects are valid");
    let changes = objects
        .iter()
        .map(|it| (it.kind, it.namespace, it.name.as_str(), Some(&it.object)));
    index.apply_all(changes).expect("all objects are valid");
    index
}

#[test]
fn aggregated_roles_are_created_with_their_rules() {
    assert_eq!(policy().policy().stale_aggregates(), vec![]);
}

#[test]
fn bootstrap_policy_is_complete() {
    let objects = objects().expect("all objects are valid");
    let count = |kind| objects.iter().filter(|it| it.kind == kind).count();
    let counts = RbacKind::ALL.map(count);
    let (ours, our_controllers) = (
        rhumb_roles::CLUSTER_ROLES.len(),
        rhumb_roles::CONTROLLER_ROLES.len(),
    );
    let roles = 31 + 38 + ours + our_controllers;
    assert_eq!(counts, [roles, 12 + 38 + our_controllers, 7, 7]);
    let names: BTreeSet<_> = objects
        .iter()
        .map(|it| (it.kind, it.namespace, &it.name))
        .collect();
    assert_eq!(names.len(), objects.len(), "an object is declared twice");
    for object in &objects {
        if let Some(role) = object.object.get("roleRef") {
            let kind = if object.kind == RbacKind::RoleBinding {
                RbacKind::Role
            } else {
                RbacKind::ClusterRole
            };
            let name = role["name"].as_str().expect("a name").to_owned();
            assert!(
                names.contains(&(kind, object.namespace, &name)),
                "role {name} is not declared"
            );
        }
    }
}

#[test]
fn bootstrap_policy_allows_required_requests() {
    let index = policy();
    let policy = index.policy();
    let account = |name| {
        ServiceAccountName {
            namespace: "kube-system",
            name,
        }
        .username()
    };
    let scheduler = User::new("system:kube-scheduler", &[]);
    let gc = User::new(account("generic-garbage-collector"), &[]);
    let hpa = User::new(account("horizontal-pod-autoscaler"), &[]);
    let reporter = User::new(account("networkpolicy-status-controller"), &[]);
    let ann = User::new("ann", &["system:authenticated"]);
    let nobody = User::anonymous();
    let pods = |user, verb| Attributes {
        namespace: "x",
        ..Attributes::resource(user, verb, "", "pods")
    };
    let policies = |user, verb, subresource| Attributes {
        namespace: "x",
        subresource,
        ..Attributes::resource(user, verb, "networking.k8s.io", "networkpolicies")
    };
    let nodes =
        |user, verb| Attributes::resource(user, verb, "networking.rhumb.dev", "networkpolicynodes");
    let cases = [
        (pods(&scheduler, "list"), true),
        (pods(&scheduler, "create"), false),
        (
            Attributes {
                subresource: "binding",
                ..pods(&scheduler, "create")
            },
            true,
        ),
        (
            Attributes::resource(&gc, "delete", "any.io", "things"),
            true,
        ),
        (
            Attributes::resource(&gc, "create", "any.io", "things"),
            false,
        ),
        (
            Attributes {
                subresource: "scale",
                ..Attributes::resource(&hpa, "update", "a.io", "b")
            },
            true,
        ),
        (
            Attributes::resource(
                &ann,
                "create",
                "authorization.k8s.io",
                "selfsubjectaccessreviews",
            ),
            true,
        ),
        (policies(&reporter, "watch", ""), true),
        (policies(&reporter, "patch", "status"), true),
        (policies(&reporter, "patch", ""), false),
        (nodes(&reporter, "delete"), true),
        (nodes(&reporter, "update"), false),
        (pods(&ann, "list"), false),
        (Attributes::path(&ann, "get", "/apis/apps/v1"), true),
        (Attributes::path(&ann, "get", "/metrics"), false),
        (Attributes::path(&nobody, "get", "/healthz"), true),
        (Attributes::path(&nobody, "get", "/version"), true),
        (Attributes::path(&nobody, "get", "/api"), false),
    ];
    for (attributes, want) in cases {
        assert_eq!(
            policy.authorize(&attributes).is_allowed(),
            want,
            "{attributes:?}"
        );
    }
}

#[test]
fn admin_includes_edit_and_edit_includes_view() {
    let index = policy();
    let policy = index.policy();
    let rules = |name: &str| policy.aggregated_rules(name).expect("aggregated");
    let missing = |held: &str, wanted: &str| {
        crate::rbac::uncovered(&rules(held), &rules(wanted))
            .expect("few permissions")
            .len()
    };
    assert_eq!(missing("admin", "edit"), 0);
    assert_eq!(missing("edit", "view"), 0);
    assert_ne!(missing("view", "edit"), 0);
    assert_ne!(missing("edit", "admin"), 0);
}
