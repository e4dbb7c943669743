//! Which requests are logged: upstream's policy files.

use serde::Deserialize;
use serde_json::Value;

use super::{Event, ObjectReference, Stage};

/// Rules in order; the first that fits a request decides. The default logs everything.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<StageName>,
    #[serde(default, rename = "omitManagedFields")]
    _omit_managed_fields: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    paths: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<StageName>,
    #[serde(default, rename = "omitManagedFields")]
    _omit_managed_fields: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
enum Level {
    None,
    #[default]
    Metadata,
    Request,
    RequestResponse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum StageName {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            api_version: "audit.k8s.io/v1".to_owned(),
            kind: "Policy".to_owned(),
            _metadata: Value::Null,
            rules: vec![Rule::default()],
            omit_stages: Vec::new(),
            _omit_managed_fields: false,
        }
    }
}

impl Policy {
    /// Reads a policy file, in YAML or JSON.
    pub fn parse(text: &str) -> Result<Policy, String> {
        let value = rhumb_schema::read_yaml(text.as_bytes()).map_err(|error| error.to_string())?;
        let policy: Policy = serde_json::from_value(value).map_err(|error| error.to_string())?;
        if policy.kind != "Policy" || policy.api_version != "audit.k8s.io/v1" {
            return Err(format!(
                "it is a {} of {}, and must be a Policy of audit.k8s.io/v1",
                policy.kind, policy.api_version
            ));
        }
        if policy.rules.is_empty() {
            return Err("it has no rules, so nothing would be logged".to_owned());
        }
        Ok(policy)
    }

    /// Whether it asks for bodies, which are not logged.
    pub fn asks_for_bodies(&self) -> bool {
        self.rules
            .iter()
            .any(|rule| matches!(rule.level, Level::Request | Level::RequestResponse))
    }

    /// Whether an event is to be logged.
    pub fn wants(&self, event: &Event) -> bool {
        let omits = |stages: &[StageName]| stages.contains(&event.stage.into());
        match self.rules.iter().find(|rule| rule.fits(event)) {
            None => false,
            Some(rule) => {
                rule.level != Level::None && !omits(&self.omit_stages) && !omits(&rule.omit_stages)
            }
        }
    }
}

impl From<Stage> for StageName {
    fn from(stage: Stage) -> StageName {
        match stage {
            Stage::ResponseStarted => StageName::ResponseStarted,
            Stage::ResponseComplete => StageName::ResponseComplete,
            Stage::Panic => StageName::Panic,
        }
    }
}

/// An empty list stands for everything.
fn has(list: &[String], wanted: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == wanted)
}

impl Rule {
    fn fits(&self, event: &Event) -> bool {
        let user = event.user.as_deref();
        let name = user.map_or("", |user| user.name.as_str());
        let in_group =
            || user.is_some_and(|user| self.user_groups.iter().any(|it| user.groups.contains(it)));
        has(&self.users, name)
            && (self.user_groups.is_empty() || in_group())
            && has(&self.verbs, event.facts.verb)
            && self.fits_target(event)
    }

    fn fits_target(&self, event: &Event) -> bool {
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return event.facts.object_ref.as_ref().is_some_and(|object| {
                has(
                    &self.namespaces,
                    object.namespace.as_deref().unwrap_or_default(),
                ) && (self.resources.is_empty() || self.resources.iter().any(|it| it.fits(object)))
            });
        }
        if !self.paths.is_empty() {
            let uri = &event.facts.uri;
            let path = uri.split('?').next().unwrap_or_default();
            return event.facts.object_ref.is_none()
                && self.paths.iter().any(|pattern| path_fits(pattern, path));
        }
        true
    }
}

fn path_fits(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}

impl GroupResources {
    fn fits(&self, object: &ObjectReference) -> bool {
        if self.group != object.api_group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let name = object.name.as_deref().unwrap_or_default();
        let subresource = object.subresource.as_deref().unwrap_or_default();
        has(&self.resource_names, name)
            && self.resources.iter().any(|pattern| {
                match (pattern.as_str(), pattern.split_once('/')) {
                    ("*", _) => true,
                    (_, Some(("*", below))) => !subresource.is_empty() && subresource == below,
                    (_, Some((resource, "*"))) => resource == object.resource,
                    (_, Some((resource, below))) => {
                        resource == object.resource && below == subresource
                    }
                    (resource, None) => resource == object.resource && subresource.is_empty(),
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Method;
    use http::header::{HeaderMap, HeaderValue};
    use rhumb_auth::User;
    use rhumb_meta::Timestamp;

    use super::*;
    use crate::audit::RequestFacts;
    use crate::request::{Query, RequestInfo};

    fn event(user: &str, method: Method, path: &str, stage: Stage) -> Event {
        let info = RequestInfo::new(&method, path, &Query::default());
        let now = Timestamp::from_unix(0, 0);
        let id = HeaderValue::from_static("id");
        let uri = path.parse().unwrap();
        Event {
            facts: RequestFacts::new(id, &uri, &info, "::1", &HeaderMap::new(), now),
            stage,
            stage_time: now,
            user: Some(Arc::new(User::new(user, &["system:nodes"]))),
            impersonated: None,
            code: 200,
            failure: None,
            decision: None,
        }
    }

    const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:kube-proxy"]
  verbs: ["watch", "list"]
- level: None
  nonResourceURLs: ["/healthz*", "/version"]
- level: Metadata
  omitStages: [ResponseStarted]
  resources:
  - group: ""
    resources: ["pods/log", "*/status", "secrets/*"]
- level: None
  resources:
  - group: ""
    resources: ["configmaps"]
    resourceNames: ["lock"]
- level: None
  userGroups: ["system:unknown"]
- level: Metadata
  namespaces: ["kube-system", ""]
- level: RequestResponse
  nonResourceURLs: ["*"]
"#;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let policy = Policy::parse(POLICY).unwrap();
        assert!(policy.asks_for_bodies());
        let started = Stage::ResponseStarted;
        for (user, method, path, stage, want) in [
            (
                "system:kube-proxy",
                Method::GET,
                "/api/v1/pods",
                Stage::ResponseComplete,
                false,
            ),
            (
                "system:kube-proxy",
                Method::POST,
                "/api/v1/nodes",
                Stage::ResponseComplete,
                true,
            ),
            (
                "a",
                Method::GET,
                "/healthz/ping?x=y",
                Stage::ResponseComplete,
                false,
            ),
            (
                "a",
                Method::GET,
                "/version/x",
                Stage::ResponseComplete,
                true,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/n/pods/p/log",
                Stage::ResponseComplete,
                true,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/n/pods/p/log",
                started,
                false,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/n/pods/p/exec",
                Stage::ResponseComplete,
                false,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/n/pods/p/status",
                Stage::ResponseComplete,
                true,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/n/secrets/s",
                Stage::ResponseComplete,
                true,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/kube-system/configmaps/lock",
                Stage::ResponseComplete,
                false,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/kube-system/configmaps/x",
                Stage::ResponseComplete,
                true,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/other/configmaps/x",
                Stage::ResponseComplete,
                false,
            ),
        ] {
            let shown = format!("{user} {method} {path} {stage:?}");
            assert_eq!(
                policy.wants(&event(user, method, path, stage)),
                want,
                "{shown}"
            );
        }
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        for text in [
            "",
            "kind: Policy",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: []",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Loud}]",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, user: x}]",
            "apiVersion: v1\nkind: ConfigMap\nrules: [{level: None}]",
        ] {
            assert!(Policy::parse(text).is_err(), "{text:?}");
        }
    }
}
