//! Builds a JSON value from YAML parser events.

use std::collections::HashMap;

use rhumb_meta::gotext;
use serde_json::Value;
use serde_saphyr::granit_parser::{Event, ScalarStyle, Tag};

use super::scalar;
use crate::Object;
use crate::decode::MAX_DEPTH;

/// Maximum number of nodes in a document, including nodes expanded from aliases.
const MAX_NODES: usize = 1_000_000;
/// Maximum number of nodes stored for anchors and expanded from aliases.
const MAX_ALIASED_NODES: usize = 100_000;

/// Builds the value of one document. Collections are kept on a stack, so that nesting needs no recursion.
#[derive(Default)]
pub(super) struct YamlValueBuilder {
    open_collections: Vec<OpenCollection>,
    anchors: HashMap<usize, YamlNode>,
    nodes: usize,
    aliased_nodes: usize,
    duplicates: Vec<String>,
    root: Option<Value>,
}

/// A complete value with its node count and nesting depth.
#[derive(Clone)]
struct YamlNode {
    value: Value,
    nodes: usize,
    depth: usize,
}

/// A list or map whose end event has not been seen.
struct OpenCollection {
    collection: YamlCollection,
    anchor: usize,
    nodes: usize,
    depth: usize,
    /// Line of its start.
    line: usize,
}

enum YamlCollection {
    List(Vec<Value>),
    /// With the key whose value has not been seen.
    Map(Object, Option<MapKey>),
}

enum MapKey {
    Name {
        name: String,
        /// As error messages show it.
        quoted: String,
    },
    /// `<<`: the entries of the value are merged into this map.
    Merge,
}

impl YamlValueBuilder {
    pub(super) fn finish(self) -> (Value, Vec<String>) {
        (self.root.unwrap_or(Value::Null), self.duplicates)
    }

    pub(super) fn add(&mut self, event: Event<'_>, line: usize) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), line)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.start(YamlCollection::List(Vec::new()), anchor, line)
            }
            Event::MappingStart(_, anchor, _) => {
                self.start(YamlCollection::Map(Object::new(), None), anchor, line)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, line),
            _ => Ok(()),
        }
    }

    fn awaits_key(&self) -> bool {
        let top = self
            .open_collections
            .last()
            .map(|innermost| &innermost.collection);
        matches!(top, Some(YamlCollection::Map(_, None)))
    }

    fn set_key(&mut self, key: MapKey) {
        if let Some(innermost) = self.open_collections.last_mut()
            && let YamlCollection::Map(_, pending_key) = &mut innermost.collection
        {
            *pending_key = Some(key);
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        line: usize,
    ) -> Result<(), String> {
        let is_plain = style == ScalarStyle::Plain;
        let value = scalar::resolve(text, is_plain, tag.and_then(Tag::core_suffix))?;
        if self.awaits_key() {
            let key = match is_plain && text == "<<" {
                true => MapKey::Merge,
                false => map_key(value)?,
            };
            self.set_key(key);
            return Ok(());
        }
        let node = YamlNode {
            value,
            nodes: 1,
            depth: 0,
        };
        self.add_value(node, anchor, line)
    }

    fn start(
        &mut self,
        collection: YamlCollection,
        anchor: usize,
        line: usize,
    ) -> Result<(), String> {
        if self.awaits_key() {
            return Err(format!("yaml: line {line}: unsupported map key"));
        }
        if self.open_collections.len() >= MAX_DEPTH {
            return Err(too_deep());
        }
        self.open_collections.push(OpenCollection {
            collection,
            anchor,
            nodes: 1,
            depth: 1,
            line,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let Some(ended) = self.open_collections.pop() else {
            return Ok(());
        };
        let value = match ended.collection {
            YamlCollection::List(items) => Value::Array(items),
            YamlCollection::Map(object, _) => Value::Object(object),
        };
        let node = YamlNode {
            value,
            nodes: ended.nodes,
            depth: ended.depth,
        };
        self.add_value(node, ended.anchor, ended.line)
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<(), String> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err("yaml: anchor value contains itself".to_owned());
        };
        self.aliased_nodes += node.nodes;
        if self.aliased_nodes > MAX_ALIASED_NODES {
            return Err("yaml: document contains excessive aliasing".to_owned());
        }
        let node = node.clone();
        if self.awaits_key() {
            let key = map_key(node.value)?;
            self.set_key(key);
            return Ok(());
        }
        self.add_value(node, 0, line)
    }

    /// Adds a complete value to the innermost open collection, or makes it the root.
    fn add_value(&mut self, node: YamlNode, anchor: usize, line: usize) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err("yaml: document has too many nodes".to_owned());
        }
        if self.open_collections.len() + node.depth > MAX_DEPTH {
            return Err(too_deep());
        }
        if anchor != 0 {
            self.aliased_nodes += node.nodes;
            if self.aliased_nodes > MAX_ALIASED_NODES {
                return Err("yaml: document contains excessive aliasing".to_owned());
            }
            self.anchors.insert(anchor, node.clone());
        }
        let Some(innermost) = self.open_collections.last_mut() else {
            self.root = Some(node.value);
            return Ok(());
        };
        innermost.nodes += node.nodes;
        innermost.depth = innermost.depth.max(node.depth + 1);
        match &mut innermost.collection {
            YamlCollection::List(items) => items.push(node.value),
            YamlCollection::Map(object, key) => match key.take() {
                Some(MapKey::Name { name, quoted }) => {
                    let replaced = object.insert(name, node.value);
                    if replaced.is_some() {
                        self.duplicates.push(duplicate_key_message(line, &quoted));
                    }
                }
                Some(MapKey::Merge) => merge_maps(object, node.value, line, &mut self.duplicates)?,
                None => {}
            },
        }
        Ok(())
    }
}

fn duplicate_key_message(line: usize, key: &str) -> String {
    format!("line {line}: key {key} already set in map")
}

/// Merges the entries of a map, or of a list of maps, into `object`. Earlier maps of a list take precedence.
fn merge_maps(
    object: &mut Object,
    value: Value,
    line: usize,
    duplicates: &mut Vec<String>,
) -> Result<(), String> {
    let maps = match value {
        Value::Array(maps) => maps,
        map => vec![map],
    };
    for map in maps.into_iter().rev() {
        let Value::Object(map) = map else {
            return Err("yaml: map merge requires map or sequence of maps as the value".to_owned());
        };
        for (name, value) in map {
            if object.contains_key(&name) {
                duplicates.push(duplicate_key_message(
                    line,
                    &gotext::quote(&name).to_string(),
                ));
            }
            object.insert(name, value);
        }
    }
    Ok(())
}

fn too_deep() -> String {
    format!("yaml: nested deeper than {MAX_DEPTH} levels")
}

fn map_key(value: Value) -> Result<MapKey, String> {
    let name = match &value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => return Err("yaml: unsupported map key".to_owned()),
    };
    let quoted = match value {
        Value::String(text) => gotext::quote(&text).to_string(),
        _ => name.clone(),
    };
    Ok(MapKey::Name { name, quoted })
}
