//! Node templates: YAML documents of kind Node that simulated nodes are created from, and the built-in defaults.

use std::collections::BTreeMap;

use rhumb_meta::validation::{dns1123_label, label_value, qualified_name};
use rhumb_meta::{ConfigFileError, Quantity};
use serde::{Deserialize, Serialize};

use crate::names::COUNT;
use crate::node_pools::{NodePool, PODS_MAX};

const BYTES_MAX: usize = 256 * 1024;
const DOCUMENTS_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 40;
const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The fields of a Node that a template can set. rhumb sets all others, so unknown fields are rejected as mistakes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NodeTemplate {
    api_version: String,
    kind: String,
    #[serde(default)]
    pub(crate) metadata: TemplateMetadata,
    #[serde(default)]
    pub(crate) spec: TemplateSpec,
    #[serde(default)]
    pub(crate) status: TemplateStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct TemplateMetadata {
    /// Prefix of the node names.
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct TemplateSpec {
    pub(crate) taints: Vec<TemplateTaint>,
    pub(crate) unschedulable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct TemplateTaint {
    pub(crate) key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) value: String,
    pub(crate) effect: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct TemplateStatus {
    pub(crate) capacity: BTreeMap<String, YamlQuantity>,
    pub(crate) allocatable: BTreeMap<String, YamlQuantity>,
    pub(crate) node_info: TemplateNodeSystemInfo,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct TemplateNodeSystemInfo {
    pub(crate) architecture: String,
    pub(crate) operating_system: String,
    pub(crate) kernel_version: String,
    pub(crate) os_image: String,
    pub(crate) kubelet_version: String,
    pub(crate) container_runtime_version: String,
}

/// A quantity, which YAML may parse as a number.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum YamlQuantity {
    Text(String),
    Whole(u64),
    Decimal(f64),
}

impl YamlQuantity {
    pub(crate) fn text(&self) -> String {
        match self {
            YamlQuantity::Text(text) => text.clone(),
            YamlQuantity::Whole(number) => number.to_string(),
            YamlQuantity::Decimal(number) => number.to_string(),
        }
    }
}

/// Default capacity of a node.
pub(crate) const DEFAULT_CAPACITY: [(&str, &str); 4] = [
    ("cpu", "32"),
    ("memory", "256Gi"),
    ("ephemeral-storage", "1Ti"),
    ("pods", "110"),
];

/// Parses and validates the templates of a file. `nodes` is the total number of nodes, if given.
pub(crate) fn read(text: &str, nodes: Option<usize>) -> Result<Vec<NodePool>, ConfigFileError> {
    if text.len() > BYTES_MAX {
        let reason = format!("the file is longer than {BYTES_MAX} bytes");
        return Err(ConfigFileError::whole(reason));
    }
    let templates: Vec<NodeTemplate> = serde_saphyr::from_multiple(text).map_err(|problem| {
        let identity = problem.location();
        let identity = identity.map_or((0, 0), |identity| (identity.line(), identity.column()));
        ConfigFileError::at(identity, message(&problem))
    })?;
    if templates.is_empty() {
        return Err(ConfigFileError::whole("the file contains no Node"));
    }
    if templates.len() > DOCUMENTS_MAX {
        let reason = format!("the file contains more than {DOCUMENTS_MAX} documents");
        return Err(ConfigFileError::whole(reason));
    }
    let mut pools = Vec::new();
    for (number, template) in templates.into_iter().enumerate() {
        let count = check(&template).map_err(|problem| {
            let name = &template.metadata.name;
            ConfigFileError::whole(format!("document {} ({name:?}): {problem}", number + 1))
        })?;
        pools.push((count, template));
    }
    distribute_nodes(pools, nodes).map_err(ConfigFileError::whole)
}

/// The parse error without its source snippet and position, which the caller adds.
fn message(problem: &serde_saphyr::Error) -> String {
    let text = problem.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    let ends = [" at line ", ", set DuplicateKeyPolicy"];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    let text = text.get(..end.unwrap_or(text.len()));
    text.unwrap_or_default().to_owned()
}

/// Validates a template; returns its node count, if it has one.
fn check(template: &NodeTemplate) -> Result<Option<usize>, String> {
    let kind = (template.api_version.as_str(), template.kind.as_str());
    if kind != ("v1", "Node") {
        return Err(format!(
            "a Node of apiVersion v1 is expected, got kind {:?} of apiVersion {:?}",
            kind.1, kind.0
        ));
    }
    let metadata = &template.metadata;
    if !metadata.name.is_empty() {
        let problem = dns1123_label(&metadata.name).into_iter().next();
        check_field("metadata.name", problem)?;
        if metadata.name.len() > NAME_BYTES_MAX {
            let reason = format!("must be no more than {NAME_BYTES_MAX} bytes");
            check_field("metadata.name", Some(reason))?;
        }
    }
    for (key, value) in &metadata.labels {
        let field = format!("metadata.labels[{key}]");
        check_field(&field, qualified_name(key).into_iter().next())?;
        check_field(&field, label_value(value).into_iter().next())?;
    }
    for key in metadata.annotations.keys() {
        let problem = qualified_name(&key.to_lowercase()).into_iter().next();
        check_field(&format!("metadata.annotations[{key}]"), problem)?;
    }
    for (number, taint) in template.spec.taints.iter().enumerate() {
        check_taint(&format!("spec.taints[{number}]"), taint)?;
    }
    for (field, amounts) in [
        ("status.capacity", &template.status.capacity),
        ("status.allocatable", &template.status.allocatable),
    ] {
        for (name, amount) in amounts {
            check_amount(&format!("{field}[{name}]"), name, &amount.text())?;
        }
    }
    match metadata.annotations.get(COUNT).map(|count| count.parse()) {
        None => Ok(None),
        Some(Ok(count)) => Ok(Some(count)),
        Some(Err(_)) => Err(format!(
            "metadata.annotations[{COUNT}]: must be a number of nodes"
        )),
    }
}

fn check_field(field: &str, problem: Option<impl std::fmt::Display>) -> Result<(), String> {
    match problem {
        None => Ok(()),
        Some(problem) => Err(format!("{field}: {problem}")),
    }
}

fn check_taint(field: &str, taint: &TemplateTaint) -> Result<(), String> {
    let problem = qualified_name(&taint.key).into_iter().next();
    check_field(&format!("{field}.key"), problem)?;
    let problem = label_value(&taint.value).into_iter().next();
    check_field(&format!("{field}.value"), problem)?;
    let is_known = TAINT_EFFECTS.contains(&taint.effect.as_str());
    let problem = (!is_known).then(|| format!("must be one of {}", TAINT_EFFECTS.join(", ")));
    check_field(&format!("{field}.effect"), problem)
}

fn check_amount(field: &str, name: &str, text: &str) -> Result<(), String> {
    check_field(field, qualified_name(name).into_iter().next())?;
    let problem = match Quantity::parse(text) {
        Err(problem) => Some(problem.to_string()),
        Ok(_) if text.starts_with('-') => Some("must be greater than or equal to 0".to_owned()),
        Ok(_) if name == "pods" => match text.parse::<u32>() {
            Ok(pods) if pods <= PODS_MAX => None,
            _ => Some(format!("must be a number up to {PODS_MAX}")),
        },
        Ok(_) => None,
    };
    check_field(field, problem)
}

/// Gives the remaining nodes to the template without a count; there can be only one such template.
fn distribute_nodes(
    templates: Vec<(Option<usize>, NodeTemplate)>,
    nodes: Option<usize>,
) -> Result<Vec<NodePool>, String> {
    let counted = templates.iter().filter_map(|(count, _)| *count);
    let counted = counted.fold(0_usize, usize::saturating_add);
    let open = templates
        .iter()
        .filter(|(count, _)| count.is_none())
        .count();
    let rest = match (open, nodes) {
        (0, Some(nodes)) if nodes != counted => {
            return Err(format!(
                "its documents ask for {counted} nodes in all ({COUNT}), and --nodes for {nodes}"
            ));
        }
        (0, _) => 0,
        (1, None) => {
            return Err(format!(
                "one of its documents does not say how many nodes are made of it: add the annotation {COUNT}, or say \
                 how many there are in all with --nodes"
            ));
        }
        (1, Some(nodes)) => nodes.checked_sub(counted).ok_or_else(|| {
            format!("its documents ask for {counted} nodes ({COUNT}), and --nodes for only {nodes} in all")
        })?,
        _ => {
            return Err(format!(
                "{open} of its documents do not say how many nodes are made of them: only one can be without the \
                 annotation {COUNT}"
            ));
        }
    };
    let pools = templates.into_iter().map(|(count, template)| NodePool {
        count: count.unwrap_or(rest),
        template,
    });
    Ok(pools.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "apiVersion: v1\nkind: Node\n";

    fn counts(text: &str, nodes: Option<usize>) -> Result<Vec<usize>, String> {
        let pools = read(text, nodes).map_err(|error| error.to_string())?;
        Ok(pools.iter().map(|pool| pool.count).collect())
    }

    #[track_caller]
    fn check_error(text: &str, says: &str) {
        let error = counts(text, Some(3)).expect_err("refused");
        assert!(error.contains(says), "{error}");
    }

    #[test]
    fn node_count_is_distributed_over_templates() {
        let counted = |count: usize| {
            format!("{NODE}metadata: {{annotations: {{simulation.rhumb/count: \"{count}\"}}}}\n")
        };
        assert_eq!(counts(NODE, Some(3)), Ok(vec![3]));
        let two = format!("{}---\n{NODE}", counted(2));
        assert_eq!(counts(&two, Some(5)), Ok(vec![2, 3]));
        let all = format!("{}---\n{}", counted(2), counted(4));
        assert_eq!(counts(&all, None), Ok(vec![2, 4]));
        assert_eq!(counts(&all, Some(6)), Ok(vec![2, 4]));
        for (text, nodes, says) in [
            (&all, Some(7), "ask for 6 nodes in all"),
            (&two, Some(1), "--nodes for only 1 in all"),
            (&two, None, "does not say how many nodes are made of it"),
            (
                &format!("{NODE}---\n{NODE}"),
                Some(9),
                "only one can be without",
            ),
        ] {
            let error = counts(text, nodes).expect_err("refused");
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn quantities_may_be_yaml_numbers() {
        let text = format!("{NODE}status: {{capacity: {{a: 8, b: 0.5, c: '7', d: 7500m}}}}\n");
        let pools = read(&text, Some(1)).expect("a template");
        let capacity = pools[0].template.status.capacity.values();
        let capacity: Vec<String> = capacity.map(YamlQuantity::text).collect();
        assert_eq!(capacity, ["8", "0.5", "7", "7500m"]);
    }

    #[test]
    fn invalid_templates_are_rejected_with_the_location() {
        for (text, says) in [
            ("", "the file contains no Node"),
            (
                "apiVersion: v1\nkind: Pod\n",
                "a Node of apiVersion v1 is expected",
            ),
            ("spec: {podCIDR: 10.0.0.0/8}\n", "unknown field `podCIDR`"),
            (
                "metadata: {name: A_B}\n",
                "document 1 (\"A_B\"): metadata.name: a lowercase RFC 1123 label",
            ),
            (
                "metadata: {labels: {a: '?'}}\n",
                "metadata.labels[a]: a valid label",
            ),
            ("metadata: {labels: {a: [1]}}\n", "line 3"),
            (
                "metadata: {annotations: {simulation.rhumb/count: many}}\n",
                "must be a number of nodes",
            ),
            (
                "spec: {taints: [{key: a, effect: Never}]}\n",
                "spec.taints[0].effect: must be one of NoSchedule,",
            ),
            (
                "spec: {taints: [{effect: NoSchedule}]}\n",
                "spec.taints[0].key: ",
            ),
            (
                "status: {capacity: {cpu: many}}\n",
                "status.capacity[cpu]: quantities must match",
            ),
            (
                "status: {capacity: {cpu: '-1'}}\n",
                "status.capacity[cpu]: must be greater than or equal to 0",
            ),
            (
                "status: {allocatable: {pods: 5000}}\n",
                "status.allocatable[pods]: must be a number up to 1000",
            ),
        ] {
            let is_whole = text.is_empty() || text.starts_with("apiVersion");
            let whole = if is_whole {
                text.to_owned()
            } else {
                format!("{NODE}{text}")
            };
            check_error(&whole, says);
        }
    }
}
