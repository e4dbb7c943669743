//! Parses the file of `--critical-resources-file` (`CriticalResources`).
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
//! The file replaces the built-in list. Besides `name` and `reason`, which appear in warnings, an entry has the fields
//! of an exclusion rule, with the same meaning.

use std::collections::BTreeMap;

use rhumb_meta::{ConfigFileError, read_file};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CriticalResources, CriticalRule};
use crate::exclusion_rule::{ExclusionRule, parse_selector};

const API_VERSION: &str = "admission.rhumb/v1";
const KIND: &str = "CriticalResources";
const MAX_RULES: usize = 64;
/// Maximum length of a name and of a reason: they go into a `Warning` header.
const MAX_TEXT_BYTES: usize = 120;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CriticalResourcesFile {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    rules: Vec<serde_saphyr::Spanned<CriticalRuleEntry>>,
}

/// A rule as it is written in the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct CriticalRuleEntry {
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
    pub(super) namespace_selector: Option<LabelSelectorEntry>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct LabelSelectorEntry {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<SelectorRequirementEntry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SelectorRequirementEntry {
    key: String,
    operator: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
}

impl CriticalResources {
    /// Parses a file in YAML or JSON. The caller validates the rules as exclusion rules, which needs the API types.
    pub fn parse(text: &str) -> Result<CriticalResources, ConfigFileError> {
        let file: CriticalResourcesFile = read_file(text)?;
        if file.kind != KIND || file.api_version != API_VERSION {
            let (kind, version) = (file.kind, file.api_version);
            let reason = format!("kind must be {KIND} of {API_VERSION}, not {kind} of {version}");
            return Err(ConfigFileError::whole(reason));
        }
        if file.rules.is_empty() {
            let reason = "rules is empty, so nothing would be critical; omit the file to use the built-in list";
            return Err(ConfigFileError::whole(reason));
        }
        if file.rules.len() > MAX_RULES {
            let reason = format!(
                "too many rules: {}, at most {MAX_RULES} are allowed",
                file.rules.len()
            );
            return Err(ConfigFileError::whole(reason));
        }
        let rules = file.rules.into_iter().map(|form| {
            let line = form.referenced.line();
            form.value
                .check()
                .map_err(|reason| ConfigFileError::at((line, 0), reason))?;
            Ok(form.value.into_rule(line))
        });
        Ok(CriticalResources {
            rules: rules.collect::<Result<_, ConfigFileError>>()?,
        })
    }
}

impl CriticalRuleEntry {
    fn check(&self) -> Result<(), String> {
        for (field, text) in [("name", &self.name), ("reason", &self.reason)] {
            if text.len() > MAX_TEXT_BYTES {
                return Err(format!("{field} is longer than {MAX_TEXT_BYTES} bytes"));
            }
            if text.chars().any(char::is_control) {
                return Err(format!("{field} must be a single line"));
            }
        }
        if self.matches_everything() {
            let fields = "apiGroups, resources, resourceNames, namespaces or namespaceSelector";
            return Err(format!(
                "the rule matches everything: set at least one of {fields}"
            ));
        }
        if let Some(selector) = &self.namespace_selector {
            let selector = serde_json::to_value(selector).map_err(|error| error.to_string())?;
            parse_selector(&selector).map_err(|reason| format!("namespaceSelector: {reason}"))?;
        }
        Ok(())
    }

    /// Whether it has only wildcards, so that it would match everything.
    fn matches_everything(&self) -> bool {
        let is_open = |list: &[String]| list.iter().all(|word| matches!(&**word, "*" | "*/*"));
        is_open(&self.api_groups)
            && is_open(&self.resources)
            && self.resource_names.is_empty()
            && self.namespaces.is_empty()
            && self.namespace_selector.is_none()
    }

    pub(super) fn into_rule(self, line: u64) -> CriticalRule {
        // Lists, maps and strings can always be encoded as JSON.
        let json = serde_json::to_string(&self).unwrap_or_default();
        let value: Value = serde_json::from_str(&json).unwrap_or_default();
        CriticalRule {
            exclusion: ExclusionRule::from_json(&value),
            name: match self.name.is_empty() {
                true => self.default_name(),
                false => self.name,
            },
            reason: self.reason,
            json,
            line,
        }
    }

    /// A name for a rule without one: `leases.coordination.k8s.io in kube-system`.
    fn default_name(&self) -> String {
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
        if let Some((at, _)) = text.char_indices().nth(MAX_TEXT_BYTES) {
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
    fn files_are_parsed_strictly() {
        let head = "apiVersion: admission.rhumb/v1\nkind: CriticalResources\n";
        let table = [
            ("", "the file is empty"),
            ("\n# only words\n", "the file is empty"),
            ("[]", "line 1, column 1: "),
            (
                "apiVersion: v1\nkind: CriticalResources\nrules: []\n",
                "kind must be CriticalResources of admission.rhumb/v1, not CriticalResources of v1",
            ),
            (
                "apiVersion: admission.rhumb/v1\nkind: Critical\nrules: []\n",
                "kind must be CriticalResources of admission.rhumb/v1, not Critical of admission.rhumb/v1",
            ),
            (
                "{apiVersion: admission.rhumb/v1, kind: CriticalResources}",
                "rules is empty",
            ),
            ("HEADrules: []\n", "rules is empty"),
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
                "line 5: the rule matches everything",
            ),
            (
                "HEADrules:\n- apiGroups: ['*']\n  resources: ['*/*']\n",
                "line 4: the rule matches everything",
            ),
            (
                "HEADrules:\n- operations: [CREATE]\n",
                "line 4: the rule matches everything",
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
                "line 4: name must be a single line",
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
            .expect_err("65 rules are rejected")
            .to_string();
        assert_eq!(error, "too many rules: 65, at most 64 are allowed");
    }

    #[test]
    fn unnamed_rules_are_described() {
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
            let critical =
                CriticalResources::parse(&file).expect("a valid critical resources file");
            let names: Vec<&str> = critical.rules().map(CriticalRule::name).collect();
            assert_eq!(names, [want], "{rule}");
        }
    }

    #[test]
    fn example_file_equals_the_built_in_rules() {
        let example = include_str!("../../../../examples/admission/critical-resources.yaml");
        let example = CriticalResources::parse(example).expect("a valid critical resources file");
        let describe_all = |critical: &CriticalResources| -> Vec<String> {
            let describe =
                |rule: &CriticalRule| format!("{} {} {}", rule.name, rule.reason, rule.json);
            critical.rules().map(describe).collect()
        };
        assert_eq!(
            describe_all(&example),
            describe_all(&CriticalResources::default())
        );
    }
}
