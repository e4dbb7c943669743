//! Which resource a path names, and which verb a method means there.

use http::Method;
use rhumb_meta::fields;

use super::query::{Query, decode_path};

/// What a request is about: what authorization is asked for, and what the audit log and metrics name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, …; the method in lower case for what is not a resource.
    pub verb: &'static str,
    /// The path without its query.
    pub path: String,
    /// `None` for paths outside `/api/<version>/` and `/apis/<group>/<version>/`.
    pub target: Option<Target>,
    /// The one object that a list or watch is about by its field selector. Rights are asked for that name; to
    /// everything else it is a list.
    pub selected_name: Option<String>,
    /// Whether it has no end of its own, or one that only the client or a node knows.
    pub long_running: bool,
}

/// A path below a group and version, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub group: String,
    pub version: String,
    pub namespace: Option<String>,
    pub resource: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// What follows the subresource: the path of a proxy request.
    pub rest: Vec<String>,
}

/// Where in the tree of API paths a path stands when it names no resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiPath<'a> {
    /// `/api`
    LegacyRoot,
    /// `/apis`
    GroupsRoot,
    /// `/apis/<group>`
    Group(&'a str),
    /// `/api/v1` (group empty), `/apis/<group>/<version>`
    GroupVersion(&'a str, &'a str),
}

impl<'a> ApiPath<'a> {
    pub fn parse(path: &'a str) -> Option<ApiPath<'a>> {
        let mut parts = path.split('/').skip(1).filter(|part| !part.is_empty());
        let root = parts.next()?;
        let (first, second, third) = (parts.next(), parts.next(), parts.next());
        match (root, first, second, third) {
            ("api", None, _, _) => Some(ApiPath::LegacyRoot),
            ("api", Some(version), None, _) => Some(ApiPath::GroupVersion("", version)),
            ("apis", None, _, _) => Some(ApiPath::GroupsRoot),
            ("apis", Some(group), None, _) => Some(ApiPath::Group(group)),
            ("apis", Some(group), Some(version), None) => {
                Some(ApiPath::GroupVersion(group, version))
            }
            _ => None,
        }
    }
}

impl RequestInfo {
    pub fn new(method: &Method, path: &str, query: &Query) -> RequestInfo {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        match Target::parse(path) {
            // The old prefix is for watching, and nothing else.
            Some((target, legacy_watch)) if reads || !legacy_watch => {
                let verb = verb(method, &target, legacy_watch, query);
                RequestInfo {
                    verb,
                    path: path.to_owned(),
                    selected_name: selected_name(method, &target, legacy_watch, query),
                    long_running: verb == "watch" || connects(method, &target, query),
                    target: Some(target),
                }
            }
            _ => RequestInfo {
                verb: method_name(method),
                path: path.to_owned(),
                target: None,
                selected_name: None,
                long_running: false,
            },
        }
    }

    pub fn namespace(&self) -> Option<&str> {
        self.target.as_ref()?.namespace.as_deref()
    }

    pub fn name(&self) -> Option<&str> {
        self.target.as_ref()?.name.as_deref()
    }
}

impl Target {
    /// The target of a path, and whether it has the old `watch` prefix.
    fn parse(path: &str) -> Option<(Target, bool)> {
        // As upstream does, the path is decoded first and taken apart then: an escaped slash is a slash.
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
            let mut below = parts.clone();
            namespace = below.next();
            let (inner, after) = (below.next(), below.clone().next());
            let own_subresource = after.is_none() && matches!(inner, Some("status" | "finalize"));
            if let Some(inner) = inner.filter(|_| !own_subresource) {
                resource = inner;
                parts = below;
            }
        }
        let mut parts = parts.map(str::to_owned);
        let target = Target {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.map(str::to_owned),
            resource: resource.to_owned(),
            name: parts.next(),
            subresource: parts.next(),
            rest: parts.collect(),
        };
        Some((target, legacy_watch))
    }
}

fn verb(method: &Method, target: &Target, legacy_watch: bool, query: &Query) -> &'static str {
    let one = target.name.is_some();
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if one => "delete",
        Method::DELETE => "deletecollection",
        Method::GET | Method::HEAD => {
            if legacy_watch || (!one && query.flag("watch")) {
                "watch"
            } else if one {
                "get"
            } else {
                "list"
            }
        }
        _ => method_name(method),
    }
}

/// Whether a request stays connected to a node for as long as both sides like.
fn connects(method: &Method, target: &Target, query: &Query) -> bool {
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
    target: &Target,
    legacy_watch: bool,
    query: &Query,
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
        RequestInfo::new(&method, path, &Query::parse(query).unwrap())
    }

    /// `verb group/version namespace resource name subresource`, `-` for what is absent.
    fn check(method: Method, uri: &str, expect: &str) {
        let info = info(method, uri);
        let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let got = match &info.target {
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
    fn paths_and_methods_are_taken_apart_as_upstream_does() {
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
    fn the_old_watch_prefix_is_for_watching_alone() {
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
    fn only_what_may_last_is_long_running() {
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
    fn a_list_of_one_name_is_known_by_that_name() {
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
