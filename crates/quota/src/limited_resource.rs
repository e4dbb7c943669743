//! Configuration of the ResourceQuota admission plugin: `limitedResources` may be consumed only where a quota covers
//! them.
//!
//! ```yaml
//! apiVersion: apiserver.config.k8s.io/v1
//! kind: ResourceQuotaConfiguration
//! limitedResources:
//!   - resource: pods
//!     matchScopes:
//!       - scopeName: CrossNamespacePodAffinity
//! ```

use rhumb_meta::{ConfigFileError, validation};
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::{QuotaScope, ScopeOperator, ScopeRequirement};

/// Supported API versions of the file, with its kind in each.
const SUPPORTED_VERSIONS: [(&str, &str); 3] = [
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
];

/// One entry of the configuration's `limitedResources`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitedResource {
    pub group: String,
    pub resource: String,
    /// A covering quota is required for each resource name of the usage that contains one of these.
    pub match_contains: Vec<String>,
    /// A covering quota is required for each of these scopes that the object matches.
    pub match_scopes: Vec<ScopeRequirement>,
}

impl LimitedResource {
    /// Whether objects of the resource can be in a scope.
    fn supports_scope(&self, scope: &ScopeRequirement) -> bool {
        match scope.scope {
            QuotaScope::VolumeAttributesClass => self.applies_to("", "persistentvolumeclaims"),
            _ => self.applies_to("", "pods"),
        }
    }

    pub fn applies_to(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }
}

/// The configuration file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceQuotaConfiguration {
    api_version: String,
    kind: Spanned<String>,
    limited_resources: Option<Vec<Spanned<LimitedResourceConfig>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LimitedResourceConfig {
    api_group: Option<Spanned<String>>,
    resource: Option<Spanned<String>>,
    match_contains: Option<Vec<String>>,
    match_scopes: Option<Vec<Spanned<ScopeSelectorConfig>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScopeSelectorConfig {
    scope_name: Option<String>,
    operator: Option<String>,
    values: Option<Vec<String>>,
}

impl ResourceQuotaConfiguration {
    pub fn into_limited_resources(self) -> Result<Vec<LimitedResource>, ConfigFileError> {
        let (version, kind) = (&*self.api_version, &*self.kind.value);
        if !SUPPORTED_VERSIONS.contains(&(version, kind)) {
            let (wanted, name) = SUPPORTED_VERSIONS[0];
            let reason = format!("its kind is {kind} of {version}, and must be {name} of {wanted}");
            return Err(error_at(&self.kind, reason));
        }
        let entries = self.limited_resources.into_iter().flatten();
        entries.map(parse_limited_resource).collect()
    }
}

fn parse_limited_resource(
    entry: Spanned<LimitedResourceConfig>,
) -> Result<LimitedResource, ConfigFileError> {
    let error = |reason: &str| Err(error_at(&entry, reason));
    let Some(resource) = entry
        .value
        .resource
        .as_ref()
        .filter(|it| !it.value.is_empty())
    else {
        return error("resource: Required value");
    };
    if !validation::dns1035_label(&resource.value).is_empty() {
        let name = &resource.value;
        let reason = format!("resource: {name:?} is not a plural resource name such as \"pods\"");
        return Err(error_at(resource, reason));
    }
    let group = entry.value.api_group.as_ref();
    let group = group.filter(|group| !group.value.is_empty());
    if let Some(group) = group
        && !validation::dns1123_subdomain(&group.value).is_empty()
    {
        let name = &group.value;
        let reason = format!("apiGroup: {name:?} is not an API group name such as \"apps\"");
        return Err(error_at(group, reason));
    }
    let (resource, group) = (
        resource.value.clone(),
        group.map(|group| group.value.clone()),
    );
    let scopes = entry.value.match_scopes.iter().flatten();
    let limited = LimitedResource {
        group: group.unwrap_or_default(),
        resource,
        match_contains: entry.value.match_contains.clone().unwrap_or_default(),
        match_scopes: scopes
            .map(parse_scope_requirement)
            .collect::<Result<_, _>>()?,
    };
    if let Some(scope) = limited
        .match_scopes
        .iter()
        .find(|it| !limited.supports_scope(it))
    {
        let (scope, resource) = (&scope.name, &limited.resource);
        return error(&format!(
            "matchScopes: {resource} have no scope {scope}, so the entry would limit nothing"
        ));
    }
    if limited.match_contains.is_empty() && limited.match_scopes.is_empty() {
        return error(
            "matchContains and matchScopes are both missing, so the entry would limit nothing",
        );
    }
    Ok(limited)
}

/// Parsed as the `scopeSelector` of a quota, except that a missing operator means `Exists`.
fn parse_scope_requirement(
    form: &Spanned<ScopeSelectorConfig>,
) -> Result<ScopeRequirement, ConfigFileError> {
    let error = |reason: String| Err(error_at(form, reason));
    let name = form.value.scope_name.as_deref().unwrap_or_default();
    let bare = ScopeRequirement::exists(name);
    if bare.scope == QuotaScope::Unknown {
        return error(format!("scopeName: unknown scope {name:?}"));
    }
    let operator = match form.value.operator.as_deref().unwrap_or_default() {
        "" => ScopeOperator::Exists,
        name => match ScopeOperator::named(name) {
            Some(operator) => operator,
            None => return error(format!("operator: unknown operator {name:?}")),
        },
    };
    let values = form.value.values.clone().unwrap_or_default();
    let has_values = matches!(
        bare.scope,
        QuotaScope::PriorityClass | QuotaScope::VolumeAttributesClass
    );
    if !has_values && operator != ScopeOperator::Exists {
        return error(format!("operator: must be Exists for the scope {name}"));
    }
    let wants_values = matches!(operator, ScopeOperator::In | ScopeOperator::NotIn);
    if wants_values && values.is_empty() {
        return error(format!("values: required for the operator {operator:?}"));
    }
    if !wants_values && !values.is_empty() {
        return error(format!(
            "values: must be empty for the operator {operator:?}"
        ));
    }
    Ok(ScopeRequirement {
        operator,
        values,
        ..bare
    })
}

fn error_at<T>(at: &Spanned<T>, reason: impl Into<String>) -> ConfigFileError {
    let position = (at.referenced.line(), at.referenced.column());
    ConfigFileError::at(position, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\n";

    fn read(text: &str) -> Result<Vec<LimitedResource>, String> {
        let text = text.replace("HEAD", HEAD);
        let form: ResourceQuotaConfiguration =
            serde_saphyr::from_str(&text).map_err(|error| error.without_snippet().to_string())?;
        let message =
            |error: ConfigFileError| format!("{}:{} {}", error.line, error.column, error.reason);
        form.into_limited_resources().map_err(message)
    }

    fn scoped(expression: &str) -> String {
        format!("HEADlimitedResources:\n- resource: pods\n  matchScopes:\n  - {expression}\n")
    }

    #[test]
    fn configurations_of_all_versions_are_read() {
        let body = "
limitedResources:
- apiGroup: \"\"
  resource: persistentvolumeclaims
  matchContains:
  - .storageclass.storage.k8s.io/requests.storage
- resource: pods
  matchScopes:
  - scopeName: PriorityClass
    operator: In
    values: [cluster-services]
- apiGroup: apps
  resource: deployments
  matchContains: [count/]
";
        let limited = |group: &str, resource: &str, contains: &[&str]| LimitedResource {
            group: group.to_owned(),
            resource: resource.to_owned(),
            match_contains: contains.iter().map(|it| (*it).to_owned()).collect(),
            match_scopes: Vec::new(),
        };
        let storage = ".storageclass.storage.k8s.io/requests.storage";
        let mut pods = limited("", "pods", &[]);
        pods.match_scopes.push(ScopeRequirement {
            operator: ScopeOperator::In,
            values: vec!["cluster-services".to_owned()],
            ..ScopeRequirement::exists("PriorityClass")
        });
        let want = [
            limited("", "persistentvolumeclaims", &[storage]),
            pods,
            limited("apps", "deployments", &["count/"]),
        ];
        for (version, kind) in SUPPORTED_VERSIONS {
            let got = read(&format!("apiVersion: {version}\nkind: {kind}{body}"));
            assert_eq!(got.as_deref(), Ok(&want[..]), "{version}");
        }
        for nothing in [
            "HEAD",
            "HEADlimitedResources:\n",
            "HEADlimitedResources: []\n",
        ] {
            assert_eq!(read(nothing), Ok(Vec::new()));
        }
    }

    #[test]
    fn scopes_are_read_with_and_without_an_operator() {
        let table = [
            (
                "{scopeName: CrossNamespacePodAffinity}",
                ScopeOperator::Exists,
            ),
            ("{scopeName: CrossNamespaceAffinity}", ScopeOperator::Exists),
            (
                "{scopeName: CrossNamespacePodAffinity, operator: Exists}",
                ScopeOperator::Exists,
            ),
            (
                "{scopeName: PriorityClass, operator: DoesNotExist}",
                ScopeOperator::DoesNotExist,
            ),
            (
                "{scopeName: PriorityClass, operator: NotIn, values: [a]}",
                ScopeOperator::NotIn,
            ),
            ("{scopeName: BestEffort, values: }", ScopeOperator::Exists),
        ];
        for (expression, want) in table {
            let limited = read(&scoped(expression)).expect(expression);
            assert_eq!(limited[0].match_scopes[0].operator, want, "{expression}");
        }
        let both = ["CrossNamespacePodAffinity", "CrossNamespaceAffinity"];
        for name in both {
            let limited = read(&scoped(&format!("scopeName: {name}"))).expect(name);
            let scope = &limited[0].match_scopes[0];
            assert_eq!(scope.scope, QuotaScope::CrossNamespacePodAffinity);
            assert_eq!(&*scope.name, name);
        }
    }

    #[test]
    fn invalid_configurations_are_rejected_with_line_and_column() {
        let entry = |entry: &str| format!("HEADlimitedResources:\n- {entry}\n");
        let table = [
            (
                "apiVersion: v1\nkind: ResourceQuotaConfiguration\n".to_owned(),
                "2:7 its kind is ResourceQuotaConfiguration of v1, and must be ResourceQuotaConfiguration of apiserver.config.k8s.io/v1",
            ),
            (
                "kind: Configuration\napiVersion: apiserver.config.k8s.io/v1\n".to_owned(),
                "1:7 its kind is Configuration of apiserver.config.k8s.io/v1",
            ),
            (
                "kind: ResourceQuotaConfiguration\n".to_owned(),
                "missing field `apiVersion`",
            ),
            ("HEADlimited: []\n".to_owned(), "unknown field `limited`"),
            ("HEADlimitedResources: {}\n".to_owned(), "expected sequence"),
            (entry("matchContains: [a]"), "4:3 resource: Required value"),
            (
                entry("resource: ''\n  matchContains: [a]"),
                "4:3 resource: Required value",
            ),
            (entry("resource: pods\n  resource: pods"), "duplicate"),
            (entry("resource: pods\n  foo: bar"), "unknown field `foo`"),
            (
                entry("resource: pods\n  matchContains: a"),
                "expected sequence",
            ),
            (
                entry("resource: pods"),
                "4:3 matchContains and matchScopes are both missing",
            ),
            (
                entry("resource: pods/status\n  matchContains: [a]"),
                "4:13 resource: \"pods/status\" is not a plural resource name such as \"pods\"",
            ),
            (
                entry("resource: deployments.apps\n  matchContains: [a]"),
                "4:13 resource: \"deployments.apps\" is not a plural resource name",
            ),
            (
                entry("resource: Pod\n  matchContains: [a]"),
                "4:13 resource: \"Pod\" is not a plural resource name",
            ),
            (
                entry("resource: '*'\n  matchContains: [a]"),
                "4:13 resource: \"*\" is not a plural",
            ),
            (
                entry("apiGroup: apps/v1\n  resource: deployments\n  matchContains: [a]"),
                "4:13 apiGroup: \"apps/v1\" is not an API group name such as \"apps\"",
            ),
            (scoped("{}"), "6:5 scopeName: unknown scope \"\""),
            (
                scoped("scopeName: Crossing"),
                "6:5 scopeName: unknown scope \"Crossing\"",
            ),
            (scoped("name: PriorityClass"), "unknown field `name`"),
            (
                scoped("{scopeName: PriorityClass, operator: Near}"),
                "6:5 operator: unknown operator \"Near\"",
            ),
            (
                scoped("{scopeName: CrossNamespaceAffinity, operator: In, values: [a]}"),
                "6:5 operator: must be Exists for the scope CrossNamespaceAffinity",
            ),
            (
                scoped("{scopeName: PriorityClass, operator: In}"),
                "6:5 values: required for the operator In",
            ),
            (
                scoped("{scopeName: PriorityClass, values: [a]}"),
                "6:5 values: must be empty for the operator Exists",
            ),
        ];
        for (text, want) in table {
            let got = read(&text).expect_err(&text);
            assert!(got.contains(want), "{text}: {got}");
        }
    }
}
