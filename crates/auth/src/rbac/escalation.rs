//! Privilege escalation prevention (upstream: `policybased` storage of `pkg/registry/rbac`).
//!
//! A user who writes a role must hold all of its rules, or have the verb `escalate` on it. A user who writes a binding
//! must hold all rules of its role, or have the verb `bind` on that role. Entry point: [`check_escalation`].

use std::collections::BTreeSet;

use rhumb_meta::gotext::quote;
use rhumb_meta::{GroupResource, Status};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::objects::{RoleRef, StoredBinding, StoredRole};
use super::policy::RbacPolicy;
use super::rule::QuotedList;
use super::rule_coverage::{compact, uncovered};
use super::{GROUP, PolicyRule, RbacKind};
use crate::authz::{Attributes, Authorizer};
use crate::user::{User, group};

/// A create or update of a role or binding.
#[derive(Debug, Clone, Copy)]
pub struct RbacWrite<'a> {
    pub user: &'a User,
    pub kind: RbacKind,
    /// Empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name in the request path; empty for a create.
    pub request_name: &'a str,
    pub object: &'a Map<String, Value>,
    /// The existing object, for an update.
    pub old: Option<&'a Map<String, Value>>,
}

/// Checks that the write does not grant more than the user holds. The caller has already authorized the write itself.
pub fn check_escalation(policy: &RbacPolicy, write: &RbacWrite<'_>) -> Result<(), Status> {
    if write.user.is_in(group::MASTERS) {
        return Ok(());
    }
    if write
        .old
        .is_some_and(|old| differs_only_for_collection(write.object, old))
    {
        return Ok(());
    }
    match write.kind {
        RbacKind::ClusterRole | RbacKind::Role => check_role(policy, write),
        RbacKind::ClusterRoleBinding | RbacKind::RoleBinding => check_binding(policy, write),
    }
}

fn check_role(policy: &RbacPolicy, write: &RbacWrite<'_>) -> Result<(), Status> {
    let escalate = Attributes {
        api_version: "*",
        namespace: write.namespace,
        name: write.request_name,
        ..Attributes::resource(write.user, "escalate", GROUP, write.kind.resource())
    };
    if policy.authorize(&escalate).is_allowed() {
        return Ok(());
    }
    let role = read::<StoredRole>(write.object)?;
    confirm_no_escalation(policy, write, &role.rules)?;
    let old = write.old.map(read::<StoredRole>).transpose()?;
    let aggregates = role.has_selectors() || old.is_some_and(|old| old.has_selectors());
    if aggregates && confirm_no_escalation(policy, write, &full_authority()).is_err() {
        let message = "must have cluster-admin privileges to use the aggregationRule";
        return Err(refuse(write, message));
    }
    Ok(())
}

fn check_binding(policy: &RbacPolicy, write: &RbacWrite<'_>) -> Result<(), Status> {
    let role = read::<StoredBinding>(write.object)?.role_ref;
    let resource = match role.kind.as_str() {
        "ClusterRole" => RbacKind::ClusterRole.resource(),
        "Role" => RbacKind::Role.resource(),
        kind => {
            let message = format!("unsupported role reference kind: {}", quote(kind));
            return Err(Status::bad_request(message));
        }
    };
    let bind = Attributes {
        api_version: "*",
        namespace: write.namespace,
        name: &role.name,
        ..Attributes::resource(write.user, "bind", &role.api_group, resource)
    };
    if policy.authorize(&bind).is_allowed() {
        return Ok(());
    }
    let rules = policy
        .rules_of_reference(&role, write.namespace)
        .ok_or_else(|| missing_role(write.kind, &role))?;
    confirm_no_escalation(policy, write, &rules)
}

/// The 404 for a missing role. As upstream, it names the resource of the binding, not that of the role.
fn missing_role(kind: RbacKind, role: &RoleRef) -> Status {
    Status::not_found(&GroupResource::new(GROUP, kind.resource()), &role.name)
}

fn confirm_no_escalation(
    policy: &RbacPolicy,
    write: &RbacWrite<'_>,
    rules: &[PolicyRule],
) -> Result<(), Status> {
    let (held, missing_roles) = policy.rules_of_user(write.user, write.namespace);
    let missing = uncovered(&held, rules).map_err(|error| refuse(write, &error.to_string()))?;
    if missing.is_empty() {
        return Ok(());
    }
    let lines: BTreeSet<String> = compact(missing).iter().map(PolicyRule::to_string).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut message = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&write.user.name),
        QuotedList(&write.user.groups),
        lines.join("\n")
    );
    let unresolved = missing_roles.text();
    if !unresolved.is_empty() {
        message.push_str(&format!("; resolution errors: [{unresolved}]"));
    }
    Err(refuse(write, &message))
}

fn refuse(write: &RbacWrite<'_>, message: &str) -> Status {
    let name = metadata(write.object).and_then(|it| it.get("name"));
    let name = name.and_then(Value::as_str);
    let resource = GroupResource::new(GROUP, write.kind.resource());
    Status::forbidden(&resource, name.unwrap_or_default(), message)
}

fn full_authority() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    let resources = PolicyRule {
        api_groups: all(),
        resources: all(),
        verbs: all(),
        ..PolicyRule::default()
    };
    let paths = PolicyRule {
        non_resource_urls: all(),
        verbs: all(),
        ..PolicyRule::default()
    };
    [resources, paths]
}

fn read<'a, T: Deserialize<'a>>(object: &'a Map<String, Value>) -> Result<T, Status> {
    T::deserialize(object).map_err(|error| Status::bad_request(error.to_string()))
}

/// Whether the update changes only fields that the garbage collector changes; upstream's `IsOnlyMutatingGCFields`.
fn differs_only_for_collection(new: &Map<String, Value>, old: &Map<String, Value>) -> bool {
    const COLLECTION: [&str; 4] = ["ownerReferences", "finalizers", "selfLink", "managedFields"];
    let (new_metadata, old_metadata) = (metadata(new), metadata(old));
    same_but(&["metadata"], Some(new), Some(old))
        && same_but(&COLLECTION, new_metadata, old_metadata)
}

fn metadata(object: &Map<String, Value>) -> Option<&Map<String, Value>> {
    object.get("metadata").and_then(Value::as_object)
}

/// Whether two objects have equal fields, except for the skipped ones. A null field equals an absent one.
fn same_but(
    skipped: &[&str],
    one: Option<&Map<String, Value>>,
    other: Option<&Map<String, Value>>,
) -> bool {
    let none = Map::new();
    let (one, other) = (one.unwrap_or(&none), other.unwrap_or(&none));
    let is_within = |one: &Map<String, Value>, other: &Map<String, Value>| {
        one.iter().all(|(name, value)| {
            skipped.contains(&name.as_str()) || value.is_null() || other.get(name) == Some(value)
        })
    };
    is_within(one, other) && is_within(other, one)
}
