//! Logs, shells and proxies: what only the node of a pod could answer.

use http::StatusCode;
use rhumb_meta::{Status, StatusReason};

use crate::admission::Operation;
use crate::http::Reply;
use crate::resources::Call;

/// Says what is missing: a node for the pod, or a way to reach it.
pub(super) async fn answer(call: &Call<'_>) -> Result<Reply, Status> {
    let key = call.key()?;
    let current = call.current(&key).await?;
    let subresource = call.target.subresource.as_deref().unwrap_or_default();
    // Reading a log connects to nothing.
    if subresource != "log" {
        let attributes = call.attributes(Operation::Connect, None, false);
        call.api.admission.admit(&attributes, None).await?;
    }
    if call.resource.kind.plural == "pods" {
        let node = current
            .object
            .get("spec")
            .and_then(|spec| spec.get("nodeName"));
        if node
            .and_then(|node| node.as_str())
            .unwrap_or_default()
            .is_empty()
        {
            return Err(Status::bad_request(format!(
                "pod {} does not have a host assigned",
                call.name()
            )));
        }
    }
    let mut status = Status::internal_error(format_args!(
        "{subresource} of {} {:?} cannot be answered: this server does not connect to nodes",
        call.resource.kind.plural,
        key.as_str()
    ));
    status.code = StatusCode::NOT_IMPLEMENTED.as_u16().into();
    status.reason = StatusReason::from("NotImplemented");
    Err(status)
}
