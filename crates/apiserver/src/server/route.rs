//! Which code answers a request, and what its user must be allowed for it.

use std::sync::Mutex;

use http::header::{ACCEPT, CACHE_CONTROL};
use http::{Method, StatusCode};
use rhumb_auth::token::{CONFIGURATION_PATH, KEYS_PATH};
use rhumb_auth::{Attributes, Authorizer, Grant, User};
use rhumb_meta::Status;

use super::pipeline::{Admitted, Service};
use super::{health, version, websocket};
use crate::http::{Body, Reply, generic};
use crate::request::{ApiPath, RequestInfo, Target};
use crate::resources::{Call, Resource, frames};
use crate::{Api, discovery};

/// Every request is asked for here, whatever it is for.
pub(super) fn authorize(api: &Api, user: &User, info: &RequestInfo) -> Result<Grant, Status> {
    let attributes = attributes(user, info);
    api.policy
        .policy()
        .authorize(&attributes)
        .require(&attributes)
}

pub(crate) fn attributes<'a>(user: &'a User, info: &'a RequestInfo) -> Attributes<'a> {
    match &info.target {
        None => Attributes::path(user, info.verb, &info.path),
        Some(target) => Attributes {
            api_version: &target.version,
            subresource: target.subresource.as_deref().unwrap_or_default(),
            namespace: target.namespace.as_deref().unwrap_or_default(),
            name: target
                .name
                .as_deref()
                .or(info.selected_name.as_deref())
                .unwrap_or_default(),
            ..Attributes::resource(user, info.verb, &target.group, &target.resource)
        },
    }
}

pub(super) async fn answer(service: &Service, request: Admitted<'_>) -> Result<Reply, Status> {
    let api = &service.api;
    if request.info.target.is_some() {
        return resource(service, request).await;
    }
    let is_read = matches!(request.method, Method::GET | Method::HEAD);
    if let Some(path) = ApiPath::parse(&request.info.path) {
        return discover(api, &request, &path);
    }
    let first = request
        .info
        .path
        .trim_matches('/')
        .split('/')
        .next()
        .unwrap_or_default();
    match first {
        "livez" | "readyz" | "healthz" if is_read => {
            Ok(health::answer(api, &request.info.path, request.query).unwrap_or_else(not_found))
        }
        "metrics" if is_read && request.info.path == "/metrics" => {
            Ok(service
                .metrics
                .answer(api, &service.inflight, service.audit.as_deref()))
        }
        "openid" | ".well-known" if is_read => {
            Ok(issuer_document(api, &request.info.path).unwrap_or_else(not_found))
        }
        "version" if request.method == Method::GET => {
            Ok(Reply::json(StatusCode::OK, &version::document()))
        }
        "version" => Err(generic::method_not_allowed()),
        "openapi" if is_read => {
            Ok(
                crate::openapi::answer(api, &request.info.path, request.query, &request.headers)
                    .await
                    .unwrap_or_else(|| Reply::empty(StatusCode::NOT_FOUND)),
            )
        }
        "" if is_read => Ok(Reply::json(
            StatusCode::OK,
            &serde_json::json!({"paths": paths(api)}),
        )),
        _ => Ok(not_found()),
    }
}

fn discover(api: &Api, request: &Admitted, path: &ApiPath<'_>) -> Result<Reply, Status> {
    if let ApiPath::Group(group) | ApiPath::GroupVersion(group, _) = path
        && !has_group(api, group)
    {
        return Ok(not_found());
    }
    let reply = discovery::discover(&api.registry, path, &request.headers, &api.public_address);
    // The list of groups is there whatever the method, as it is upstream.
    if reply.is_some() && *path != ApiPath::GroupsRoot && request.method != Method::GET {
        return Err(generic::method_not_allowed());
    }
    reply.unwrap_or_else(|| Err(generic::not_found()))
}

fn has_group(api: &Api, group: &str) -> bool {
    group.is_empty()
        || api
            .registry
            .iter()
            .any(|resource| resource.kind.group == group)
}

/// What there is, for someone who looks around.
fn paths(api: &Api) -> Vec<String> {
    let mut paths: Vec<String> = [
        CONFIGURATION_PATH,
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        KEYS_PATH,
        "/readyz",
        "/version",
    ]
    .iter()
    .map(|&path| path.to_owned())
    .collect();
    for resource in api
        .registry
        .iter()
        .filter(|resource| !resource.kind.group.is_empty())
    {
        paths.push(format!("/apis/{}", resource.kind.group));
        paths.extend(
            resource
                .versions
                .iter()
                .map(|version| format!("/apis/{}", version.api_version)),
        );
    }
    paths.sort();
    paths.dedup();
    paths
}

/// How others learn to check the tokens of service accounts.
fn issuer_document(api: &Api, path: &str) -> Option<Reply> {
    let verifier = api.authenticator.service_accounts()?;
    let (content_type, document) = match path {
        CONFIGURATION_PATH => {
            let keys = format!("https://{}{KEYS_PATH}", api.public_address);
            ("application/json", verifier.configuration(&keys))
        }
        KEYS_PATH => ("application/jwk-set+json", verifier.key_set()),
        _ => return None,
    };
    let body = Body::full(document.to_string());
    Some(
        Reply::new(StatusCode::OK, content_type, body)
            .header(CACHE_CONTROL, "public, max-age=3600"),
    )
}

async fn resource(service: &Service, mut request: Admitted<'_>) -> Result<Reply, Status> {
    let api = &service.api;
    let upgrade = request.upgrade.take();
    let Some(target) = &request.info.target else {
        return Ok(not_found());
    };
    if !has_group(api, &target.group) {
        return Ok(not_found());
    }
    let Some(resource) = api.registry.find(&target.group, &target.resource) else {
        return Err(generic::not_found());
    };
    let Some(version) = resource.version(&target.version) else {
        return Err(generic::not_found());
    };
    let subresource = match &target.subresource {
        None => None,
        Some(name) => match resource
            .kind
            .subresources
            .iter()
            .find(|subresource| subresource.name == name)
        {
            Some(subresource) => Some(subresource),
            None => return Err(generic::not_found()),
        },
    };
    if is_misplaced(resource, target) {
        return Err(generic::not_found());
    }
    if request.method == Method::HEAD {
        return Err(generic::method_not_allowed());
    }
    let call = Call {
        api,
        resource,
        version,
        subresource,
        target,
        verb: request.info.verb,
        query: request.query,
        headers: &request.headers,
        body: request.body.clone(),
        user: &request.user,
        now: request.now,
        warnings: Mutex::new(Vec::new()),
        annotations: request.is_audited.then(Mutex::default),
        is_own: false,
        place: request.place.as_deref(),
        recorder: request.recorder,
    };
    if let Some(upgrade) = upgrade
        && call.verb == "watch"
        && call.is_known()
    {
        let frames = frames(&call).await?;
        return websocket::serve(&service.sockets, &request.headers, upgrade, frames);
    }
    let mut reply = match call.answer().await {
        Ok(Some(reply)) => reply,
        Ok(None) => return Err(generic::method_not_allowed()),
        Err(status) => Reply::status_for(&status, request.headers.get(ACCEPT)),
    };
    reply.annotations = call.take_annotations();
    let warnings = call.take_warnings();
    Ok(reply.warn(warnings.iter().map(String::as_str)))
}

/// Whether a path has a resource of the server at a place where it never is.
fn is_misplaced(resource: &Resource, target: &Target) -> bool {
    let leads_on = matches!(
        target.subresource.as_deref(),
        Some("proxy" | "exec" | "attach" | "portforward")
    );
    let has_namespace = target.namespace.is_some();
    let outside = resource.kind.is_namespaced() && !has_namespace && target.name.is_some();
    let inside = !resource.kind.is_namespaced() && has_namespace && target.resource != "namespaces";
    outside || inside || (!target.rest.is_empty() && !leads_on)
}

fn not_found() -> Reply {
    Reply::text(StatusCode::NOT_FOUND, "404 page not found\n")
}
