//! Authorizes requests and routes them to resources, discovery, OpenAPI, health, metrics and other endpoints.

use parking_lot::Mutex;

use http::header::{ACCEPT, CACHE_CONTROL};
use http::{Method, StatusCode};
use rhumb_auth::token::{CONFIGURATION_PATH, KEYS_PATH};
use rhumb_auth::{AllowReason, Attributes, Authorizer, User};
use rhumb_meta::Status;

use super::handler_chain::{AuthorizedRequest, HttpService};
use super::{version, websocket};
use rhumb_handlers::http::{Reply, ResponseBody, generic_status};
use rhumb_handlers::request::{DiscoveryPath, RequestInfo, ResourcePath};
use rhumb_handlers::resources::{ResourceRequest, open_watch};
use rhumb_handlers::{ServerState, discovery};
use rhumb_registry::{RequestContext, RequestOptions, RequestOrigin, Resource, ResourceTable};

/// Authorizes any request, resource or not.
pub(super) fn authorize(
    state: &ServerState,
    user: &User,
    info: &RequestInfo,
) -> Result<AllowReason, Status> {
    let attributes = attributes(user, info);
    state
        .policy
        .policy()
        .authorize(&attributes)
        .require(&attributes)
}

pub(crate) fn attributes<'a>(user: &'a User, info: &'a RequestInfo) -> Attributes<'a> {
    match &info.resource_path {
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

pub(super) async fn dispatch(
    service: &HttpService,
    request: AuthorizedRequest<'_>,
) -> Result<Reply, Status> {
    let state = &service.state;
    if request.info.resource_path.is_some() {
        return serve_resource(service, request).await;
    }
    let is_read = matches!(request.method, Method::GET | Method::HEAD);
    if let Some(path) = DiscoveryPath::parse(&request.info.path) {
        return serve_discovery(state, &request, &path);
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
            let checks = &service.health;
            let reply = checks.serve(state, &request.info.path, request.query);
            Ok(reply.await.unwrap_or_else(not_found))
        }
        "metrics" if is_read && request.info.path == "/metrics" => {
            Ok(service
                .metrics
                .serve(state, &service.inflight, service.audit.as_deref()))
        }
        "openid" | ".well-known" if is_read => {
            Ok(openid_document(state, &request.info.path).unwrap_or_else(not_found))
        }
        "version" if request.method == Method::GET => {
            Ok(Reply::json(StatusCode::OK, &version::document()))
        }
        "version" => Err(generic_status::method_not_allowed()),
        "openapi" if is_read => Ok(rhumb_handlers::openapi::serve(
            state,
            &request.info.path,
            request.query,
            &request.headers,
        )
        .await
        .unwrap_or_else(|| Reply::empty(StatusCode::NOT_FOUND))),
        "" if is_read => Ok(Reply::json(
            StatusCode::OK,
            &serde_json::json!({"paths": root_paths(&state.registry.resources())}),
        )),
        _ => Ok(not_found()),
    }
}

fn serve_discovery(
    state: &ServerState,
    request: &AuthorizedRequest,
    path: &DiscoveryPath<'_>,
) -> Result<Reply, Status> {
    let resources = state.registry.resources();
    if let DiscoveryPath::Group(group) | DiscoveryPath::GroupVersion(group, _) = path
        && !has_group(&resources, group)
    {
        return Ok(not_found());
    }
    let reply = discovery::discover(&resources, path, &request.headers, &state.public_address);
    // The list of groups is served for every method, as upstream does.
    if reply.is_some() && *path != DiscoveryPath::GroupsRoot && request.method != Method::GET {
        return Err(generic_status::method_not_allowed());
    }
    reply.unwrap_or_else(|| Err(generic_status::not_found()))
}

fn has_group(resources: &ResourceTable, group: &str) -> bool {
    group.is_empty()
        || resources
            .iter()
            .any(|resource| resource.kind.group == group)
}

/// The paths listed at `/`.
fn root_paths(resources: &ResourceTable) -> Vec<String> {
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
    for resource in resources
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

/// OpenID discovery document and key set, by which others verify service account tokens.
fn openid_document(state: &ServerState, path: &str) -> Option<Reply> {
    let verifier = state.authenticator.service_accounts()?;
    let (content_type, document) = match path {
        CONFIGURATION_PATH => {
            let keys = format!("https://{}{KEYS_PATH}", state.public_address);
            ("application/json", verifier.configuration(&keys))
        }
        KEYS_PATH => ("application/jwk-set+json", verifier.key_set()),
        _ => return None,
    };
    let body = ResponseBody::full(document.to_string());
    Some(
        Reply::new(StatusCode::OK, content_type, body)
            .header(CACHE_CONTROL, "public, max-age=3600"),
    )
}

async fn serve_resource(
    service: &HttpService,
    mut request: AuthorizedRequest<'_>,
) -> Result<Reply, Status> {
    let state = &service.state;
    let upgrade = request.upgrade.take();
    let resources = state.registry.resources();
    let Some(target) = &request.info.resource_path else {
        return Ok(not_found());
    };
    if !has_group(&resources, &target.group) {
        return Ok(not_found());
    }
    let Some(resource) = resources.find(&target.group, &target.resource) else {
        return Err(generic_status::not_found());
    };
    let Some(version) = resource.version(&target.version) else {
        return Err(generic_status::not_found());
    };
    let subresource = match &target.subresource {
        None => None,
        Some(name) => match resource
            .kind
            .subresources
            .iter()
            .find(|subresource| *subresource.name == **name)
        {
            Some(subresource) => Some(subresource),
            None => return Err(generic_status::not_found()),
        },
    };
    if has_invalid_scope(resource, target) {
        return Err(generic_status::not_found());
    }
    if request.method == Method::HEAD {
        return Err(generic_status::method_not_allowed());
    }
    let context = RequestContext {
        registry: &state.registry,
        resources: &resources,
        resource,
        version,
        subresource,
        namespace: target.namespace.as_deref(),
        name: target.name.as_deref().unwrap_or_default(),
        verb: request.info.verb,
        options: RequestOptions {
            field_manager: request.query.text("fieldManager"),
            field_validation: request.query.text("fieldValidation"),
        },
        user: &request.user,
        now: request.now,
        origin: RequestOrigin::Client,
        warnings: Mutex::default(),
        audit_annotations: request.is_audited.then(Mutex::default),
        audits_bodies: request.recorder.is_some(),
        in_flight_permit: request.permit.as_deref(),
    };
    let resource_request = ResourceRequest {
        state,
        context,
        path: target,
        query: request.query,
        headers: &request.headers,
        body: request.body.clone(),
        audit_recorder: request.recorder,
    };
    if let Some(upgrade) = upgrade
        && resource_request.verb == "watch"
        && resource_request.supports_verb()
    {
        let stream = open_watch(&resource_request).await?;
        return websocket::serve(&service.sockets, &request.headers, upgrade, stream);
    }
    let mut reply = match resource_request.dispatch().await {
        Ok(Some(reply)) => reply,
        Ok(None) => return Err(generic_status::method_not_allowed()),
        Err(status) => Reply::status_for(&status, request.headers.get(ACCEPT)),
    };
    reply.annotations = resource_request.take_annotations();
    let warnings = resource_request.take_warnings();
    Ok(reply.with_warnings(warnings.iter().map(String::as_str)))
}

/// Whether the path addresses a resource in the wrong scope (namespaced or cluster-wide), or has extra segments.
fn has_invalid_scope(resource: &Resource, target: &ResourcePath) -> bool {
    let is_collection_of_namespace = matches!(
        target.subresource.as_deref(),
        Some("proxy" | "exec" | "attach" | "portforward")
    );
    let has_namespace = target.namespace.is_some();
    let misses_namespace = resource.kind.is_namespaced() && !has_namespace && target.name.is_some();
    let inside = !resource.kind.is_namespaced() && has_namespace && target.resource != "namespaces";
    misses_namespace || inside || (!target.rest.is_empty() && !is_collection_of_namespace)
}

fn not_found() -> Reply {
    Reply::text(StatusCode::NOT_FOUND, "404 page not found\n")
}
