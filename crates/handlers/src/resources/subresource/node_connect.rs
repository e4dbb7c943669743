//! Subresources that need a connection to a node: `log`, `exec`, `attach`, `portforward`, `proxy`. Requests are checked
//! and admitted as upstream does, then fail with NotImplemented: this server does not connect to nodes.

use http::StatusCode;
use rhumb_api::JsonObject;
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{GroupKind, ObjectKey, Status, StatusReason};
use serde_json::Value;

use super::connect_options::connect_options;
use crate::http::{Reply, ResponseBody};
use crate::resources::ResourceRequest;
use rhumb_registry::admission::Operation;
use rhumb_registry::objects::ObjectMetadata;

/// Checks and admits the request; fails if the pod has no node, or because connections are not implemented.
pub(super) async fn connect(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let subresource = request.path.subresource.as_deref().unwrap_or_default();
    let name = match subresource {
        "proxy" => proxied_name(request.name()).ok_or_else(|| invalid_proxy_request(request))?,
        _ => request.name(),
    };
    let not_found = || Status::not_found(&request.resource.group_resource, name);
    let key = ObjectKey::new(request.namespace(), name).map_err(|_| not_found())?;
    if subresource == "log" {
        check_log_options(request)?;
    }
    let current = request.current_from_cache(&key).await;
    let object = current
        .map_err(|status| match status.is_not_found() {
            true => not_found(),
            false => status,
        })?
        .object;
    // Reading a log is a `get`, not a `connect`.
    if subresource != "log" {
        let mut options = connect_options(request)?;
        let attributes = request.admission_attributes(Operation::Connect, None, false);
        let admitted = request
            .registry
            .admission
            .admit(&attributes, Some(&mut options));
        admitted.await?;
    }
    let is_pod = request.resource.kind.plural == "pods";
    if is_pod && subresource == "log" {
        check_container(request.query.text("container"), &object)?;
        if node_name(&object).is_empty() {
            return Ok(empty_log());
        }
    }
    if is_pod && node_name(&object).is_empty() {
        return Err(Status::bad_request(format!(
            "pod {} does not have a host assigned",
            request.name()
        )));
    }
    let mut status = Status::internal_error(format_args!(
        "{subresource} of {} {:?} cannot be answered: this server does not connect to nodes",
        request.resource.kind.plural,
        key.as_str()
    ));
    status.code = StatusCode::NOT_IMPLEMENTED.as_u16().into();
    status.reason = StatusReason::from("NotImplemented");
    Err(status)
}

/// The name in `name`, `name:port` or `scheme:name:port` (upstream: `SplitSchemeNamePort`).
fn proxied_name(target: &str) -> Option<&str> {
    let parts: Vec<&str> = target.split(':').collect();
    let (scheme, name) = match parts.as_slice() {
        [name] | [name, _] => ("", *name),
        [scheme, name, _] => (*scheme, *name),
        _ => return None,
    };
    (matches!(scheme, "" | "http" | "https") && !name.is_empty()).then_some(name)
}

fn invalid_proxy_request(request: &ResourceRequest<'_>) -> Status {
    Status::bad_request(format!(
        "invalid {} request {:?}",
        request.resource.kind.singular,
        request.name()
    ))
}

fn node_name(pod: &JsonObject) -> &str {
    pod.get("spec")
        .and_then(|spec| spec.get("nodeName"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The empty log of a pod that is not scheduled.
fn empty_log() -> Reply {
    let mut reply = Reply::text(StatusCode::NO_CONTENT, "");
    reply.headers.clear();
    reply.body = ResponseBody::full("");
    reply
}

/// Numeric log options with their minimum and upstream's error detail.
const LOG_OPTION_MINIMUMS: &[(&str, i64, &str)] = &[
    ("tailLines", 0, "must be greater than or equal to 0"),
    ("limitBytes", 1, "must be greater than 0"),
    ("sinceSeconds", 1, "must be greater than 0"),
];

fn check_log_options(request: &ResourceRequest<'_>) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    for &(name, least, detail) in LOG_OPTION_MINIMUMS {
        let number = request
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
    Err(Status::invalid(&kind, request.name(), &errors))
}

/// Checks that the request names one container of the pod, or that the pod has only one.
fn check_container(container: &str, pod: &JsonObject) -> Result<(), Status> {
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
    fn proxied_names_may_have_scheme_and_port() {
        for (target, expect) in [
            ("n", Some("n")),
            ("n:10250", Some("n")),
            ("n:", Some("n")),
            ("https:n:10250", Some("n")),
            ("http:n:", Some("n")),
            (":n:1", Some("n")),
            ("ftp:n:21", None),
            (":1", None),
            ("", None),
            ("a:b:c:d", None),
        ] {
            assert_eq!(proxied_name(target), expect, "{target}");
        }
    }

    #[test]
    fn a_log_request_must_name_one_container() {
        let pod = |names: &[&str]| {
            let container_named = |name: &&str| json!({"name": name});
            let containers: Vec<Value> = names.iter().map(container_named).collect();
            let spec = json!({"containers": containers, "initContainers": [{"name": "first"}]});
            let pod = json!({"metadata": {"name": "p"}, "spec": spec});
            pod.as_object().expect("a JSON object").clone()
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
