//! Restricts who may write `NetworkPolicyNode` objects: the agent of a node only writes the report of that node, as
//! NodeRestriction has it for kubelets. RBAC alone cannot say this. Upstream has no such plugin.

use async_trait::async_trait;
use rhumb_api::JsonObject;
use rhumb_auth::{Attributes, User, extra_key, group, name};
use rhumb_meta::Status;

use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use rhumb_registry::objects::ObjectMetadata;

const GROUP: &str = "networking.rhumb.dev";
const REPORTS: &str = "networkpolicynodes";
/// Who has this verb may write the reports of all nodes.
const VERB: &str = "report-any-node";

#[derive(Debug)]
pub(super) struct NetworkPolicyReportPlugin;

#[async_trait]
impl AdmissionPlugin for NetworkPolicyReportPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation && attributes.is_resource(GROUP, REPORTS)
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let Some(report) = object.or(attributes.old_object) else {
            return Ok(());
        };
        let user = attributes.context.user;
        let bound = bound_node(user);
        let changes_report = match (attributes.operation, attributes.old_object, object) {
            (Operation::Delete, ..) => false,
            (_, Some(old), Some(new)) => !differ_in_metadata_only(old, new),
            _ => true,
        };
        // Controllers delete reports and edit owners, which RBAC allows them.
        let is_allowed = bound == Some(report.name())
            || (bound.is_none() && !changes_report)
            || may_write_any(attributes, report.name());
        if is_allowed {
            return Ok(());
        }
        let identity = match bound {
            Some(node) => format!("this identity is bound to node {node:?}"),
            None => "this identity is bound to no node: use a token that is bound to the Node or to a pod on it".to_owned(),
        };
        let reason = format!(
            "an agent may write only the report of its own node, unless it is allowed to {VERB} {REPORTS}; {identity}"
        );
        Err(attributes.forbidden(object, reason))
    }
}

/// The node that a token is bound to, directly or by its pod, or that a kubelet's certificate names.
fn bound_node(user: &User) -> Option<&str> {
    let of_token = user.extra.get(extra_key::NODE_NAME);
    if let Some(node) = of_token.and_then(|values| values.first()) {
        return Some(node);
    }
    let is_kubelet = user.groups.iter().any(|member| member == group::NODES);
    user.name
        .strip_prefix(name::NODE_PREFIX)
        .filter(|_| is_kubelet)
}

fn may_write_any(attributes: &AdmissionAttributes<'_>, name: &str) -> bool {
    let request = Attributes {
        api_version: "*",
        name,
        ..Attributes::resource(attributes.context.user, VERB, GROUP, REPORTS)
    };
    let authorizer = &attributes.context.registry.authorizer;
    authorizer.authorize(&request).require(&request).is_ok()
}

fn differ_in_metadata_only(old: &JsonObject, new: &JsonObject) -> bool {
    let has_same = |one: &JsonObject, other: &JsonObject| {
        let mut fields = one.iter().filter(|(name, _)| *name != "metadata");
        fields.all(|(name, value)| other.get(name) == Some(value))
    };
    has_same(old, new) && has_same(new, old)
}

#[cfg(test)]
mod tests {
    use rhumb_registry::testing::object;
    use serde_json::json;

    use super::*;

    #[test]
    fn agents_are_bound_to_nodes_by_tokens_and_certificates() {
        let user = |name: &str, group: &str, node: Option<&str>| User {
            name: name.to_owned(),
            groups: vec![group.to_owned()],
            extra: node
                .map(|node| (extra_key::NODE_NAME.to_owned(), vec![node.to_owned()]))
                .into_iter()
                .collect(),
            ..User::default()
        };
        for (user, node) in [
            (user("system:serviceaccount:x:y", "a", Some("n")), Some("n")),
            (user("system:serviceaccount:x:y", "a", None), None),
            (user("system:node:n", "system:nodes", None), Some("n")),
            (user("system:node:n", "a", None), None),
        ] {
            assert_eq!(bound_node(&user), node, "{user:?}");
        }
    }

    #[test]
    fn changes_of_metadata_are_distinguished_from_changes_of_reports() {
        let old = object(json!({"metadata": {"name": "a"}, "agent": "x"}));
        for (new, is_metadata_only) in [
            (json!({"metadata": {"name": "b"}, "agent": "x"}), true),
            (json!({"metadata": {"name": "a"}, "agent": "y"}), false),
            (json!({"metadata": {"name": "a"}}), false),
            (json!({"agent": "x", "problem": "p"}), false),
        ] {
            assert_eq!(
                differ_in_metadata_only(&old, &object(new.clone())),
                is_metadata_only,
                "{new}"
            );
        }
    }
}
