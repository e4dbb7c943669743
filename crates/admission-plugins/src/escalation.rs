//! RBAC escalation check: users cannot grant permissions that they do not have. Upstream does this in the storage of
//! roles and bindings (`policybased`), not in a plugin.

use async_trait::async_trait;
use rhumb_api::JsonObject;
use rhumb_auth::rbac::{RbacKind, RbacWrite, check_escalation};
use rhumb_meta::Status;

use super::server_services::AttachedServices;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};

const GROUP: &str = "rbac.authorization.k8s.io";

#[derive(Debug)]
pub(super) struct RbacEscalationPlugin {
    services: AttachedServices,
}

impl RbacEscalationPlugin {
    pub(super) fn new(services: AttachedServices) -> RbacEscalationPlugin {
        RbacEscalationPlugin { services }
    }
}

#[async_trait]
impl AdmissionPlugin for RbacEscalationPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation && attributes.context.resource.kind.group == GROUP
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let context = attributes.context;
        let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
        let (true, Some(object)) = (is_write, object) else {
            return Ok(());
        };
        if context.resource.kind.group != GROUP || context.subresource.is_some() {
            return Ok(());
        }
        let Some(kind) = RbacKind::from_resource(&context.resource.kind.plural) else {
            return Ok(());
        };
        let write = RbacWrite {
            user: context.user,
            kind,
            namespace: context.namespace().unwrap_or_default(),
            request_name: if attributes.operation == Operation::Create {
                ""
            } else {
                context.name()
            },
            object,
            old: attributes.old_object,
        };
        check_escalation(&self.services.get()?.policy.policy(), &write)
    }
}
