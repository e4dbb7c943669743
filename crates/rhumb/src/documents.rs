//! Objects in files: YAML or JSON, several in one file, lists.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use rhumb_api::Kind;
use rhumb_schema::{Options, Table};
use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// All objects of a file, each with where it is, for errors.
pub(crate) fn read(path: &Path) -> Result<Vec<(String, Object)>> {
    let shown = match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    };
    let text = read_text(path).with_context(|| shown.clone())?;
    let mut objects = Vec::new();
    let documents = split(&text);
    let count = documents.len();
    for (number, document) in documents.into_iter().enumerate() {
        let place = match count {
            1 => shown.clone(),
            _ => format!("{shown}, document {}", number + 1),
        };
        let value = rhumb_schema::read_yaml(document.as_bytes()).with_context(|| place.clone())?;
        add(value, place, &mut objects)?;
    }
    Ok(objects)
}

/// The documents of a file, separated as kubectl separates them.
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
        bail!("it has more than {BYTES_MAX} bytes");
    }
    Ok(text)
}

/// Adds an object, or all that a list has. Empty documents are what separators leave.
fn add(document: Value, place: String, objects: &mut Vec<(String, Object)>) -> Result<()> {
    let mut object = match document {
        Value::Null => return Ok(()),
        Value::Object(object) => object,
        _ => bail!("{place}: this is no object: it needs apiVersion and kind"),
    };
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let (Some(_), Some(kind)) = (text("apiVersion"), text("kind")) else {
        bail!("{place}: this is no object: it needs apiVersion and kind");
    };
    if !kind.ends_with("List") || !object.contains_key("items") {
        objects.push((place, object));
        return Ok(());
    }
    // What a server lists need not say its kind again.
    let item_kind = kind.strip_suffix("List").unwrap_or_default().to_owned();
    let api_version = object.get("apiVersion").cloned().unwrap_or_default();
    let Some(Value::Array(items)) = object.remove("items") else {
        bail!("{place}: items is no list");
    };
    for (number, mut item) in items.into_iter().enumerate() {
        if let (Value::Object(item), false) = (&mut item, item_kind.is_empty()) {
            item.entry("kind")
                .or_insert_with(|| item_kind.clone().into());
            item.entry("apiVersion")
                .or_insert_with(|| api_version.clone());
        }
        match item {
            Value::Object(item) if item.contains_key("kind") => {
                objects.push((format!("{place}, item {}", number + 1), item));
            }
            _ => bail!("{place}, item {}: this is no object", number + 1),
        }
    }
    Ok(())
}

/// Reads objects of built-in kinds as strictly as a server would: what has another meaning than it seems to have is
/// refused.
pub(crate) struct Strict {
    kinds: Vec<Kind>,
}

impl Strict {
    pub(crate) fn new() -> Strict {
        Strict {
            kinds: rhumb_api::kinds::all(),
        }
    }

    pub(crate) fn decode(&self, object: Object) -> Result<Object> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, name) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = self
            .kind(group, name)
            .ok_or_else(|| anyhow!("there is no kind {name:?} in {group}"))?;
        let served = kind
            .served(version)
            .ok_or_else(|| anyhow!("{name} is not served in {api_version:?}"))?;
        let table = Table::builtin();
        let of = table
            .named(&served.schema)
            .with_context(|| format!("the schema table has no {name}"))?;
        let decoded =
            rhumb_schema::decode_value(table, of, &Value::Object(object), Options::default())?;
        match decoded.problems.first() {
            Some(problem) => bail!("{problem}"),
            None => Ok(decoded.object),
        }
    }

    pub(crate) fn kind(&self, group: &str, name: &str) -> Option<&Kind> {
        let mut kinds = self.kinds.iter();
        kinds.find(|kind| kind.group == group && kind.name == name)
    }
}
