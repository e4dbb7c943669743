//! Resolves method and path to verb and resource (upstream: `RequestInfoFactory`).

use http::Method;
use rhumb_meta::fields;

use super::query::{QueryParameters, decode_path};

/// Verb and resource of a request, for authorization, audit log and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, …; for non-resource paths the method in lower case.
    pub verb: &'static str,
    /// The path without its query.
    pub path: String,
    /// `None` for paths outside `/api/<version>/` and `/apis/<group>/<version>/`.
    pub resource_path: Option<ResourcePath>,
    /// The name that the field selector of a list or watch requires. Only authorization uses it, as the resource name.
    pub selected_name: Option<String>,
    /// Whether the request is long-running: a watch, or a connection to a node.
    pub long_running: bool,
}

/// The parts of a path below `/api/<version>` or `/apis/<group>/<version>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    pub namespace: Option<String>,
    pub resource: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// Path segments after the subresource, for proxy requests.
    pub rest: Vec<String>,
    /// Whether the path ends with a slash, which proxied servers may distinguish.
    pub has_trailing_slash: bool,
}

/// A discovery path: one that names a group or version, but no resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiscoveryPath<'a> {
    /// `/api`
    LegacyRoot,
    /// `/apis`
    GroupsRoot,
    /// `/apis/<group>`
    Group(&'a str),
    /// `/api/v1` (group empty), `/apis/<group>/<version>`
    GroupVersion(&'a str, &'a str),
}

impl<'a> DiscoveryPath<'a> {
    pub fn parse(path: &'a str) -> Option<DiscoveryPath<'a>> {
        let mut parts = path.split('/').skip(1).filter(|part| !part.is_empty());
        let root = parts.next()?;
        let (first, second, third) = (parts.next(), parts.next(), parts.next());
        match (root, first, second, third) {
            ("api", None, _, _) => Some(DiscoveryPath::LegacyRoot),
            ("api", Some(version), None, _) => Some(DiscoveryPath::GroupVersion("", version)),
            ("apis", None, _, _) => Some(DiscoveryPath::GroupsRoot),
            ("apis", Some(group), None, _) => Some(DiscoveryPath::Group(group)),
            ("apis", Some(group), Some(version), None) => {
                Some(DiscoveryPath::GroupVersion(group, version))
            }
            _ => None,
        }
    }
}

impl RequestInfo {
    pub fn new(method: &Method, path: &str, query: &QueryParameters) -> RequestInfo {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        match ResourcePath::parse(path) {
            // The legacy `watch` prefix is valid for reads only.
            Some((target, legacy_watch)) if is_read || !legacy_watch => {
                let verb = verb(method, &target, legacy_watch, query);
                RequestInfo {
                    verb,
                    path: path.to_owned(),
                    selected_name: selected_name(method, &target, legacy_watch, query),
                    long_running: verb == "watch" || is_node_connection(method, &target, query),
                    resource_path: Some(target),
                }
            }
            _ => RequestInfo {
                verb: method_name(method),
                path: path.to_owned(),
                resource_path: None,
                selected_name: None,
                long_running: false,
            },
        }
    }

    pub fn namespace(&self) -> Option<&str> {
        self.resource_path.as_ref()?.namespace.as_deref()
    }

    pub fn name(&self) -> Option<&str> {
        self.resource_path.as_ref()?.name.as_deref()
    }
}

impl ResourcePath {
    /// Parses a path; the flag says whether it has the legacy `watch` prefix.
    fn parse(path: &str) -> Option<(ResourcePath, bool)> {
        // As upstream does, the path is decoded before it is split, so an escaped slash separates segments.
        let path = decode_path(path)?;
        let mut parts = path.trim_matches('/').split('/');
        let (group, version) = match parts.next()? {
            "api" => ("", parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let mut resource = parts.next()?;
        let legacy_watch = resource == "watch";
        if legacy_watch {
            resource = parts.next()?;
        }
        let mut namespace = None;
        if resource == "namespaces" {
            let mut rest_of_path = parts.clone();
            namespace = rest_of_path.next();
            let (inner, after) = (rest_of_path.next(), rest_of_path.clone().next());
            let own_subresource = after.is_none() && matches!(inner, Some("status" | "finalize"));
            if let Some(inner) = inner.filter(|_| !own_subresource) {
                resource = inner;
                parts = rest_of_path;
            }
        }
        let mut parts = parts.map(str::to_owned);
        let target = ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.map(str::to_owned),
            resource: resource.to_owned(),
            name: parts.next(),
            subresource: parts.next(),
            rest: parts.collect(),
            has_trailing_slash: path.ends_with('/'),
        };
        Some((target, legacy_watch))
    }
}

fn verb(
    method: &Method,
    target: &ResourcePath,
    legacy_watch: bool,
    query: &QueryParameters,
) -> &'static str {
    let has_name = target.name.is_some();
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if has_name => "delete",
        Method::DELETE => "deletecollection",
        Method::GET | Method::HEAD => {
            if legacy_watch || (!has_name && query.flag("watch")) {
                "watch"
            } else if has_name {
                "get"
            } else {
                "list"
            }
        }
        _ => method_name(method),
    }
}

/// Whether a request is a long-running connection to a node.
fn is_node_connection(method: &Method, target: &ResourcePath, query: &QueryParameters) -> bool {
    match target.subresource.as_deref() {
        Some("exec" | "attach" | "portforward" | "proxy") => {
            matches!(*method, Method::GET | Method::POST)
        }
        Some("log") => *method == Method::GET && query.flag("follow"),
        _ => false,
    }
}

fn selected_name(
    method: &Method,
    target: &ResourcePath,
    legacy_watch: bool,
    query: &QueryParameters,
) -> Option<String> {
    if target.name.is_some() || legacy_watch || !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let selector = fields::Selector::parse(query.text("fieldSelector")).ok()?;
    let name = selector.requires_exact_match("metadata.name")?;
    let is_segment = !matches!(name, "" | "." | "..") && !name.contains(['/', '%']);
    is_segment.then(|| name.to_owned())
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        Method::CONNECT => "connect",
        Method::TRACE => "trace",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: Method, uri: &str) -> RequestInfo {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        RequestInfo::new(&method, path, &QueryParameters::parse(query).unwrap())
    }

    /// `verb group/version namespace resource name subresource`, `-` for what is absent.
    fn check(method: Method, uri: &str, expect: &str) {
        let info = info(method, uri);
        let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let got = match &info.resource_path {
            None => format!("{} none", info.verb),
            Some(target) => format!(
                "{} {}/{} {} {} {} {}",
                info.verb,
                target.group,
                target.version,
                dash(&target.namespace),
                target.resource,
                dash(&target.name),
                dash(&target.subresource)
            ),
        };
        assert_eq!(got, expect, "{uri}");
    }

    #[test]
    fn paths_and_methods_are_parsed_as_upstream_does() {
        check(Method::GET, "/api/v1/pods", "list /v1 - pods - -");
        check(Method::GET, "/api/v1/pods?watch=1", "watch /v1 - pods - -");
        check(
            Method::GET,
            "/api/v1/pods?watch=false",
            "list /v1 - pods - -",
        );
        check(Method::GET, "/api/v1/watch/pods", "watch /v1 - pods - -");
        check(
            Method::GET,
            "/api/v1/namespaces/a/pods/p",
            "get /v1 a pods p -",
        );
        check(
            Method::GET,
            "/api/v1/namespaces/a/pods/p/log",
            "get /v1 a pods p log",
        );
        check(
            Method::GET,
            "/api/v1/namespaces/a",
            "get /v1 a namespaces a -",
        );
        check(
            Method::PUT,
            "/api/v1/namespaces/a/finalize",
            "update /v1 a namespaces a finalize",
        );
        check(
            Method::GET,
            "/api/v1/namespaces/a/status",
            "get /v1 a namespaces a status",
        );
        check(
            Method::GET,
            "/api/v1/namespaces",
            "list /v1 - namespaces - -",
        );
        check(
            Method::POST,
            "/apis/apps/v1/namespaces/a/deployments",
            "create apps/v1 a deployments - -",
        );
        check(
            Method::DELETE,
            "/apis/apps/v1/namespaces/a/deployments",
            "deletecollection apps/v1 a deployments - -",
        );
        check(
            Method::DELETE,
            "/apis/apps/v1/namespaces/a/deployments/d",
            "delete apps/v1 a deployments d -",
        );
        check(
            Method::PATCH,
            "/api/v1/nodes/n/status",
            "patch /v1 - nodes n status",
        );
        check(Method::GET, "/api/v1/nodes/a%2Fb", "get /v1 - nodes a b");
        check(Method::GET, "/api/v1/nodes/a%zz", "get none");
        check(Method::GET, "/api/v1", "get none");
        check(Method::GET, "/apis/apps/v1", "get none");
        check(Method::GET, "/healthz", "get none");
        check(Method::POST, "/version", "post none");
    }

    #[test]
    fn the_legacy_watch_prefix_is_only_for_reads() {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let name = method.as_str().to_ascii_lowercase();
            for path in ["/api/v1/watch/pods", "/apis/apps/v1/watch/deployments/d"] {
                check(method.clone(), path, &format!("{name} none"));
            }
        }
        check(
            Method::GET,
            "/apis/apps/v1/watch/namespaces/a/deployments/d",
            "watch apps/v1 a deployments d -",
        );
    }

    #[test]
    fn watches_and_node_connections_are_long_running() {
        for (method, uri, expect) in [
            (Method::GET, "/api/v1/pods?watch=1", true),
            (Method::GET, "/api/v1/watch/pods", true),
            (Method::GET, "/api/v1/pods", false),
            (Method::DELETE, "/api/v1/pods?watch=1", false),
            (Method::GET, "/api/v1/namespaces/a/pods/p/exec", true),
            (Method::POST, "/api/v1/namespaces/a/pods/p/attach", true),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/p/portforward",
                true,
            ),
            (Method::PUT, "/api/v1/namespaces/a/pods/p/exec", false),
            (Method::GET, "/api/v1/nodes/n/proxy/stats", true),
            (Method::DELETE, "/api/v1/nodes/n/proxy/stats", false),
            (Method::GET, "/api/v1/namespaces/a/pods/p/log", false),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/p/log?follow=0",
                false,
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/p/log?follow=true",
                true,
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/p/log?follow=true",
                false,
            ),
            (Method::PATCH, "/api/v1/namespaces/a/pods/p/status", false),
        ] {
            assert_eq!(info(method, uri).long_running, expect, "{uri}");
        }
    }

    #[test]
    fn a_metadata_name_field_selector_names_the_object() {
        for (method, uri, expect) in [
            (
                Method::GET,
                "/api/v1/pods?fieldSelector=metadata.name%3Da",
                Some("a"),
            ),
            (
                Method::GET,
                "/api/v1/pods?watch=1&fieldSelector=metadata.name=a,spec.nodeName=b",
                Some("a"),
            ),
            (
                Method::GET,
                "/api/v1/pods?fieldSelector=metadata.name!%3Da",
                None,
            ),
            (
                Method::GET,
                "/api/v1/pods?fieldSelector=metadata.name%3Da/b",
                None,
            ),
            (
                Method::GET,
                "/api/v1/pods/b?fieldSelector=metadata.name%3Da",
                None,
            ),
            (
                Method::GET,
                "/api/v1/watch/pods?fieldSelector=metadata.name%3Da",
                None,
            ),
            (
                Method::DELETE,
                "/api/v1/pods?fieldSelector=metadata.name%3Da",
                None,
            ),
        ] {
            let info = info(method, uri);
            assert_eq!(info.selected_name.as_deref(), expect, "{uri}");
        }
    }
}
