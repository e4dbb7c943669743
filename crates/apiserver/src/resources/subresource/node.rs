//! Logs, shells and proxies: what only the node of a pod could answer.

use http::StatusCode;
use rhumb_api::Object;
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{GroupKind, Status, StatusReason};
use serde_json::Value;

use crate::admission::Operation;
use crate::http::{Body, Reply};
use crate::objects::Metadata;
use crate::resources::Call;

/// Says what is missing: a node for the pod, or a way to reach it.
pub(super) async fn answer(call: &Call<'_>) -> Result<Reply, Status> {
    let key = call.key()?;
    let subresource = call.target.subresource.as_deref().unwrap_or_default();
    if subresource == "log" {
        check_log_options(call)?;
    }
    let object = call.current(&key).await?.object;
    // Reading a log connects to nothing.
    if subresource != "log" {
        let attributes = call.attributes(Operation::Connect, None, false);
        call.api.admission.admit(&attributes, None).await?;
    }
    let is_pod = call.resource.kind.plural == "pods";
    if is_pod && subresource == "log" {
        check_container(call.query.text("container"), &object)?;
        if node_of(&object).is_empty() {
            return Ok(nothing());
        }
    }
    if is_pod && node_of(&object).is_empty() {
        return Err(Status::bad_request(format!(
            "pod {} does not have a host assigned",
            call.name()
        )));
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

fn node_of(pod: &Object) -> &str {
    pod.get("spec")
        .and_then(|spec| spec.get("nodeName"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A pod that has not run anywhere has said nothing.
fn nothing() -> Reply {
    let mut reply = Reply::text(StatusCode::NO_CONTENT, "");
    reply.headers.clear();
    reply.body = Body::full("");
    reply
}

/// The bounds of a log that a client may give, with the least that each can be.
const LOG_BOUNDS: &[(&str, i64, &str)] = &[
    ("tailLines", 0, "must be greater than or equal to 0"),
    ("limitBytes", 1, "must be greater than 0"),
    ("sinceSeconds", 1, "must be greater than 0"),
];

fn check_log_options(call: &Call<'_>) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    for &(name, least, detail) in LOG_BOUNDS {
        let number = call
            .query
            .get(name)
            .and_then(|text| text.parse::<i64>().ok());
        if let Some(number) = number.filter(|&number| number < least) {
            errors.push(Error::invalid(&Path::new(name), number, detail));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind::new("", "PodLogOptions");
    Err(Status::invalid(&kind, call.name(), &errors))
}

/// Whether it is clear which container of the pod is meant.
fn check_container(container: &str, pod: &Object) -> Result<(), Status> {
    let names = |list: &str| -> Vec<&str> {
        pod.get("spec")
            .and_then(|spec| spec.get(list))
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|container| container.get("name")?.as_str())
            .collect()
    };
    let main = names("containers");
    let all = [
        names("initContainers"),
        main.clone(),
        names("ephemeralContainers"),
    ]
    .concat();
    let pod = pod.name();
    match (container, main.len()) {
        ("", 1) => Ok(()),
        ("", 0) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod}"
        ))),
        ("", _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod}, choose one of: [{}]",
            all.join(" ")
        ))),
        (name, _) if all.contains(&name) => Ok(()),
        (name, _) => Err(Status::bad_request(format!(
            "container {name} is not valid for pod {pod}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_log_is_of_one_container() {
        let pod = |names: &[&str]| {
            let named = |name: &&str| json!({"name": name});
            let containers: Vec<Value> = names.iter().map(named).collect();
            let spec = json!({"containers": containers, "initContainers": [{"name": "first"}]});
            let pod = json!({"metadata": {"name": "p"}, "spec": spec});
            pod.as_object().expect("an object").clone()
        };
        let check = |container: &str, names: &[&str], expect: Result<(), &str>| {
            let got = check_container(container, &pod(names));
            assert_eq!(
                got.map_err(|status| status.message),
                expect.map_err(str::to_owned)
            );
        };
        check("", &["a"], Ok(()));
        check("first", &["a"], Ok(()));
        check("b", &["a"], Err("container b is not valid for pod p"));
        check("", &[], Err("a container name must be specified for pod p"));
        check(
            "",
            &["a", "b"],
            Err("a container name must be specified for pod p, choose one of: [first a b]"),
        );
    }
}
