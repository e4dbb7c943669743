//! What may be consumed only where a quota covers it.
//!
//! ```yaml
//! apiVersion: apiserver.config.k8s.io/v1
//! kind: ResourceQuotaConfiguration
//! limitedResources:
//!   - resource: pods
//!     matchScopes:
//!       - scopeName: CrossNamespacePodAffinity
//! ```

use rhumb_meta::{FileError, validation};
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::{Operator, Requirement, Scope};

/// Groups and versions of the file, and what it is called there.
const FORMS: [(&str, &str); 3] = [
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
];

/// One entry of the configuration's `limitedResources`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    pub group: String,
    pub resource: String,
    /// A covering quota is needed for each name an object counts for that contains one of these.
    pub contains: Vec<String>,
    /// A covering quota is needed for each of these scopes that an object is in.
    pub scopes: Vec<Requirement>,
}

impl Limited {
    /// Whether objects of the resource can be in a scope.
    fn has_scope(&self, scope: &Requirement) -> bool {
        match scope.scope {
            Scope::VolumeAttributesClass => self.is_about("", "persistentvolumeclaims"),
            _ => self.is_about("", "pods"),
        }
    }

    pub fn is_about(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }
}

/// The configuration as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitedForm {
    api_version: String,
    kind: Spanned<String>,
    limited_resources: Option<Vec<Spanned<Entry>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    api_group: Option<Spanned<String>>,
    resource: Option<Spanned<String>>,
    match_contains: Option<Vec<String>>,
    match_scopes: Option<Vec<Spanned<ScopeForm>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScopeForm {
    scope_name: Option<String>,
    operator: Option<String>,
    values: Option<Vec<String>>,
}

impl LimitedForm {
    pub fn check(self) -> Result<Vec<Limited>, FileError> {
        let (version, kind) = (&*self.api_version, &*self.kind.value);
        if !FORMS.contains(&(version, kind)) {
            let (wanted, name) = FORMS[0];
            let reason = format!("its kind is {kind} of {version}, and must be {name} of {wanted}");
            return Err(error(&self.kind, reason));
        }
        let entries = self.limited_resources.into_iter().flatten();
        entries.map(limited).collect()
    }
}

fn limited(entry: Spanned<Entry>) -> Result<Limited, FileError> {
    let refuse = |reason: &str| Err(error(&entry, reason));
    let Some(resource) = entry
        .value
        .resource
        .as_ref()
        .filter(|it| !it.value.is_empty())
    else {
        return refuse("resource: Required value");
    };
    if !validation::dns1035_label(&resource.value).is_empty() {
        let name = &resource.value;
        let reason =
            format!("resource: {name:?} is no plural name of a resource, such as \"pods\"");
        return Err(error(resource, reason));
    }
    let group = entry.value.api_group.as_ref();
    let group = group.filter(|group| !group.value.is_empty());
    if let Some(group) = group
        && !validation::dns1123_subdomain(&group.value).is_empty()
    {
        let name = &group.value;
        let reason = format!("apiGroup: {name:?} is no name of a group, such as \"apps\"");
        return Err(error(group, reason));
    }
    let (resource, group) = (
        resource.value.clone(),
        group.map(|group| group.value.clone()),
    );
    let scopes = entry.value.match_scopes.iter().flatten();
    let limited = Limited {
        group: group.unwrap_or_default(),
        resource,
        contains: entry.value.match_contains.clone().unwrap_or_default(),
        scopes: scopes.map(requirement).collect::<Result<_, _>>()?,
    };
    if let Some(scope) = limited.scopes.iter().find(|it| !limited.has_scope(it)) {
        let (scope, resource) = (&scope.name, &limited.resource);
        return refuse(&format!(
            "matchScopes: {resource} are in no scope {scope}, so it would limit nothing"
        ));
    }
    if limited.contains.is_empty() && limited.scopes.is_empty() {
        return refuse("it has neither matchContains nor matchScopes, so it would limit nothing");
    }
    Ok(limited)
}

/// As in the selector of a quota, but that an operator may be left out, which asks for the scope itself.
fn requirement(form: &Spanned<ScopeForm>) -> Result<Requirement, FileError> {
    let refuse = |reason: String| Err(error(form, reason));
    let name = form.value.scope_name.as_deref().unwrap_or_default();
    let bare = Requirement::exists(name);
    if bare.scope == Scope::Unknown {
        return refuse(format!("scopeName: there is no scope {name:?}"));
    }
    let operator = match form.value.operator.as_deref().unwrap_or_default() {
        "" => Operator::Exists,
        name => match Operator::named(name) {
            Some(operator) => operator,
            None => return refuse(format!("operator: there is no operator {name:?}")),
        },
    };
    let values = form.value.values.clone().unwrap_or_default();
    let has_values = matches!(
        bare.scope,
        Scope::PriorityClass | Scope::VolumeAttributesClass
    );
    if !has_values && operator != Operator::Exists {
        return refuse(format!("operator: must be Exists for the scope {name}"));
    }
    let wants_values = matches!(operator, Operator::In | Operator::NotIn);
    if wants_values && values.is_empty() {
        return refuse(format!(
            "values: must be some for the operator {operator:?}"
        ));
    }
    if !wants_values && !values.is_empty() {
        return refuse(format!(
            "values: must be none for the operator {operator:?}"
        ));
    }
    Ok(Requirement {
        operator,
        values,
        ..bare
    })
}

fn error<T>(at: &Spanned<T>, reason: impl Into<String>) -> FileError {
    let place = (at.referenced.line(), at.referenced.column());
    FileError::at(place, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\n";

    fn read(text: &str) -> Result<Vec<Limited>, String> {
        let text = text.replace("HEAD", HEAD);
        let form: LimitedForm =
            serde_saphyr::from_str(&text).map_err(|error| error.without_snippet().to_string())?;
        let says = |error: FileError| format!("{}:{} {}", error.line, error.column, error.reason);
        form.check().map_err(says)
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
        let limited = |group: &str, resource: &str, contains: &[&str]| Limited {
            group: group.to_owned(),
            resource: resource.to_owned(),
            contains: contains.iter().map(|it| (*it).to_owned()).collect(),
            scopes: Vec::new(),
        };
        let storage = ".storageclass.storage.k8s.io/requests.storage";
        let mut pods = limited("", "pods", &[]);
        pods.scopes.push(Requirement {
            operator: Operator::In,
            values: vec!["cluster-services".to_owned()],
            ..Requirement::exists("PriorityClass")
        });
        let want = [
            limited("", "persistentvolumeclaims", &[storage]),
            pods,
            limited("apps", "deployments", &["count/"]),
        ];
        for (version, kind) in FORMS {
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
            ("{scopeName: CrossNamespacePodAffinity}", Operator::Exists),
            ("{scopeName: CrossNamespaceAffinity}", Operator::Exists),
            (
                "{scopeName: CrossNamespacePodAffinity, operator: Exists}",
                Operator::Exists,
            ),
            (
                "{scopeName: PriorityClass, operator: DoesNotExist}",
                Operator::DoesNotExist,
            ),
            (
                "{scopeName: PriorityClass, operator: NotIn, values: [a]}",
                Operator::NotIn,
            ),
            ("{scopeName: BestEffort, values: }", Operator::Exists),
        ];
        for (expression, want) in table {
            let limited = read(&scoped(expression)).expect(expression);
            assert_eq!(limited[0].scopes[0].operator, want, "{expression}");
        }
        let both = ["CrossNamespacePodAffinity", "CrossNamespaceAffinity"];
        for name in both {
            let limited = read(&scoped(&format!("scopeName: {name}"))).expect(name);
            let scope = &limited[0].scopes[0];
            assert_eq!(scope.scope, Scope::CrossNamespacePodAffinity);
            assert_eq!(&*scope.name, name);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
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
                "4:3 it has neither matchContains nor matchScopes",
            ),
            (
                entry("resource: pods/status\n  matchContains: [a]"),
                "4:13 resource: \"pods/status\" is no plural name of a resource, such as \"pods\"",
            ),
            (
                entry("resource: deployments.apps\n  matchContains: [a]"),
                "4:13 resource: \"deployments.apps\" is no plural name",
            ),
            (
                entry("resource: Pod\n  matchContains: [a]"),
                "4:13 resource: \"Pod\" is no plural name",
            ),
            (
                entry("resource: '*'\n  matchContains: [a]"),
                "4:13 resource: \"*\" is no plural",
            ),
            (
                entry("apiGroup: apps/v1\n  resource: deployments\n  matchContains: [a]"),
                "4:13 apiGroup: \"apps/v1\" is no name of a group, such as \"apps\"",
            ),
            (scoped("{}"), "6:5 scopeName: there is no scope \"\""),
            (
                scoped("scopeName: Crossing"),
                "6:5 scopeName: there is no scope \"Crossing\"",
            ),
            (scoped("name: PriorityClass"), "unknown field `name`"),
            (
                scoped("{scopeName: PriorityClass, operator: Near}"),
                "6:5 operator: there is no operator \"Near\"",
            ),
            (
                scoped("{scopeName: CrossNamespaceAffinity, operator: In, values: [a]}"),
                "6:5 operator: must be Exists for the scope CrossNamespaceAffinity",
            ),
            (
                scoped("{scopeName: PriorityClass, operator: In}"),
                "6:5 values: must be some for the operator In",
            ),
            (
                scoped("{scopeName: PriorityClass, values: [a]}"),
                "6:5 values: must be none for the operator Exists",
            ),
        ];
        for (text, want) in table {
            let got = read(&text).expect_err(&text);
            assert!(got.contains(want), "{text}: {got}");
        }
    }
}
