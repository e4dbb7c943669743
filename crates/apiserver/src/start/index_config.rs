//! Configuration of list indexes in the watch cache: the fields that kinds declare, and the labels that the operator
//! names.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use rhumb_api::feature_gates::Feature;
use rhumb_api::{FeatureGates, Kind};
use rhumb_cache::{IndexOptions, IndexedAttribute};
use rhumb_meta::validation;

/// Which label and field indexes the caches keep for lists.
#[derive(Debug, Clone)]
pub struct ListIndexConfig {
    labels: Vec<LabelIndexSetting>,
    /// Whether the caches add further indexes when list traffic justifies them.
    pub adaptive: bool,
}

/// One label that lists of one resource are indexed by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LabelIndexSetting {
    /// Storage path of the resource below the store's root.
    path: String,
    label: Arc<str>,
}

/// Why a label index setting is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{setting:?} {problem}; write it as resource[.group]#labelName, such as pods#spark-app-selector,pods#app,deployments.apps#team, or pods#spark-app-selector;app"
)]
pub struct LabelIndexSettingError {
    setting: String,
    problem: LabelIndexSettingProblem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelIndexSettingProblem {
    MissingLabel,
    UnknownResource {
        resource: String,
        /// The name of a resource that it may stand for.
        suggestion: Option<String>,
    },
    InvalidLabel(String),
    Duplicate,
}

impl fmt::Display for LabelIndexSettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelIndexSettingProblem::MissingLabel => f.write_str("has no label"),
            LabelIndexSettingProblem::UnknownResource {
                resource,
                suggestion,
            } => {
                write!(f, "names the unknown resource {resource:?}")?;
                let mut suggestion = suggestion.iter();
                suggestion.try_for_each(|name| write!(f, " (did you mean {name:?}?)"))
            }
            LabelIndexSettingProblem::InvalidLabel(reason) => {
                write!(f, "has an invalid label: {reason}")
            }
            LabelIndexSettingProblem::Duplicate => {
                f.write_str("is a duplicate of an earlier index of the same stored resource")
            }
        }
    }
}

impl Default for ListIndexConfig {
    fn default() -> Self {
        ListIndexConfig {
            labels: Vec::new(),
            adaptive: true,
        }
    }
}

impl ListIndexConfig {
    /// Reads settings in the form `resource[.group]#labelName`, comma-separated. A resource may have several labels,
    /// separated by semicolons.
    pub fn parse(settings: &str, adaptive: bool) -> Result<Self, LabelIndexSettingError> {
        let kinds = rhumb_api::kinds::all();
        let mut labels = Vec::new();
        let mut seen_labels = HashSet::new();
        for setting in settings.split(',').map(str::trim) {
            // An empty flag or a trailing comma.
            if setting.is_empty() {
                continue;
            }
            let fail = |problem| LabelIndexSettingError {
                setting: setting.to_owned(),
                problem,
            };
            for index in parse_one(setting, &kinds).map_err(fail)? {
                if !seen_labels.insert(index.clone()) {
                    return Err(fail(LabelIndexSettingProblem::Duplicate));
                }
                labels.push(index);
            }
        }
        Ok(ListIndexConfig { labels, adaptive })
    }

    /// Whether any label indexes are configured.
    pub fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Index attributes of the objects of a kind stored at a path.
    pub(super) fn attributes_for(&self, kind: &Kind, path: &str) -> Vec<IndexedAttribute> {
        let fields = kind.indexed.iter().filter_map(|name| {
            let mut selectable = kind.selectable.iter();
            selectable.position(|field| field.name == *name)
        });
        let labels = self.labels.iter().filter(|index| index.path == path);
        let labels = labels.map(|index| IndexedAttribute::Label(Arc::clone(&index.label)));
        labels.chain(fields.map(IndexedAttribute::Field)).collect()
    }

    pub(super) fn options(&self, gates: &FeatureGates) -> IndexOptions {
        IndexOptions {
            by_label: gates.enabled(Feature::CacherLabelIndex),
            adaptive: self.adaptive,
            ..IndexOptions::default()
        }
    }
}

fn parse_one(
    setting: &str,
    kinds: &[Kind],
) -> Result<Vec<LabelIndexSetting>, LabelIndexSettingProblem> {
    let (resource, labels) = setting
        .split_once('#')
        .ok_or(LabelIndexSettingProblem::MissingLabel)?;
    let path = storage_path(resource, kinds)?;
    let labels = labels.split(';').map(str::trim);
    labels
        .map(|label| {
            if label.is_empty() {
                return Err(LabelIndexSettingProblem::MissingLabel);
            }
            match validation::qualified_name(label).first() {
                Some(reason) => Err(LabelIndexSettingProblem::InvalidLabel(reason.to_string())),
                None => Ok(LabelIndexSetting {
                    path: path.to_owned(),
                    label: label.into(),
                }),
            }
        })
        .collect()
}

/// The storage path of `resource[.group]`.
fn storage_path<'k>(
    resource: &str,
    kinds: &'k [Kind],
) -> Result<&'k str, LabelIndexSettingProblem> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let mut kinds_of_path = kinds.iter();
    let kind = kinds_of_path.find(|kind| kind.plural == plural && kind.group == group);
    kind.and_then(|kind| kind.storage.as_deref())
        .ok_or_else(|| LabelIndexSettingProblem::UnknownResource {
            resource: resource.to_owned(),
            suggestion: suggest_resource(plural, kinds),
        })
}

/// A resource that has this name in another group, or this singular or short name.
fn suggest_resource(name: &str, kinds: &[Kind]) -> Option<String> {
    let stored = || kinds.iter().filter(|kind| kind.storage.is_some());
    let named = |kind: &&Kind| {
        let mut short_names = kind.short_names.iter();
        kind.singular == name || short_names.any(|short| short == name)
    };
    let suggested = stored().find(|kind| kind.plural == name);
    let kind = suggested.or_else(|| stored().find(named))?;
    Some(match kind.group.is_empty() {
        true => kind.plural.to_string(),
        false => format!("{}.{}", kind.plural, kind.group),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_index_settings_are_parsed() {
        let check = |settings: &str, expect: &[(&str, &str)]| {
            let indexes = ListIndexConfig::parse(settings, true).expect(settings);
            let labels = indexes.labels.iter();
            let parsed: Vec<_> = labels.map(|index| (&*index.path, &*index.label)).collect();
            assert_eq!(parsed, expect);
        };
        check("", &[]);
        check("pods#spark-app-selector", &[("pods", "spark-app-selector")]);
        check(
            "pods#label-Name1;label-Name2,pods#c; d",
            &[
                ("pods", "label-Name1"),
                ("pods", "label-Name2"),
                ("pods", "c"),
                ("pods", "d"),
            ],
        );
        check(
            "pods#app, nodes#zone,deployments.apps#example.com/team,",
            &[
                ("pods", "app"),
                ("minions", "zone"),
                ("deployments", "example.com/team"),
            ],
        );
    }

    #[test]
    fn invalid_index_settings_are_rejected() {
        let check = |settings: &str, expect: &str| {
            let error = ListIndexConfig::parse(settings, true)
                .expect_err(settings)
                .to_string();
            assert!(error.starts_with(expect), "{error}");
            assert!(error.contains("resource[.group]#labelName"), "{error}");
        };
        check("pods", "\"pods\" has no label;");
        check("pods#", "\"pods#\" has no label;");
        check("#app", "\"#app\" names the unknown resource \"\";");
        check(
            "pods#app,pod#app",
            "\"pod#app\" names the unknown resource \"pod\" (did you mean \"pods\"?);",
        );
        check(
            "deployments#team",
            "\"deployments#team\" names the unknown resource \"deployments\" (did you mean \"deployments.apps\"?);",
        );
        check(
            "pods.v1#app",
            "\"pods.v1#app\" names the unknown resource \"pods.v1\" (did you mean \"pods\"?);",
        );
        check(
            "sts#app",
            "\"sts#app\" names the unknown resource \"sts\" (did you mean \"statefulsets.apps\"?);",
        );
        check(
            "podz#app",
            "\"podz#app\" names the unknown resource \"podz\";",
        );
        check("pods#a;", "\"pods#a;\" has no label;");
        check("pods#a;;b", "\"pods#a;;b\" has no label;");
        check(
            "pods#a;b,pods#b",
            "\"pods#b\" is a duplicate of an earlier index",
        );
        check(
            "pods#a b",
            "\"pods#a b\" has an invalid label: name part must",
        );
        check("pods#a/b/c", "\"pods#a/b/c\" has an invalid label: ");
        check(
            "pods#app,nodes#app,pods#app",
            "\"pods#app\" is a duplicate of an earlier index",
        );
        check(
            "events#app,events.events.k8s.io#app",
            "\"events.events.k8s.io#app\" is a duplicate of an earlier index",
        );
        check(
            "subjectaccessreviews.authorization.k8s.io#a",
            "\"subjectaccess",
        );
    }
}
