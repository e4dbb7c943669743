//! Builds a value from the events of a parser.

use std::collections::HashMap;

use rhumb_meta::gotext;
use serde_json::Value;
use serde_saphyr::granit_parser::{Event, ScalarStyle, Tag};

use super::plain;
use crate::Object;
use crate::decode::MAX_DEPTH;

/// How many nodes a document may have, with those that aliases stand for.
const MAX_NODES: usize = 1_000_000;
/// How many nodes anchors may hold and aliases may stand for.
const MAX_ALIASED_NODES: usize = 100_000;

#[derive(Default)]
pub(super) struct Tree {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    aliased_nodes: usize,
    duplicates: Vec<String>,
    done: Option<Value>,
}

/// A value, how many nodes it has, and how deep it is nested.
#[derive(Clone)]
struct Node {
    value: Value,
    nodes: usize,
    depth: usize,
}

/// A list or map that is not yet complete.
struct Open {
    kind: Kind,
    anchor: usize,
    nodes: usize,
    depth: usize,
    line: usize,
}

enum Kind {
    List(Vec<Value>),
    Map(Object, Option<Key>),
}

enum Key {
    Name {
        name: String,
        shown: String,
    },
    /// The entries of the value belong to this map.
    Merge,
}

impl Tree {
    pub(super) fn finish(self) -> (Value, Vec<String>) {
        (self.done.unwrap_or(Value::Null), self.duplicates)
    }

    pub(super) fn add(&mut self, event: Event<'_>, line: usize) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), line)
            }
            Event::SequenceStart(_, anchor, _) => self.start(Kind::List(Vec::new()), anchor, line),
            Event::MappingStart(_, anchor, _) => {
                self.start(Kind::Map(Object::new(), None), anchor, line)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, line),
            _ => Ok(()),
        }
    }

    fn awaits_key(&self) -> bool {
        let top = self.open.last().map(|open| &open.kind);
        matches!(top, Some(Kind::Map(_, None)))
    }

    fn set_key(&mut self, key: Key) {
        if let Some(open) = self.open.last_mut()
            && let Kind::Map(_, waiting) = &mut open.kind
        {
            *waiting = Some(key);
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
        let plain = style == ScalarStyle::Plain;
        let value = plain::resolve(text, plain, tag.and_then(Tag::core_suffix))?;
        if self.awaits_key() {
            let key = match plain && text == "<<" {
                true => Key::Merge,
                false => key_of(value)?,
            };
            self.set_key(key);
            return Ok(());
        }
        let node = Node {
            value,
            nodes: 1,
            depth: 0,
        };
        self.put(node, anchor, line)
    }

    fn start(&mut self, kind: Kind, anchor: usize, line: usize) -> Result<(), String> {
        if self.awaits_key() {
            return Err(format!("yaml: line {line}: unsupported map key"));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep());
        }
        self.open.push(Open {
            kind,
            anchor,
            nodes: 1,
            depth: 1,
            line,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let value = match open.kind {
            Kind::List(items) => Value::Array(items),
            Kind::Map(object, _) => Value::Object(object),
        };
        let node = Node {
            value,
            nodes: open.nodes,
            depth: open.depth,
        };
        self.put(node, open.anchor, open.line)
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
            let key = key_of(node.value)?;
            self.set_key(key);
            return Ok(());
        }
        self.put(node, 0, line)
    }

    /// Puts a complete value where it belongs.
    fn put(&mut self, node: Node, anchor: usize, line: usize) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err("yaml: document has too many nodes".to_owned());
        }
        if self.open.len() + node.depth > MAX_DEPTH {
            return Err(too_deep());
        }
        if anchor != 0 {
            self.aliased_nodes += node.nodes;
            if self.aliased_nodes > MAX_ALIASED_NODES {
                return Err("yaml: document contains excessive aliasing".to_owned());
            }
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.done = Some(node.value);
            return Ok(());
        };
        open.nodes += node.nodes;
        open.depth = open.depth.max(node.depth + 1);
        match &mut open.kind {
            Kind::List(items) => items.push(node.value),
            Kind::Map(object, key) => match key.take() {
                Some(Key::Name { name, shown }) => {
                    let replaced = object.insert(name, node.value);
                    if replaced.is_some() {
                        self.duplicates.push(already_set(line, &shown));
                    }
                }
                Some(Key::Merge) => merge(object, node.value, line, &mut self.duplicates)?,
                None => {}
            },
        }
        Ok(())
    }
}

fn already_set(line: usize, key: &str) -> String {
    format!("line {line}: key {key} already set in map")
}

/// Takes over the entries of a map, or of several in a list, of which the first counts most.
fn merge(
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
                duplicates.push(already_set(line, &gotext::quote(&name).to_string()));
            }
            object.insert(name, value);
        }
    }
    Ok(())
}

fn too_deep() -> String {
    format!("yaml: nested deeper than {MAX_DEPTH} levels")
}

fn key_of(value: Value) -> Result<Key, String> {
    let name = match &value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => return Err("yaml: unsupported map key".to_owned()),
    };
    let shown = match value {
        Value::String(text) => gotext::quote(&text).to_string(),
        _ => name.clone(),
    };
    Ok(Key::Name { name, shown })
}
