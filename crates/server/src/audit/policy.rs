//! The audit policy file (`audit.k8s.io/v1` `Policy`): which requests are logged, and at which level.

use rhumb_auth::User;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AuditStage, AuditedRequest, ObjectReference};
use rhumb_handlers::audit_body::AuditRequestRecorder;

/// Ordered rules; the first that matches a request decides. The default logs all requests at level `Metadata`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditPolicy {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
    #[serde(default)]
    rules: Vec<AuditPolicyRule>,
    #[serde(default)]
    omit_stages: Vec<AuditStageName>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AuditPolicyRule {
    level: AuditLevel,
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
    omit_stages: Vec<AuditStageName>,
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

/// How much of a request is logged; each level includes the previous ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AuditLevel {
    None,
    #[default]
    Metadata,
    /// With the request body: object, patch or options.
    Request,
    /// With request and response body.
    RequestResponse,
}

impl AuditLevel {
    /// A recorder for the bodies that are logged at this level; `None` if none are.
    pub fn body_recorder(self) -> Option<AuditRequestRecorder> {
        (self >= AuditLevel::Request)
            .then(|| AuditRequestRecorder::new(self == AuditLevel::RequestResponse))
    }
}

/// Stages as named in a policy file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum AuditStageName {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

/// How a request is logged: the result of evaluating the policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestAuditConfig {
    pub level: AuditLevel,
    pub omit_managed_fields: bool,
    /// Bit set of stages that are not logged.
    omitted_stages: u8,
}

impl RequestAuditConfig {
    pub fn logs_stage(&self, stage: AuditStage) -> bool {
        self.omitted_stages & AuditStageName::from(stage).bit() == 0
    }
}

impl AuditStageName {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Default for AuditPolicy {
    fn default() -> Self {
        AuditPolicy {
            api_version: "audit.k8s.io/v1".to_owned(),
            kind: "Policy".to_owned(),
            _metadata: Value::Null,
            rules: vec![AuditPolicyRule::default()],
            omit_stages: Vec::new(),
            omit_managed_fields: false,
        }
    }
}

impl AuditPolicy {
    /// Parses a policy file in YAML or JSON.
    pub fn parse(text: &str) -> Result<AuditPolicy, String> {
        let value = rhumb_schema::read_yaml(text.as_bytes()).map_err(|error| error.to_string())?;
        let policy: AuditPolicy =
            serde_json::from_value(value).map_err(|error| error.to_string())?;
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

    /// How a request is logged; `None` if it is not. `user` is the authenticated user, not the impersonated one.
    pub fn evaluate(
        &self,
        request: &AuditedRequest,
        user: Option<&User>,
    ) -> Option<RequestAuditConfig> {
        let rule = self.rules.iter().find(|rule| rule.matches(request, user))?;
        let omitted = self.omit_stages.iter().chain(&rule.omit_stages);
        (rule.level != AuditLevel::None).then(|| RequestAuditConfig {
            level: rule.level,
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            omitted_stages: omitted.fold(0, |bits, stage| bits | stage.bit()),
        })
    }
}

impl From<AuditStage> for AuditStageName {
    fn from(stage: AuditStage) -> AuditStageName {
        match stage {
            AuditStage::ResponseStarted => AuditStageName::ResponseStarted,
            AuditStage::ResponseComplete => AuditStageName::ResponseComplete,
            AuditStage::Panic => AuditStageName::Panic,
        }
    }
}

/// An empty list matches everything.
fn is_empty_or_contains(list: &[String], value: &str) -> bool {
    list.is_empty() || list.iter().any(|item| item == value)
}

impl AuditPolicyRule {
    fn matches(&self, request: &AuditedRequest, user: Option<&User>) -> bool {
        let name = user.map_or("", |user| user.name.as_str());
        let in_group = || {
            user.is_some_and(|user| {
                self.user_groups
                    .iter()
                    .any(|group| user.groups.contains(group))
            })
        };
        is_empty_or_contains(&self.users, name)
            && (self.user_groups.is_empty() || in_group())
            && is_empty_or_contains(&self.verbs, request.verb)
            && self.matches_target(request)
    }

    fn matches_target(&self, request: &AuditedRequest) -> bool {
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return request.object_ref.as_ref().is_some_and(|object| {
                is_empty_or_contains(
                    &self.namespaces,
                    object.namespace.as_deref().unwrap_or_default(),
                ) && (self.resources.is_empty()
                    || self.resources.iter().any(|rule| rule.matches(object)))
            });
        }
        if !self.paths.is_empty() {
            let uri = &request.uri;
            let path = uri.split('?').next().unwrap_or_default();
            return request.object_ref.is_none()
                && self.paths.iter().any(|pattern| path_matches(pattern, path));
        }
        true
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}

impl GroupResources {
    fn matches(&self, object: &ObjectReference) -> bool {
        if self.group != object.api_group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let name = object.name.as_deref().unwrap_or_default();
        let subresource = object.subresource.as_deref().unwrap_or_default();
        is_empty_or_contains(&self.resource_names, name)
            && self.resources.iter().any(|pattern| {
                match (pattern.as_str(), pattern.split_once('/')) {
                    ("*", _) => true,
                    (_, Some(("*", rule_subresource))) => {
                        !subresource.is_empty() && subresource == rule_subresource
                    }
                    (_, Some((resource, "*"))) => resource == object.resource,
                    (_, Some((resource, rule_subresource))) => {
                        resource == object.resource && rule_subresource == subresource
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
    use rhumb_handlers::request::{QueryParameters, RequestInfo};

    /// Evaluates a policy for a request of a user in the group `system:nodes`.
    fn evaluate(
        policy: &AuditPolicy,
        user: &str,
        method: &Method,
        path: &str,
    ) -> Option<RequestAuditConfig> {
        let info = RequestInfo::new(method, path, &QueryParameters::default());
        let now = Timestamp::from_unix(0, 0);
        let id = HeaderValue::from_static("id");
        let uri = path.parse().unwrap();
        let request = AuditedRequest::new(id, &uri, &info, "::1", &HeaderMap::new(), now);
        policy.evaluate(&request, Some(&User::new(user, &["system:nodes"])))
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
    fn recorded_bodies_depend_on_the_audit_level() {
        let records_response = |level: AuditLevel| {
            level
                .body_recorder()
                .map(|recorder| recorder.records_response())
        };
        assert_eq!(records_response(AuditLevel::None), None);
        assert_eq!(records_response(AuditLevel::Metadata), None);
        assert_eq!(records_response(AuditLevel::Request), Some(false));
        assert_eq!(records_response(AuditLevel::RequestResponse), Some(true));
    }

    #[test]
    fn the_first_matching_rule_applies() {
        let policy = AuditPolicy::parse(POLICY).unwrap();
        let started = AuditStage::ResponseStarted;
        for (user, method, path, stage, want) in [
            (
                "system:kube-proxy",
                Method::GET,
                "/api/v1/pods",
                AuditStage::ResponseComplete,
                false,
            ),
            (
                "system:kube-proxy",
                Method::POST,
                "/api/v1/nodes",
                AuditStage::ResponseComplete,
                true,
            ),
            (
                "a",
                Method::GET,
                "/healthz/ping?x=y",
                AuditStage::ResponseComplete,
                false,
            ),
            (
                "a",
                Method::GET,
                "/version/x",
                AuditStage::ResponseComplete,
                true,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/n/pods/p/log",
                AuditStage::ResponseComplete,
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
                AuditStage::ResponseComplete,
                false,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/n/pods/p/status",
                AuditStage::ResponseComplete,
                true,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/n/secrets/s",
                AuditStage::ResponseComplete,
                true,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/kube-system/configmaps/lock",
                AuditStage::ResponseComplete,
                false,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/kube-system/configmaps/x",
                AuditStage::ResponseComplete,
                true,
            ),
            (
                "a",
                Method::GET,
                "/api/v1/namespaces/other/configmaps/x",
                AuditStage::ResponseComplete,
                false,
            ),
        ] {
            let case = format!("{user} {method} {path} {stage:?}");
            let config = evaluate(&policy, user, &method, path);
            assert_eq!(
                config.is_some_and(|config| config.logs_stage(stage)),
                want,
                "{case}"
            );
        }
    }

    #[test]
    fn level_and_managed_fields_come_from_the_rule() {
        let policy = AuditPolicy::parse(
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
            (Method::GET, "/api/v1/secrets", AuditLevel::Metadata, true),
            (Method::POST, "/api/v1/nodes", AuditLevel::Request, true),
            (
                Method::GET,
                "/api/v1/nodes",
                AuditLevel::RequestResponse,
                false,
            ),
        ] {
            let config = evaluate(&policy, "a", &method, path).unwrap();
            assert_eq!((config.level, config.omit_managed_fields), (level, omits));
        }
        let config = evaluate(&AuditPolicy::default(), "a", &Method::GET, "/api/v1/nodes").unwrap();
        assert_eq!(config.level, AuditLevel::Metadata);
    }

    #[test]
    fn invalid_policies_are_rejected() {
        for text in [
            "",
            "kind: Policy",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: []",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Loud}]",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, user: x}]",
            "apiVersion: v1\nkind: ConfigMap\nrules: [{level: None}]",
        ] {
            assert!(AuditPolicy::parse(text).is_err(), "{text:?}");
        }
    }
}
