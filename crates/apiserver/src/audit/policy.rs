//! Which requests are logged, and how much of them: upstream's policy files.

use rhumb_auth::User;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ObjectReference, RequestFacts, Stage};

/// Rules in order; the first that fits a request decides. The default logs all requests, and no bodies.
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
    #[serde(default)]
    omit_managed_fields: bool,
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
    #[serde(default)]
    omit_managed_fields: Option<bool>,
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

/// How much of a request is logged; each has all that those before it have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    None,
    #[default]
    Metadata,
    /// With the object, the patch or the options that were sent.
    Request,
    /// And with the answer.
    RequestResponse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum StageName {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

/// How a request is logged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    pub level: Level,
    pub omit_managed_fields: bool,
    /// Stages that are not logged, a bit each.
    omitted: u8,
}

impl Terms {
    pub fn has(&self, stage: Stage) -> bool {
        self.omitted & StageName::from(stage).bit() == 0
    }
}

impl StageName {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            api_version: "audit.k8s.io/v1".to_owned(),
            kind: "Policy".to_owned(),
            _metadata: Value::Null,
            rules: vec![Rule::default()],
            omit_stages: Vec::new(),
            omit_managed_fields: false,
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

    /// How a request is logged; `None` if it is not. Its user is who sent it, whomever they act for.
    pub fn terms(&self, request: &RequestFacts, user: Option<&User>) -> Option<Terms> {
        let rule = self.rules.iter().find(|rule| rule.fits(request, user))?;
        let omitted = self.omit_stages.iter().chain(&rule.omit_stages);
        (rule.level != Level::None).then(|| Terms {
            level: rule.level,
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            omitted: omitted.fold(0, |bits, stage| bits | stage.bit()),
        })
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
    fn fits(&self, request: &RequestFacts, user: Option<&User>) -> bool {
        let name = user.map_or("", |user| user.name.as_str());
        let in_group =
            || user.is_some_and(|user| self.user_groups.iter().any(|it| user.groups.contains(it)));
        has(&self.users, name)
            && (self.user_groups.is_empty() || in_group())
            && has(&self.verbs, request.verb)
            && self.fits_target(request)
    }

    fn fits_target(&self, request: &RequestFacts) -> bool {
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return request.object_ref.as_ref().is_some_and(|object| {
                has(
                    &self.namespaces,
                    object.namespace.as_deref().unwrap_or_default(),
                ) && (self.resources.is_empty() || self.resources.iter().any(|it| it.fits(object)))
            });
        }
        if !self.paths.is_empty() {
            let uri = &request.uri;
            let path = uri.split('?').next().unwrap_or_default();
            return request.object_ref.is_none()
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
    use http::Method;
    use http::header::{HeaderMap, HeaderValue};
    use rhumb_meta::Timestamp;

    use super::*;
    use crate::request::{Query, RequestInfo};

    /// How a policy logs a request of a user in the group `system:nodes`.
    fn terms(policy: &Policy, user: &str, method: &Method, path: &str) -> Option<Terms> {
        let info = RequestInfo::new(method, path, &Query::default());
        let now = Timestamp::from_unix(0, 0);
        let id = HeaderValue::from_static("id");
        let uri = path.parse().unwrap();
        let facts = RequestFacts::new(id, &uri, &info, "::1", &HeaderMap::new(), now);
        policy.terms(&facts, Some(&User::new(user, &["system:nodes"])))
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
            let terms = terms(&policy, user, &method, path);
            assert_eq!(terms.is_some_and(|it| it.has(stage)), want, "{shown}");
        }
    }

    #[test]
    fn levels_and_managed_fields_are_those_of_the_rule() {
        let policy = Policy::parse(
            r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- level: Metadata
  resources: [{group: "", resources: ["secrets"]}]
- level: Request
  verbs: ["create"]
- level: RequestResponse
  omitManagedFields: false
"#,
        )
        .unwrap();
        for (method, path, level, omits) in [
            (Method::GET, "/api/v1/secrets", Level::Metadata, true),
            (Method::POST, "/api/v1/nodes", Level::Request, true),
            (Method::GET, "/api/v1/nodes", Level::RequestResponse, false),
        ] {
            let terms = terms(&policy, "a", &method, path).unwrap();
            assert_eq!((terms.level, terms.omit_managed_fields), (level, omits));
        }
        let terms = terms(&Policy::default(), "a", &Method::GET, "/api/v1/nodes").unwrap();
        assert_eq!(terms.level, Level::Metadata);
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
