//! What lists find objects by: the fields that kinds declare, and the labels that the operator names.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use rhumb_api::gates::Feature;
use rhumb_api::{Gates, Kind};
use rhumb_cache::{Attribute, IndexOptions};
use rhumb_meta::validation;

/// The indexes of lists.
#[derive(Debug, Clone)]
pub struct Indexes {
    labels: Vec<LabelIndex>,
    /// Whether lists get further ones as soon as those would pay.
    pub adaptive: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LabelIndex {
    /// The path below the store's root.
    path: String,
    label: Arc<str>,
}

/// Why a setting of label indexes is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{setting:?} {problem}; write it as resource[.group]#labelName, such as pods#spark-app-selector,pods#app,deployments.apps#team"
)]
pub struct IndexesError {
    setting: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    NoLabel,
    Resource(String),
    Label(String),
    Twice,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoLabel => f.write_str("names no label"),
            Problem::Resource(resource) => {
                write!(f, "names {resource:?}, which is no resource of this server")
            }
            Problem::Label(reason) => write!(f, "has a bad label: {reason}"),
            Problem::Twice => f.write_str("is there twice, or once for each name of one resource"),
        }
    }
}

impl Default for Indexes {
    fn default() -> Self {
        Indexes {
            labels: Vec::new(),
            adaptive: true,
        }
    }
}

impl Indexes {
    /// Reads `resource[.group]#labelName`, comma-separated.
    pub fn parse(settings: &str, adaptive: bool) -> Result<Self, IndexesError> {
        let kinds = rhumb_api::kinds::all();
        let mut labels = Vec::new();
        let mut known = HashSet::new();
        for setting in settings.split(',').map(str::trim) {
            // What an empty flag and a comma at the end leave.
            if setting.is_empty() {
                continue;
            }
            let fail = |problem| IndexesError {
                setting: setting.to_owned(),
                problem,
            };
            let index = parse_one(setting, &kinds).map_err(fail)?;
            if !known.insert(index.clone()) {
                return Err(fail(Problem::Twice));
            }
            labels.push(index);
        }
        Ok(Indexes { labels, adaptive })
    }

    /// Whether the operator named any.
    pub fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    /// What the objects of a kind that are stored at a path are indexed by.
    pub(super) fn of(&self, kind: &Kind, path: &str) -> Vec<Attribute> {
        let fields = kind.indexed.iter().filter_map(|name| {
            let mut selectable = kind.selectable.iter();
            selectable.position(|field| field.name == *name)
        });
        let labels = self.labels.iter().filter(|index| index.path == path);
        let labels = labels.map(|index| Attribute::Label(Arc::clone(&index.label)));
        labels.chain(fields.map(Attribute::Field)).collect()
    }

    pub(super) fn options(&self, gates: &Gates) -> IndexOptions {
        IndexOptions {
            enabled: gates.enabled(Feature::CacherLabelIndex),
            adaptive: self.adaptive,
            ..IndexOptions::default()
        }
    }
}

fn parse_one(setting: &str, kinds: &[Kind]) -> Result<LabelIndex, Problem> {
    let (resource, label) = setting.split_once('#').ok_or(Problem::NoLabel)?;
    if label.is_empty() {
        return Err(Problem::NoLabel);
    }
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let kind = kinds
        .iter()
        .find(|kind| kind.plural == plural && kind.group == group);
    let path = kind.and_then(|kind| kind.storage.as_deref());
    let path = path.ok_or_else(|| Problem::Resource(resource.to_owned()))?;
    match validation::qualified_name(label).first() {
        Some(reason) => Err(Problem::Label(reason.to_string())),
        None => Ok(LabelIndex {
            path: path.to_owned(),
            label: label.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_in_the_form_of_the_proposal_are_read() {
        let check = |settings: &str, expect: &[(&str, &str)]| {
            let indexes = Indexes::parse(settings, true).expect(settings);
            let labels = indexes.labels.iter();
            let read: Vec<_> = labels.map(|index| (&*index.path, &*index.label)).collect();
            assert_eq!(read, expect);
        };
        check("", &[]);
        check("pods#spark-app-selector", &[("pods", "spark-app-selector")]);
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
    fn bad_settings_are_refused_with_the_form() {
        let check = |settings: &str, expect: &str| {
            let error = Indexes::parse(settings, true)
                .expect_err(settings)
                .to_string();
            assert!(error.starts_with(expect), "{error}");
            assert!(error.contains("resource[.group]#labelName"), "{error}");
        };
        check("pods", "\"pods\" names no label;");
        check("pods#", "\"pods#\" names no label;");
        check("#app", "\"#app\" names \"\", which is no resource");
        check("pods#app,pod#app", "\"pod#app\" names \"pod\", which is no");
        check(
            "deployments#team",
            "\"deployments#team\" names \"deployments\"",
        );
        check("pods.v1#app", "\"pods.v1#app\" names \"pods.v1\"");
        check("pods#a b", "\"pods#a b\" has a bad label: name part must");
        check("pods#a/b/c", "\"pods#a/b/c\" has a bad label: ");
        check("pods#app,nodes#app,pods#app", "\"pods#app\" is there twice");
        check(
            "events#app,events.events.k8s.io#app",
            "\"events.events.k8s.io#app\" is there twice",
        );
        check(
            "subjectaccessreviews.authorization.k8s.io#a",
            "\"subjectaccess",
        );
    }
}
