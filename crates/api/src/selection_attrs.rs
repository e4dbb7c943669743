//! Extracts from an object's JSON what selectors match on: labels and the values of selectable fields.
//!
//! Corresponds to upstream's `storage.AttrFunc` (`GetAttrs`). The watch cache reads every written object; the reader
//! skips the rest of the JSON, such as a pod's containers, without decoding or copying it. Entry points:
//! [`SelectionAttrsReader::new`] per kind, [`SelectionAttrsReader::read`] per object.

use std::borrow::Cow;

use rhumb_schema::json::{JsonReader, MalformedJson};

use crate::kind::{FieldSource, SelectableField};

/// Initial capacity, enough for the labels of most objects.
const LABELS_CAPACITY: usize = 8;

/// Reads the labels and selectable fields of objects of one kind.
#[derive(Debug, Clone)]
pub struct SelectionAttrsReader {
    /// The source of each selectable field, by the slots of its scalars.
    fields: Vec<ResolvedFieldSource>,
    top_level_fields: Vec<TopLevelField>,
    /// The number of scalar slots.
    scalar_count: usize,
}

/// A top-level field that is read, itself or its direct children.
#[derive(Debug, Clone)]
struct TopLevelField {
    name: Box<str>,
    /// The slot for its value, if it is itself a scalar to be read.
    slot: Option<usize>,
    /// The child fields to be read, with their slots.
    nested: Vec<(Box<str>, usize)>,
}

/// Like [`FieldSource`], with scalar slots instead of paths.
#[derive(Debug, Clone)]
enum ResolvedFieldSource {
    Text(usize),
    FirstOf(Vec<usize>),
    Flag(usize),
    Count(usize),
}

/// The labels and selectable field values of one object.
#[derive(Debug)]
pub struct SelectionAttrs<'a> {
    reader: &'a SelectionAttrsReader,
    labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Indexed by slot.
    scalars: Vec<Option<JsonScalar<'a>>>,
}

#[derive(Debug, Clone, PartialEq)]
enum JsonScalar<'a> {
    Text(Cow<'a, str>),
    Flag(bool),
    /// The digits as written.
    Number(&'a str),
}

impl SelectionAttrsReader {
    /// A reader for a kind with these selectable fields.
    pub fn new(fields: &[SelectableField]) -> SelectionAttrsReader {
        let mut outline = SelectionAttrsReader {
            fields: Vec::with_capacity(fields.len()),
            top_level_fields: Vec::new(),
            scalar_count: 0,
        };
        // Labels are always read.
        outline.top_level_field("metadata");
        for field in fields {
            let made = match &field.value {
                FieldSource::StringAt(path) => ResolvedFieldSource::Text(outline.slot_for(path)),
                FieldSource::FirstNonEmpty(paths) => ResolvedFieldSource::FirstOf(
                    paths.iter().map(|path| outline.slot_for(path)).collect(),
                ),
                FieldSource::BoolAt(path) => ResolvedFieldSource::Flag(outline.slot_for(path)),
                FieldSource::IntAt(path) => ResolvedFieldSource::Count(outline.slot_for(path)),
            };
            outline.fields.push(made);
        }
        outline
    }

    /// The slot of a path (`spec.nodeName`, or `type` at the root), allocated on first use.
    fn slot_for(&mut self, path: &str) -> usize {
        let next = self.scalar_count;
        let place = match path.split_once('.') {
            None => *self.top_level_field(path).slot.get_or_insert(next),
            Some((part, name)) => {
                let below = &mut self.top_level_field(part).nested;
                match below.iter().find(|(known, _)| **known == *name) {
                    Some((_, place)) => *place,
                    None => {
                        below.push((name.into(), next));
                        next
                    }
                }
            }
        };
        self.scalar_count = self.scalar_count.max(place + 1);
        place
    }

    fn top_level_field(&mut self, name: &str) -> &mut TopLevelField {
        let known = self
            .top_level_fields
            .iter()
            .position(|part| *part.name == *name);
        let at = known.unwrap_or_else(|| {
            self.top_level_fields.push(TopLevelField {
                name: name.into(),
                slot: None,
                nested: Vec::new(),
            });
            self.top_level_fields.len() - 1
        });
        &mut self.top_level_fields[at]
    }

    /// Reads a complete JSON object.
    pub fn read<'a>(&'a self, json: &'a [u8]) -> Result<SelectionAttrs<'a>, MalformedJson> {
        let mut outlined = SelectionAttrs {
            reader: self,
            labels: Vec::new(),
            scalars: vec![None; self.scalar_count],
        };
        let mut reader = JsonReader::new(json);
        // Served objects must be UTF-8; the reader alone would accept other bytes.
        if !reader.is_utf8() {
            return Err(MalformedJson);
        }
        outlined.read_object(&mut reader)?;
        reader.end()?;
        Ok(outlined)
    }
}

impl<'a> SelectionAttrs<'a> {
    /// Labels sorted by key; of a duplicate key the last value counts.
    pub fn labels(&self) -> &[(Cow<'a, str>, Cow<'a, str>)] {
        &self.labels
    }

    /// The values of all selectable fields, in declaration order.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &str> {
        let fields = self.reader.fields.iter();
        fields.map(|made| self.field_value(made))
    }

    fn read_object(&mut self, reader: &mut JsonReader<'a>) -> Result<(), MalformedJson> {
        reader.open(b'{')?;
        let mut first = true;
        while let Some(name) = reader.key(&mut first)? {
            let mut parts = self.reader.top_level_fields.iter();
            match parts.find(|part| *part.name == *name) {
                Some(part) => self.read_top_level_field(part, reader)?,
                None => _ = reader.skip()?,
            }
        }
        Ok(())
    }

    fn read_top_level_field(
        &mut self,
        part: &TopLevelField,
        reader: &mut JsonReader<'a>,
    ) -> Result<(), MalformedJson> {
        let is_metadata = *part.name == *"metadata";
        let reads_children = is_metadata || !part.nested.is_empty();
        if !reads_children || reader.peek()? != b'{' {
            return self.read_value(part.slot, reader);
        }
        reader.open(b'{')?;
        let mut first = true;
        while let Some(name) = reader.key(&mut first)? {
            if is_metadata && name == "labels" {
                self.read_labels(reader)?;
                continue;
            }
            let mut below = part.nested.iter();
            let found = below.find(|(known, _)| **known == *name);
            self.read_value(found.map(|&(_, place)| place), reader)?;
        }
        Ok(())
    }

    fn read_value(
        &mut self,
        place: Option<usize>,
        reader: &mut JsonReader<'a>,
    ) -> Result<(), MalformedJson> {
        match place {
            Some(place) => self.scalars[place] = read_scalar(reader)?,
            None => _ = reader.skip()?,
        }
        Ok(())
    }

    fn read_labels(&mut self, reader: &mut JsonReader<'a>) -> Result<(), MalformedJson> {
        self.labels.clear();
        if reader.peek()? != b'{' {
            reader.skip()?;
            return Ok(());
        }
        reader.open(b'{')?;
        self.labels.reserve(LABELS_CAPACITY);
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            if let Some(JsonScalar::Text(value)) = read_scalar(reader)? {
                self.labels.push((key, value));
            }
        }
        // Objects written by this server have sorted labels.
        if self.labels.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Ok(());
        }
        // Reversed first, so that the stable sort and dedup keep the last value of a duplicate key.
        self.labels.reverse();
        self.labels.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.labels.dedup_by(|(a, _), (b, _)| a == b);
        Ok(())
    }

    fn field_value(&self, of: &ResolvedFieldSource) -> &str {
        match of {
            ResolvedFieldSource::Text(place) => self.text(*place),
            ResolvedFieldSource::FirstOf(places) => {
                let mut texts = places.iter().map(|&place| self.text(place));
                texts.find(|text| !text.is_empty()).unwrap_or("")
            }
            ResolvedFieldSource::Flag(place) => match self.scalars[*place] {
                Some(JsonScalar::Flag(true)) => "true",
                _ => "false",
            },
            ResolvedFieldSource::Count(place) => match self.scalars[*place] {
                Some(JsonScalar::Number(number)) => number,
                _ => "0",
            },
        }
    }

    fn text(&self, place: usize) -> &str {
        match &self.scalars[place] {
            Some(JsonScalar::Text(text)) => text,
            _ => "",
        }
    }
}

/// Reads the next value; `None` if it is null or not a scalar.
fn read_scalar<'a>(reader: &mut JsonReader<'a>) -> Result<Option<JsonScalar<'a>>, MalformedJson> {
    Ok(match reader.peek()? {
        b'"' => Some(JsonScalar::Text(reader.string()?)),
        b't' | b'f' => Some(JsonScalar::Flag(reader.skip()? == b"true")),
        b'-' | b'0'..=b'9' => Some(JsonScalar::Number(reader.number()?)),
        _ => {
            reader.skip()?;
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const FIELDS: &[SelectableField] = &[
        SelectableField::string("spec.nodeName", "spec.nodeName"),
        SelectableField::string("type", "type"),
        SelectableField::first_non_empty("source", &["source.component", "type"]),
        SelectableField::boolean("spec.hostNetwork", "spec.hostNetwork"),
        SelectableField::integer("status.replicas", "status.replicas"),
    ];

    fn check(json: &str, labels: &[(&str, &str)], fields: [&str; 5]) {
        let outline = SelectionAttrsReader::new(FIELDS);
        let read = outline.read(json.as_bytes()).expect(json);
        let found: Vec<(&str, &str)> = read.labels().iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(found, labels, "{json}");
        assert_eq!(read.fields().collect::<Vec<_>>(), fields, "{json}");
    }

    #[test]
    fn only_labels_and_selectable_fields_are_read() {
        let whole = json!({
            "kind": "Pod",
            "metadata": {
                "name": "a",
                "annotations": {"labels": "{\"x\":1}"},
                "labels": {"app": "web", "odd": "a\"b\\c\u{e9}\n"},
                "ownerReferences": [{"labels": {"no": "no"}}],
            },
            "spec": {"nodeName": "n", "hostNetwork": true, "containers": [{"nodeName": "c"}]},
            "status": {"replicas": 3, "deep": {"replicas": 4}},
            "source": {"component": "kubelet"},
            "type": "Normal",
        });
        let labels = [("app", "web"), ("odd", "a\"b\\c\u{e9}\n")];
        let fields = ["n", "Normal", "kubelet", "true", "3"];
        check(&whole.to_string(), &labels, fields);
        let pretty = serde_json::to_string_pretty(&whole).unwrap();
        check(&pretty, &labels, fields);
    }

    #[test]
    fn absent_or_mistyped_fields_have_the_zero_value() {
        let nothing = ["", "", "", "false", "0"];
        check("{}", &[], nothing);
        check(r#"{"metadata":null,"spec":5,"status":[]}"#, &[], nothing);
        let odd = r#"{"metadata":{"labels":["a"]},"spec":{"nodeName":null,"hostNetwork":"true"},
            "status":{"replicas":"3"},"type":{"a":1},"source":"x"}"#;
        check(odd, &[], nothing);
        let labels = r#"{"metadata":{"labels":{"a":"1","b":2,"c":null,"a":"3"}},"type":"x"}"#;
        check(labels, &[("a", "3")], ["", "x", "x", "false", "0"]);
    }

    /// A single object with many labels must not block the cache.
    #[test]
    fn reading_many_labels_is_linear() {
        let labels: Vec<String> = (0..200_000).map(|at| format!("\"{at}\":\"\"")).collect();
        let json = format!("{{\"metadata\":{{\"labels\":{{{}}}}}}}", labels.join(","));
        let (outline, begun) = (SelectionAttrsReader::new(FIELDS), std::time::Instant::now());
        let read = outline.read(json.as_bytes()).expect("valid JSON object");
        assert_eq!(read.labels().len(), labels.len());
        // A quadratic search for duplicates would take minutes.
        assert!(begun.elapsed().as_secs() < 20);
    }

    #[test]
    fn malformed_json_is_detected_at_any_position() {
        let outline = SelectionAttrsReader::new(FIELDS);
        for wrong in [
            "[]",
            "5",
            "",
            "{\"a\":",
            "{} x",
            "{\"spec\":{\"containers\":[}}",
            "{\"metadata\":{\"labels\":{\"a\"}}}",
            "{\"type\":tru}",
            "{\"x\":\"\u{1}\"}",
        ] {
            assert!(outline.read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(outline.read(b"{\"x\":\"\xff\"}").is_err());
    }

    /// Selectable fields more than two names deep are not supported.
    #[test]
    fn every_selectable_field_of_every_kind_is_found() {
        for kind in crate::kinds::all() {
            let outline = SelectionAttrsReader::new(&kind.selectable);
            for field in &kind.selectable {
                let paths = match &field.value {
                    FieldSource::FirstNonEmpty(paths) => paths.to_vec(),
                    FieldSource::StringAt(path)
                    | FieldSource::BoolAt(path)
                    | FieldSource::IntAt(path) => vec![&**path],
                };
                for path in paths {
                    let value = match field.value {
                        FieldSource::BoolAt(_) => Value::Bool(true),
                        FieldSource::IntAt(_) => 3.into(),
                        FieldSource::StringAt(_) | FieldSource::FirstNonEmpty(_) => "x".into(),
                    };
                    let object = match path.split('.').collect::<Vec<_>>()[..] {
                        [part, name] => json!({part: {name: value}}),
                        [part] => json!({part: value}),
                        _ => panic!("{path} is more than two names deep"),
                    };
                    let text = object.to_string();
                    let read = outline.read(text.as_bytes()).expect("valid JSON object");
                    let values: Vec<_> = read.fields().collect();
                    let place = kind.selectable.iter().position(|it| it.name == field.name);
                    let found = &values[place.expect("the field is declared")];
                    let want = value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned);
                    assert_eq!(*found, want, "{} of {}", field.name, kind.name);
                }
            }
        }
    }
}
