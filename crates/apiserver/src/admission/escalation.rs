//! Nobody grants through roles and bindings what they do not have.

use async_trait::async_trait;
use rhumb_api::Object;
use rhumb_auth::rbac::{Kind, Write, check_escalation};
use rhumb_meta::Status;

use super::{Attributes, Operation, Plugin, Step};

const GROUP: &str = "rbac.authorization.k8s.io";

#[derive(Debug)]
pub(super) struct Escalation;

#[async_trait]
impl Plugin for Escalation {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Validation && attributes.call.resource.kind.group == GROUP
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let call = attributes.call;
        let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
        let (true, Some(object)) = (is_write, object) else {
            return Ok(());
        };
        if call.resource.kind.group != GROUP || call.subresource.is_some() {
            return Ok(());
        }
        let Some(kind) = Kind::from_resource(&call.resource.kind.plural) else {
            return Ok(());
        };
        let write = Write {
            user: call.user,
            kind,
            namespace: call.namespace().unwrap_or_default(),
            request_name: if attributes.operation == Operation::Create {
                ""
            } else {
                call.name()
            },
            object,
            old: attributes.old,
        };
        check_escalation(&call.api.policy.policy(), &write)
    }
}
