//! Which code answers a request, and what its user must be allowed for it.

use std::sync::Mutex;

use http::header::{ACCEPT, CACHE_CONTROL};
use http::{Method, StatusCode};
use rhumb_auth::token::{CONFIGURATION_PATH, KEYS_PATH};
use rhumb_auth::{Attributes, Authorizer, Grant, User};
use rhumb_meta::Status;

use super::pipeline::{Admitted, Service};
use super::{health, version, websocket};
use crate::http::{Body, Reply};
use crate::request::{ApiPath, RequestInfo};
use crate::resources::{Call, frames};
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
            name: target.name.as_deref().unwrap_or_default(),
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
        if !is_read {
            return Ok(method_not_allowed());
        }
        return discovery::discover(&api.registry, &path, &request.headers, &api.public_address)
            .unwrap_or_else(|| Ok(not_found()));
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
        "version" if is_read => Ok(Reply::json(StatusCode::OK, &version::document())),
        "openapi" if is_read => {
            Ok(
                crate::openapi::answer(api, &request.info.path, request.query, &request.headers)
                    .await
                    .unwrap_or_else(not_found),
            )
        }
        "" if is_read => Ok(Reply::json(
            StatusCode::OK,
            &serde_json::json!({"paths": paths(api)}),
        )),
        _ => Ok(not_found()),
    }
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
    let Some(resource) = api.registry.find(&target.group, &target.resource) else {
        return Ok(not_found());
    };
    let Some(version) = resource.version(&target.version) else {
        return Ok(not_found());
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
            None => return Ok(not_found()),
        },
    };
    if !resource.kind.is_namespaced()
        && target.namespace.is_some()
        && target.resource != "namespaces"
    {
        return Ok(not_found());
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
    };
    if let Some(upgrade) = upgrade
        && call.verb == "watch"
        && call.is_known()
    {
        let frames = frames(&call).await?;
        return websocket::serve(&service.sockets, &request.headers, upgrade, frames);
    }
    let reply = match call.answer().await {
        Ok(Some(reply)) => reply,
        Ok(None) => method_not_allowed(),
        Err(status) => Reply::status_for(&status, request.headers.get(ACCEPT)),
    };
    let warnings = call.take_warnings();
    Ok(reply.warn(warnings.iter().map(String::as_str)))
}

fn not_found() -> Reply {
    Reply::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn method_not_allowed() -> Reply {
    Reply::text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed")
}
