//! What a simulated node looks like: built in, or from a file with a Node for each sort of them.

use std::collections::BTreeMap;

use rhumb_meta::validation::{dns1123_label, label_value, qualified_name};
use rhumb_meta::{FileError, Quantity};
use serde::{Deserialize, Serialize};

use crate::fleet::{PODS_MAX, Pool};
use crate::names::COUNT;

const BYTES_MAX: usize = 256 * 1024;
const DOCUMENTS_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 40;
const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The fields of a Node that can be chosen. Everything else about a simulated node is made up by rhumb, so that it is
/// no slip which goes unnoticed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Template {
    api_version: String,
    kind: String,
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: Spec,
    #[serde(default)]
    pub(crate) status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Metadata {
    /// What names of nodes begin with.
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Spec {
    pub(crate) taints: Vec<Taint>,
    pub(crate) unschedulable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Taint {
    pub(crate) key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) value: String,
    pub(crate) effect: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Status {
    pub(crate) capacity: BTreeMap<String, Amount>,
    pub(crate) allocatable: BTreeMap<String, Amount>,
    pub(crate) node_info: NodeInfo,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct NodeInfo {
    pub(crate) architecture: String,
    pub(crate) operating_system: String,
    pub(crate) kernel_version: String,
    pub(crate) os_image: String,
    pub(crate) kubelet_version: String,
    pub(crate) container_runtime_version: String,
}

/// A quantity, also where YAML takes it for a number.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    Text(String),
    Whole(u64),
    Decimal(f64),
}

impl Amount {
    pub(crate) fn text(&self) -> String {
        match self {
            Amount::Text(text) => text.clone(),
            Amount::Whole(number) => number.to_string(),
            Amount::Decimal(number) => number.to_string(),
        }
    }
}

/// What every node has that no template says otherwise about.
pub(crate) const CAPACITY: [(&str, &str); 4] = [
    ("cpu", "32"),
    ("memory", "256Gi"),
    ("ephemeral-storage", "1Ti"),
    ("pods", "110"),
];

/// All sorts of nodes in a file. `nodes` is how many there are to be, if that was said.
pub(crate) fn read(text: &str, nodes: Option<usize>) -> Result<Vec<Pool>, FileError> {
    if text.len() > BYTES_MAX {
        let reason = format!("it is longer than {BYTES_MAX} bytes");
        return Err(FileError::whole(reason));
    }
    let templates: Vec<Template> = serde_saphyr::from_multiple(text).map_err(|problem| {
        let place = problem.location();
        let place = place.map_or((0, 0), |place| (place.line(), place.column()));
        FileError::at(place, message(&problem))
    })?;
    if templates.is_empty() {
        return Err(FileError::whole("there is no Node in it"));
    }
    if templates.len() > DOCUMENTS_MAX {
        let reason = format!("there are more than {DOCUMENTS_MAX} documents in it");
        return Err(FileError::whole(reason));
    }
    let mut pools = Vec::new();
    for (number, template) in templates.into_iter().enumerate() {
        let count = check(&template).map_err(|problem| {
            let name = &template.metadata.name;
            FileError::whole(format!("document {} ({name:?}): {problem}", number + 1))
        })?;
        pools.push((count, template));
    }
    share(pools, nodes).map_err(FileError::whole)
}

/// The error without the piece of the file that it would show, and without its place, which is said before.
fn message(problem: &serde_saphyr::Error) -> String {
    let text = problem.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    let ends = [" at line ", ", set DuplicateKeyPolicy"];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    let text = text.get(..end.unwrap_or(text.len()));
    text.unwrap_or_default().to_owned()
}

/// How many nodes it asks for, if it says.
fn check(template: &Template) -> Result<Option<usize>, String> {
    let kind = (template.api_version.as_str(), template.kind.as_str());
    if kind != ("v1", "Node") {
        return Err(format!(
            "a Node of apiVersion v1 is expected, and it is {:?} of {:?}",
            kind.1, kind.0
        ));
    }
    let metadata = &template.metadata;
    if !metadata.name.is_empty() {
        let problem = dns1123_label(&metadata.name).into_iter().next();
        fits("metadata.name", problem)?;
        if metadata.name.len() > NAME_BYTES_MAX {
            let reason = format!("must be no more than {NAME_BYTES_MAX} bytes");
            fits("metadata.name", Some(reason))?;
        }
    }
    for (key, value) in &metadata.labels {
        let field = format!("metadata.labels[{key}]");
        fits(&field, qualified_name(key).into_iter().next())?;
        fits(&field, label_value(value).into_iter().next())?;
    }
    for key in metadata.annotations.keys() {
        let problem = qualified_name(&key.to_lowercase()).into_iter().next();
        fits(&format!("metadata.annotations[{key}]"), problem)?;
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

fn fits(field: &str, problem: Option<impl std::fmt::Display>) -> Result<(), String> {
    match problem {
        None => Ok(()),
        Some(problem) => Err(format!("{field}: {problem}")),
    }
}

fn check_taint(field: &str, taint: &Taint) -> Result<(), String> {
    let problem = qualified_name(&taint.key).into_iter().next();
    fits(&format!("{field}.key"), problem)?;
    let problem = label_value(&taint.value).into_iter().next();
    fits(&format!("{field}.value"), problem)?;
    let is_known = TAINT_EFFECTS.contains(&taint.effect.as_str());
    let problem = (!is_known).then(|| format!("must be one of {}", TAINT_EFFECTS.join(", ")));
    fits(&format!("{field}.effect"), problem)
}

fn check_amount(field: &str, name: &str, text: &str) -> Result<(), String> {
    fits(field, qualified_name(name).into_iter().next())?;
    let problem = match Quantity::parse(text) {
        Err(problem) => Some(problem.to_string()),
        Ok(_) if text.starts_with('-') => Some("must be greater than or equal to 0".to_owned()),
        Ok(_) if name == "pods" => match text.parse::<u32>() {
            Ok(pods) if pods <= PODS_MAX => None,
            _ => Some(format!("must be a number up to {PODS_MAX}")),
        },
        Ok(_) => None,
    };
    fits(field, problem)
}

/// Templates without a count of their own share what is left; there can be one of them.
fn share(
    templates: Vec<(Option<usize>, Template)>,
    nodes: Option<usize>,
) -> Result<Vec<Pool>, String> {
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
    let pools = templates.into_iter().map(|(count, template)| Pool {
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
    fn nodes_are_shared_among_templates() {
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
    fn quantities_may_look_like_numbers() {
        let text = format!("{NODE}status: {{capacity: {{a: 8, b: 0.5, c: '7', d: 7500m}}}}\n");
        let pools = read(&text, Some(1)).expect("a template");
        let capacity = pools[0].template.status.capacity.values();
        let capacity: Vec<String> = capacity.map(Amount::text).collect();
        assert_eq!(capacity, ["8", "0.5", "7", "7500m"]);
    }

    #[test]
    fn a_slip_is_refused_with_its_place() {
        for (text, says) in [
            ("", "there is no Node in it"),
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
