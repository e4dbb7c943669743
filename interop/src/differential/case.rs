//! Parses the case files under `cases/`, which define requests.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// A case file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// The file name without extension.
    #[serde(skip)]
    pub name: String,
    /// Abbreviations for path prefixes.
    #[serde(default, rename = "let")]
    pub variables: BTreeMap<String, String>,
    /// Named base objects for request bodies.
    #[serde(default)]
    pub objects: BTreeMap<String, Value>,
    pub cases: Vec<DifferentialCase>,
}

/// Consecutive steps in their own namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DifferentialCase {
    pub name: String,
    pub steps: Vec<RequestStep>,
}

/// One request, or one per variant.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestStep {
    /// Method and path.
    #[serde(rename = "do")]
    pub request: String,
    /// Content type of the body. Default: JSON, or merge patch for PATCH.
    #[serde(rename = "type")]
    pub content_type: Option<String>,
    pub accept: Option<String>,
    /// `nobody` or a token. Default: the administrator.
    pub auth: Option<String>,
    /// The impersonated user and groups.
    #[serde(rename = "as")]
    pub user: Option<String>,
    pub groups: Vec<String>,
    pub headers: BTreeMap<String, String>,
    pub body: Option<Value>,
    /// A body that is sent unchanged.
    pub raw: Option<String>,
    /// The name of the base object for the body.
    pub object: Option<String>,
    /// A merge patch applied to the base object.
    pub with: Option<Value>,
    /// Merge patches; the request is sent once for each.
    pub variants: Vec<Value>,
    /// Number of spaces appended to the body.
    pub padding_bytes: usize,
    /// Values of the response for later steps: names and JSON pointers.
    pub save: BTreeMap<String, String>,
    /// Reads the response as a stream until this many events arrived.
    pub events: Option<usize>,
    /// Fields whose presence, but not value, is compared. `*` matches anything.
    pub ignore: Vec<String>,
    /// Lists whose order is ignored.
    pub unordered: Vec<String>,
    /// Texts after which a number is not compared.
    pub mask: Vec<String>,
    /// Delay after the step, for changes that the server applies asynchronously.
    pub wait_ms: u64,
}

impl CaseFile {
    fn parse(name: &str, text: &str) -> Result<Self> {
        // Otherwise YAML would parse `y` and `n` as booleans.
        let options = serde_saphyr::options! { strict_booleans: true };
        let mut topic: Self = serde_saphyr::from_str_with_options(text, options)?;
        name.clone_into(&mut topic.name);
        let mut names: Vec<&str> = topic.cases.iter().map(|case| case.name.as_str()).collect();
        names.sort_unstable();
        for pair in names.windows(2) {
            ensure!(pair[0] != pair[1], "two cases are called {:?}", pair[0]);
        }
        for step in topic.cases.iter().flat_map(|case| &case.steps) {
            topic.check(step).with_context(|| step.request.clone())?;
        }
        Ok(topic)
    }

    fn check(&self, step: &RequestStep) -> Result<()> {
        ensure!(
            step.request.contains(' '),
            "a step is a method and a path, such as GET /api"
        );
        if let Some(object) = &step.object {
            ensure!(self.objects.contains_key(object), "no object {object:?}");
        }
        Ok(())
    }
}

impl RequestStep {
    /// The request body for one variant.
    pub fn body(&self, objects: &BTreeMap<String, Value>, variant: Option<&Value>) -> String {
        let mut text = match (&self.raw, &self.body, &self.object) {
            (Some(raw), ..) => raw.clone(),
            (None, None, None) => String::new(),
            (None, body, object) => {
                let object = object.as_ref().and_then(|name| objects.get(name));
                let mut tree = body.as_ref().or(object).cloned().unwrap_or_default();
                for patch in [self.with.as_ref(), variant].into_iter().flatten() {
                    merge(&mut tree, patch);
                }
                tree.to_string()
            }
        };
        text.extend(std::iter::repeat_n(' ', self.padding_bytes));
        text
    }
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Reads all topics, or those named.
pub fn topics(directory: &Path, wanted: &[String]) -> Result<Vec<CaseFile>> {
    let mut topics = Vec::new();
    let entries = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if path.extension().is_none_or(|end| end != "yaml")
            || !(wanted.is_empty() || wanted.iter().any(|wanted| *wanted == name))
        {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        topics
            .push(CaseFile::parse(&name, &text).with_context(|| format!("cases of topic {name}"))?);
    }
    if let Some(unknown) = wanted
        .iter()
        .find(|wanted| !topics.iter().any(|topic| topic.name == **wanted))
    {
        bail!("no topic {unknown:?} under {}", directory.display());
    }
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(topics)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_variant_is_merged_into_its_object() {
        let text = "
objects: {pod: {kind: Pod, metadata: {name: a, labels: {x: y}}}}
cases:
- name: one
  steps: [{do: POST /api, object: pod, with: {metadata: {labels: null}}}]
";
        let topic = CaseFile::parse("t", text).expect("a topic");
        let variant = json!({"metadata": {"name": "b"}});
        let body = topic.cases[0].steps[0].body(&topic.objects, Some(&variant));
        assert_eq!(body, r#"{"kind":"Pod","metadata":{"name":"b"}}"#);
    }

    #[test]
    fn every_file_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("differential");
        let topics = topics(&folder.join("cases"), &[]).expect("readable");
        assert!(topics.iter().all(|topic| !topic.cases.is_empty()));
        crate::differential::expected_differences::read(&folder.join("differences.yaml"))
            .expect("readable");
    }

    #[test]
    fn invalid_steps_are_rejected() {
        let check = |text: &str| CaseFile::parse("t", text).is_err();
        assert!(check("cases: [{name: a, steps: [{do: GET}]}]"));
        assert!(check(
            "cases: [{name: a, steps: [{do: GET /, object: none}]}]"
        ));
        assert!(check("cases: [{name: a, steps: [{do: GET /, typo: 1}]}]"));
        assert!(check("cases: [{name: a, steps: []}, {name: a, steps: []}]"));
    }
}
