//! The file in which an operator says what is critical.
//!
//! ```yaml
//! apiVersion: admission.rhumb/v1
//! kind: CriticalResources
//! rules:
//!   - name: leases of nodes
//!     reason: a node whose lease is not renewed loses its pods
//!     apiGroups: [coordination.k8s.io]
//!     resources: [leases]
//!     namespaces: [kube-node-lease]
//! ```
//!
//! It replaces what is built in. Beside `name` and `reason`, which are for people, an entry has the fields of an
//! exclusion rule, and means what they mean there.

use std::collections::BTreeMap;

use rhumb_meta::{FileError, read_file};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CriticalResources, CriticalRule};
use crate::exclusion::{Exclusion, read_selector};

const API_VERSION: &str = "admission.rhumb/v1";
const KIND: &str = "CriticalResources";
const RULES_MAX: usize = 64;
/// Of a name and of a reason: they go into a header.
const TEXT_BYTES_MAX: usize = 120;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    rules: Vec<serde_saphyr::Spanned<Form>>,
}

/// An entry as it is written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Form {
    #[serde(skip_serializing)]
    pub(super) name: String,
    #[serde(skip_serializing)]
    pub(super) reason: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) api_versions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) operations: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resources: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scope: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resource_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace_selector: Option<SelectorForm>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct SelectorForm {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<RequirementForm>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RequirementForm {
    key: String,
    operator: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
}

impl CriticalResources {
    /// Reads a file, in YAML or JSON. Whether its rules would be good exclusion rules is for whoever knows the API.
    pub fn parse(text: &str) -> Result<CriticalResources, FileError> {
        let file: File = read_file(text)?;
        if file.kind != KIND || file.api_version != API_VERSION {
            let (kind, version) = (file.kind, file.api_version);
            let reason =
                format!("it is a {kind} of {version}, and must be a {KIND} of {API_VERSION}");
            return Err(FileError::whole(reason));
        }
        if file.rules.is_empty() {
            let reason = "it has no rules, so nothing would be critical; without a file the built-in list is used";
            return Err(FileError::whole(reason));
        }
        if file.rules.len() > RULES_MAX {
            let reason = format!(
                "it has {} rules; {RULES_MAX} are the most",
                file.rules.len()
            );
            return Err(FileError::whole(reason));
        }
        let rules = file.rules.into_iter().map(|form| {
            let line = form.referenced.line();
            form.value
                .check()
                .map_err(|reason| FileError::at((line, 0), reason))?;
            Ok(form.value.into_rule(line))
        });
        Ok(CriticalResources {
            rules: rules.collect::<Result<_, FileError>>()?,
        })
    }
}

impl Form {
    fn check(&self) -> Result<(), String> {
        for (field, text) in [("name", &self.name), ("reason", &self.reason)] {
            if text.len() > TEXT_BYTES_MAX {
                return Err(format!("{field}: it is longer than {TEXT_BYTES_MAX} bytes"));
            }
            if text.chars().any(char::is_control) {
                return Err(format!("{field}: it must be a single line"));
            }
        }
        if self.names_nothing() {
            let fields = "apiGroups, resources, resourceNames, namespaces or namespaceSelector";
            return Err(format!("the rule names nothing: it needs some of {fields}"));
        }
        if let Some(selector) = &self.namespace_selector {
            let selector = serde_json::to_value(selector).map_err(|error| error.to_string())?;
            read_selector(&selector).map_err(|reason| format!("namespaceSelector: {reason}"))?;
        }
        Ok(())
    }

    /// Whether it has nothing but stars for what tells resources apart.
    fn names_nothing(&self) -> bool {
        let is_open = |list: &[String]| list.iter().all(|word| matches!(&**word, "*" | "*/*"));
        is_open(&self.api_groups)
            && is_open(&self.resources)
            && self.resource_names.is_empty()
            && self.namespaces.is_empty()
            && self.namespace_selector.is_none()
    }

    pub(super) fn into_rule(self, line: u64) -> CriticalRule {
        // Lists, maps and texts can always be written as JSON.
        let json = serde_json::to_string(&self).unwrap_or_default();
        let value: Value = serde_json::from_str(&json).unwrap_or_default();
        CriticalRule {
            exclusion: Exclusion::read(&value),
            name: match self.name.is_empty() {
                true => self.described(),
                false => self.name,
            },
            reason: self.reason,
            json,
            line,
        }
    }

    /// A name for a rule that has none: `leases.coordination.k8s.io in kube-system`.
    fn described(&self) -> String {
        let group = match &self.api_groups[..] {
            [group] if !group.is_empty() && group != "*" => format!(".{group}"),
            _ => String::new(),
        };
        let resources: Vec<String> = match &self.resources[..] {
            [] => vec![format!("resources{group}")],
            all => all.iter().map(|it| format!("{it}{group}")).collect(),
        };
        let mut text = resources.join(", ");
        for (word, list) in [("named", &self.resource_names), ("in", &self.namespaces)] {
            if !list.is_empty() {
                text.push_str(&format!(" {word} {}", list.join(", ")));
            }
        }
        if let Some((at, _)) = text.char_indices().nth(TEXT_BYTES_MAX) {
            text.truncate(at);
            text.push('…');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_strictly() {
        let head = "apiVersion: admission.rhumb/v1\nkind: CriticalResources\n";
        let table = [
            ("", "it is empty"),
            ("\n# only words\n", "it is empty"),
            ("[]", "line 1, column 1: "),
            (
                "apiVersion: v1\nkind: CriticalResources\nrules: []\n",
                "it is a CriticalResources of v1",
            ),
            (
                "apiVersion: admission.rhumb/v1\nkind: Critical\nrules: []\n",
                "it is a Critical of admission.rhumb/v1",
            ),
            (
                "{apiVersion: admission.rhumb/v1, kind: CriticalResources}",
                "it has no rules",
            ),
            ("HEADrules: []\n", "it has no rules"),
            ("HEADrules: all\n", "line 3, column 8: "),
            ("HEADrule: []\n", "line 3, column 1: unknown field"),
            (
                "HEADrules:\n- resources: [pods]\n  resource: [pods]\n",
                "line 5, column 3: unknown field",
            ),
            ("HEADrules:\n- resources: pods\n", "line 4, column 14: "),
            ("HEADrules:\n- resources: [{}]\n", "line 4, column 15: "),
            (
                "HEADrules:\n- resources: [pods]\n- {}\n",
                "line 5: the rule names nothing",
            ),
            (
                "HEADrules:\n- apiGroups: ['*']\n  resources: ['*/*']\n",
                "line 4: the rule names nothing",
            ),
            (
                "HEADrules:\n- operations: [CREATE]\n",
                "line 4: the rule names nothing",
            ),
            (
                "HEADrules:\n- namespaceSelector: {matchLabel: {}}\n",
                "line 4, column 23: unknown field",
            ),
            (
                "HEADrules:\n- namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}\n",
                "line 4: namespaceSelector: ",
            ),
            (
                "HEADrules:\n- name: \"two\\nlines\"\n  resources: [pods]\n",
                "line 4: name: it must be a single line",
            ),
            ("HEADrules:\n- resources: [pods\n", "line "),
            (
                "HEADrules:\n- resources: [pods]\nrules: []\n",
                "line 5, column 1: duplicate mapping key: rules",
            ),
        ];
        for (text, want) in table {
            let text = text.replace("HEAD", head);
            match CriticalResources::parse(&text) {
                Ok(_) => panic!("{text:?} is accepted"),
                Err(error) => {
                    let error = error.to_string();

                    assert!(error.contains(want), "{text:?}: {error}");
                    assert_eq!(error.lines().count(), 1, "{error}");
                }
            }
        }
        let many = format!("{head}rules:\n{}", "- resources: [pods]\n".repeat(65));
        let error = CriticalResources::parse(&many)
            .expect_err("too many")
            .to_string();
        assert_eq!(error, "it has 65 rules; 64 are the most");
    }

    #[test]
    fn a_rule_without_a_name_is_described() {
        let table = [
            ("resources: [pods]", "pods"),
            (
                "apiGroups: [apps], resources: [deployments]",
                "deployments.apps",
            ),
            ("apiGroups: [apps]", "resources.apps"),
            (
                "resources: [pods, nodes], resourceNames: [a], namespaces: [b, c]",
                "pods, nodes named a in b, c",
            ),
        ];
        for (rule, want) in table {
            let file = format!(
                "{{apiVersion: admission.rhumb/v1, kind: CriticalResources, rules: [{{{rule}}}]}}"
            );
            let critical = CriticalResources::parse(&file).expect("a list");
            let names: Vec<&str> = critical.rules().map(CriticalRule::name).collect();
            assert_eq!(names, [want], "{rule}");
        }
    }

    #[test]
    fn the_example_is_what_is_built_in() {
        let example = include_str!("../../../../examples/admission/critical-resources.yaml");
        let example = CriticalResources::parse(example).expect("a list");
        let told = |critical: &CriticalResources| -> Vec<String> {
            let told = |rule: &CriticalRule| format!("{} {} {}", rule.name, rule.reason, rule.json);
            critical.rules().map(told).collect()
        };
        assert_eq!(told(&example), told(&CriticalResources::default()));
    }
}
