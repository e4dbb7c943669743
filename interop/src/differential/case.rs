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
    /// Variables for `${name}`, such as path prefixes.
    #[serde(default)]
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
    pub request: String,
    /// Content type of the body. Default: JSON, or merge patch for PATCH.
    pub content_type: Option<String>,
    pub accept: Option<String>,
    /// `anonymous` or a bearer token. Default: the administrator.
    pub auth: Option<String>,
    /// The impersonated user and groups.
    pub user: Option<String>,
    pub groups: Vec<String>,
    pub headers: BTreeMap<String, String>,
    pub body: Option<Value>,
    /// A body that is sent unchanged.
    pub raw: Option<String>,
    /// The name of the base object for the body.
    pub object: Option<String>,
    /// A merge patch applied to the base object.
    pub patch: Option<Value>,
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
    pub mask_numbers_after: Vec<String>,
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
            ensure!(pair[0] != pair[1], "duplicate case name {:?}", pair[0]);
        }
        for step in topic.cases.iter().flat_map(|case| &case.steps) {
            topic.check(step).with_context(|| step.request.clone())?;
        }
        Ok(topic)
    }

    /// The name of a case within all topics: `topic/case`.
    pub fn qualified_name(&self, case: &DifferentialCase) -> String {
        format!("{}/{}", self.name, case.name)
    }

    fn check(&self, step: &RequestStep) -> Result<()> {
        ensure!(
            step.request.contains(' '),
            "a request is a method and a path, such as GET /api"
        );
        if let Some(object) = &step.object {
            ensure!(
                self.objects.contains_key(object),
                "object {object:?} is not defined under `objects`"
            );
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
                let mut object = body.as_ref().or(object).cloned().unwrap_or_default();
                for patch in [self.patch.as_ref(), variant].into_iter().flatten() {
                    merge(&mut object, patch);
                }
                object.to_string()
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

/// Reads the case files of all topics, or of those named.
pub fn read_topics(wanted: &[String]) -> Result<Vec<CaseFile>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("differential/cases");
    let mut topics = Vec::new();
    let entries = std::fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if path.extension().is_none_or(|end| end != "yaml")
            || !(wanted.is_empty() || wanted.iter().any(|wanted| *wanted == name))
        {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        topics.push(CaseFile::parse(&name, &text).with_context(|| path.display().to_string())?);
    }
    if let Some(unknown) = wanted
        .iter()
        .find(|wanted| !topics.iter().any(|topic| topic.name == **wanted))
    {
        bail!(
            "no case file {}",
            directory.join(format!("{unknown}.yaml")).display()
        );
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
  steps: [{request: POST /api, object: pod, patch: {metadata: {labels: null}}}]
";
        let topic = CaseFile::parse("t", text).expect("valid cases");
        let variant = json!({"metadata": {"name": "b"}});
        let body = topic.cases[0].steps[0].body(&topic.objects, Some(&variant));
        assert_eq!(body, r#"{"kind":"Pod","metadata":{"name":"b"}}"#);
    }

    #[test]
    fn all_case_files_are_valid() {
        let topics = read_topics(&[]).expect("valid case files");
        assert!(topics.iter().all(|topic| !topic.cases.is_empty()));
    }

    #[test]
    fn invalid_steps_are_rejected() {
        let check = |text: &str| CaseFile::parse("t", text).is_err();
        assert!(check("cases: [{name: a, steps: [{request: GET}]}]"));
        assert!(check(
            "cases: [{name: a, steps: [{request: GET /, object: none}]}]"
        ));
        assert!(check(
            "cases: [{name: a, steps: [{request: GET /, typo: 1}]}]"
        ));
        assert!(check("cases: [{name: a, steps: []}, {name: a, steps: []}]"));
    }
}
