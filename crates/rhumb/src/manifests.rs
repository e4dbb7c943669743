//! Reads objects from manifest files: YAML or JSON, multi-document files and lists. Entry points: `read_objects`
//! and `StrictDecoder`.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use rhumb_api::Kind;
use rhumb_schema::{DecodeOptions, Table};
use serde_json::{Map, Value};

pub(crate) type UnstructuredObject = Map<String, Value>;

const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// All objects of a file, each with its location for error messages. `-` is standard input.
pub(crate) fn read(path: &Path) -> Result<Vec<(String, UnstructuredObject)>> {
    let shown = match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    };
    let text = read_text(path).with_context(|| shown.clone())?;
    let mut objects = Vec::new();
    let documents = split(&text);
    let count = documents.len();
    for (number, document) in documents.into_iter().enumerate() {
        let location = match count {
            1 => shown.clone(),
            _ => format!("{shown}, document {}", number + 1),
        };
        let value =
            rhumb_schema::read_yaml(document.as_bytes()).with_context(|| location.clone())?;
        add(value, location, &mut objects)?;
    }
    Ok(objects)
}

/// Splits a file into documents, with the separators that kubectl accepts.
fn split(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let (mut begin, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.starts_with("---") {
            documents.extend(text.get(begin..at));
            begin = at;
        }
        at += line.len();
    }
    documents.extend(text.get(begin..));
    let is_empty = |document: &&str| document.trim_start_matches("---").trim().is_empty();
    documents.retain(|document| !is_empty(document));
    documents
}

fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().take(BYTES_MAX).read_to_string(&mut text)?,
        _ => std::fs::File::open(path)?
            .take(BYTES_MAX)
            .read_to_string(&mut text)?,
    };
    if read as u64 >= BYTES_MAX {
        bail!("larger than {BYTES_MAX} bytes");
    }
    Ok(text)
}

/// Adds an object, or all items of a list. Empty documents are skipped.
fn add(
    document: Value,
    location: String,
    objects: &mut Vec<(String, UnstructuredObject)>,
) -> Result<()> {
    let mut object = match document {
        Value::Null => return Ok(()),
        Value::Object(object) => object,
        _ => bail!("{location}: not an object with apiVersion and kind"),
    };
    if let Some(missing) = missing_type(&object) {
        bail!("{location}: {missing}");
    }
    let kind = object.get("kind").and_then(Value::as_str);
    let kind = kind.unwrap_or_default();
    if !kind.ends_with("List") || !object.contains_key("items") {
        objects.push((location, object));
        return Ok(());
    }
    // The items of a typed list, such as PodList, may omit apiVersion and kind.
    let item_kind = kind.strip_suffix("List").unwrap_or_default().to_owned();
    let api_version = object.get("apiVersion").cloned().unwrap_or_default();
    let Some(Value::Array(items)) = object.remove("items") else {
        bail!("{location}: items is not a list");
    };
    for (number, mut item) in items.into_iter().enumerate() {
        if let (Value::Object(item), false) = (&mut item, item_kind.is_empty()) {
            item.entry("kind")
                .or_insert_with(|| item_kind.clone().into());
            item.entry("apiVersion")
                .or_insert_with(|| api_version.clone());
        }
        let location = format!("{location}, item {}", number + 1);
        match item {
            Value::Object(item) => match missing_type(&item) {
                Some(missing) => bail!("{location}: {missing}"),
                None => objects.push((location, item)),
            },
            _ => bail!("{location}: not an object with apiVersion and kind"),
        }
    }
    Ok(())
}

/// Which of apiVersion and kind an object lacks.
fn missing_type(object: &UnstructuredObject) -> Option<&'static str> {
    let has = |name: &str| object.get(name).is_some_and(Value::is_string);
    match (has("apiVersion"), has("kind")) {
        (true, true) => None,
        (false, true) => Some("apiVersion is missing"),
        (true, false) => Some("kind is missing"),
        (false, false) => Some("apiVersion and kind are missing"),
    }
}

/// Decodes objects of built-in kinds with strict field validation (upstream: `fieldValidation=Strict`): unknown and
/// duplicate fields are errors.
pub(crate) struct StrictDecoder {
    kinds: Vec<Kind>,
}

impl StrictDecoder {
    pub(crate) fn new() -> StrictDecoder {
        StrictDecoder {
            kinds: rhumb_api::kinds::all(),
        }
    }

    pub(crate) fn decode(&self, object: UnstructuredObject) -> Result<UnstructuredObject> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, name) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = self
            .kind(group, name)
            .ok_or_else(|| anyhow!("no kind {name:?} in API group {group:?}"))?;
        let served = kind
            .served_version(version)
            .ok_or_else(|| anyhow!("{name} is not served in {api_version:?}"))?;
        let table = Table::builtin();
        let of = table
            .type_id(&served.schema)
            .with_context(|| format!("the schema table has no {name}"))?;
        let decoded = rhumb_schema::decode_value(
            table,
            of,
            &Value::Object(object),
            DecodeOptions::default(),
        )?;
        match decoded.rejected.first().or(decoded.problems.first()) {
            Some(problem) => bail!("{problem}"),
            None => Ok(decoded.object),
        }
    }

    pub(crate) fn kind(&self, group: &str, name: &str) -> Option<&Kind> {
        let mut kinds = self.kinds.iter();
        kinds.find(|kind| kind.group == group && kind.name == name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_without_type_is_reported_with_what_is_missing() {
        let list = |item: Value| json!({"apiVersion": "v1", "kind": "List", "items": [item]});
        for (document, expected) in [
            (
                json!({"metadata": {}}),
                "f: apiVersion and kind are missing",
            ),
            (json!({"kind": "Pod"}), "f: apiVersion is missing"),
            (json!({"apiVersion": "v1"}), "f: kind is missing"),
            (json!([1]), "f: not an object with apiVersion and kind"),
            (
                list(json!({"metadata": {}})),
                "f, item 1: apiVersion and kind are missing",
            ),
            (
                list(json!({"kind": "Pod"})),
                "f, item 1: apiVersion is missing",
            ),
            (
                list(json!({"apiVersion": "v1"})),
                "f, item 1: kind is missing",
            ),
            (
                list(json!(7)),
                "f, item 1: not an object with apiVersion and kind",
            ),
        ] {
            let error = add(document.clone(), "f".to_owned(), &mut Vec::new());
            let error = error.expect_err("an object without type").to_string();
            assert_eq!(error, expected, "{document}");
        }
    }
}
