//! As much of an object as selectors can ask for: labels, and the scalars that selectable fields are made of.
//!
//! The caches read every object that is written. Most of it, such as the containers of a pod, they would read in vain:
//! it is passed over where it stands, and nothing is copied.

use std::borrow::Cow;

use rhumb_schema::json::{Malformed, Reader};

use crate::kind::{Selectable, Selected};

/// Room for the labels of most objects.
const LABELS: usize = 8;

/// Reads the outlines of objects of one kind.
#[derive(Debug, Clone)]
pub struct Outline {
    /// What each field is made of, by the places of its scalars.
    fields: Vec<Made>,
    parts: Vec<Part>,
    /// How many scalars the fields are made of.
    scalars: usize,
}

/// What is asked for at the root of an object and right below it.
#[derive(Debug, Clone)]
struct Part {
    name: &'static str,
    /// Where its value goes, if it is a scalar itself.
    place: Option<usize>,
    /// The scalars in it, and where they go.
    below: Vec<(&'static str, usize)>,
}

/// As [`Selected`], with places for paths.
#[derive(Debug, Clone)]
enum Made {
    Text(usize),
    FirstOf(Vec<usize>),
    Flag(usize),
    Count(usize),
}

/// What was read of one object.
#[derive(Debug)]
pub struct Outlined<'a> {
    outline: &'a Outline,
    labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// At their places.
    scalars: Vec<Option<Scalar<'a>>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Scalar<'a> {
    Text(Cow<'a, str>),
    Flag(bool),
    /// As it is written.
    Number(&'a str),
}

impl Outline {
    /// Of objects with these fields.
    pub fn new(fields: &[Selectable]) -> Outline {
        let mut outline = Outline {
            fields: Vec::with_capacity(fields.len()),
            parts: Vec::new(),
            scalars: 0,
        };
        // Its labels are asked for in any case.
        outline.part("metadata");
        for field in fields {
            let made = match field.value {
                Selected::Text(path) => Made::Text(outline.place(path)),
                Selected::FirstOf(paths) => {
                    Made::FirstOf(paths.iter().map(|path| outline.place(path)).collect())
                }
                Selected::Flag(path) => Made::Flag(outline.place(path)),
                Selected::Count(path) => Made::Count(outline.place(path)),
            };
            outline.fields.push(made);
        }
        outline
    }

    /// The place of a path, which it gets if it has none: `spec.nodeName`, or `type` at the root.
    fn place(&mut self, path: &'static str) -> usize {
        let next = self.scalars;
        let place = match path.split_once('.') {
            None => *self.part(path).place.get_or_insert(next),
            Some((part, name)) => {
                let below = &mut self.part(part).below;
                match below.iter().find(|(known, _)| *known == name) {
                    Some((_, place)) => *place,
                    None => {
                        below.push((name, next));
                        next
                    }
                }
            }
        };
        self.scalars = self.scalars.max(place + 1);
        place
    }

    fn part(&mut self, name: &'static str) -> &mut Part {
        let known = self.parts.iter().position(|part| part.name == name);
        let at = known.unwrap_or_else(|| {
            self.parts.push(Part {
                name,
                place: None,
                below: Vec::new(),
            });
            self.parts.len() - 1
        });
        &mut self.parts[at]
    }

    /// Reads an object in JSON to its end.
    pub fn read<'a>(&'a self, json: &'a [u8]) -> Result<Outlined<'a>, Malformed> {
        let mut outlined = Outlined {
            outline: self,
            labels: Vec::new(),
            scalars: vec![None; self.scalars],
        };
        let mut reader = Reader::new(json);
        // What is served must be text, though the reader would put up with other bytes.
        if !reader.is_text() {
            return Err(Malformed);
        }
        outlined.read_object(&mut reader)?;
        reader.end()?;
        Ok(outlined)
    }
}

impl<'a> Outlined<'a> {
    /// In the order of their keys; one that is there twice counts as it is there last.
    pub fn labels(&self) -> &[(Cow<'a, str>, Cow<'a, str>)] {
        &self.labels
    }

    /// The values of all selectable fields, in their order.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &str> {
        let fields = self.outline.fields.iter();
        fields.map(|made| self.value(made))
    }

    fn read_object(&mut self, reader: &mut Reader<'a>) -> Result<(), Malformed> {
        reader.open(b'{')?;
        let mut first = true;
        while let Some(name) = reader.key(&mut first)? {
            let mut parts = self.outline.parts.iter();
            match parts.find(|part| part.name == name) {
                Some(part) => self.read_part(part, reader)?,
                None => _ = reader.skip()?,
            }
        }
        Ok(())
    }

    fn read_part(&mut self, part: &Part, reader: &mut Reader<'a>) -> Result<(), Malformed> {
        let is_metadata = part.name == "metadata";
        let is_asked_below = is_metadata || !part.below.is_empty();
        if !is_asked_below || reader.peek()? != b'{' {
            return self.read_value(part.place, reader);
        }
        reader.open(b'{')?;
        let mut first = true;
        while let Some(name) = reader.key(&mut first)? {
            if is_metadata && name == "labels" {
                self.read_labels(reader)?;
                continue;
            }
            let mut below = part.below.iter();
            let found = below.find(|(known, _)| *known == name);
            self.read_value(found.map(|&(_, place)| place), reader)?;
        }
        Ok(())
    }

    fn read_value(
        &mut self,
        place: Option<usize>,
        reader: &mut Reader<'a>,
    ) -> Result<(), Malformed> {
        match place {
            Some(place) => self.scalars[place] = scalar(reader)?,
            None => _ = reader.skip()?,
        }
        Ok(())
    }

    fn read_labels(&mut self, reader: &mut Reader<'a>) -> Result<(), Malformed> {
        self.labels.clear();
        if reader.peek()? != b'{' {
            reader.skip()?;
            return Ok(());
        }
        reader.open(b'{')?;
        self.labels.reserve(LABELS);
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            if let Some(Scalar::Text(value)) = scalar(reader)? {
                self.labels.push((key, value));
            }
        }
        // As they are written by this server, they are in order.
        if self.labels.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Ok(());
        }
        // Of those with the same key the last one becomes the first, and the only one.
        self.labels.reverse();
        self.labels.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.labels.dedup_by(|(a, _), (b, _)| a == b);
        Ok(())
    }

    fn value(&self, of: &Made) -> &str {
        match of {
            Made::Text(place) => self.text(*place),
            Made::FirstOf(places) => {
                let mut texts = places.iter().map(|&place| self.text(place));
                texts.find(|text| !text.is_empty()).unwrap_or("")
            }
            Made::Flag(place) => match self.scalars[*place] {
                Some(Scalar::Flag(true)) => "true",
                _ => "false",
            },
            Made::Count(place) => match self.scalars[*place] {
                Some(Scalar::Number(number)) => number,
                _ => "0",
            },
        }
    }

    fn text(&self, place: usize) -> &str {
        match &self.scalars[place] {
            Some(Scalar::Text(text)) => text,
            _ => "",
        }
    }
}

/// The next value; `None` if it is no scalar, or null.
fn scalar<'a>(reader: &mut Reader<'a>) -> Result<Option<Scalar<'a>>, Malformed> {
    Ok(match reader.peek()? {
        b'"' => Some(Scalar::Text(reader.string()?)),
        b't' | b'f' => Some(Scalar::Flag(reader.skip()? == b"true")),
        b'-' | b'0'..=b'9' => Some(Scalar::Number(reader.number()?)),
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

    const FIELDS: &[Selectable] = &[
        Selectable {
            name: "spec.nodeName",
            value: Selected::Text("spec.nodeName"),
        },
        Selectable {
            name: "type",
            value: Selected::Text("type"),
        },
        Selectable {
            name: "source",
            value: Selected::FirstOf(&["source.component", "type"]),
        },
        Selectable {
            name: "spec.hostNetwork",
            value: Selected::Flag("spec.hostNetwork"),
        },
        Selectable {
            name: "status.replicas",
            value: Selected::Count("status.replicas"),
        },
    ];

    fn check(json: &str, labels: &[(&str, &str)], fields: [&str; 5]) {
        let outline = Outline::new(FIELDS);
        let read = outline.read(json.as_bytes()).expect(json);
        let found: Vec<(&str, &str)> = read.labels().iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(found, labels, "{json}");
        assert_eq!(read.fields().collect::<Vec<_>>(), fields, "{json}");
    }

    #[test]
    fn labels_and_fields_are_read_and_all_else_is_passed_over() {
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
    fn what_is_absent_or_something_else_has_the_value_of_nothing() {
        let nothing = ["", "", "", "false", "0"];
        check("{}", &[], nothing);
        check(r#"{"metadata":null,"spec":5,"status":[]}"#, &[], nothing);
        let odd = r#"{"metadata":{"labels":["a"]},"spec":{"nodeName":null,"hostNetwork":"true"},
            "status":{"replicas":"3"},"type":{"a":1},"source":"x"}"#;
        check(odd, &[], nothing);
        let labels = r#"{"metadata":{"labels":{"a":"1","b":2,"c":null,"a":"3"}},"type":"x"}"#;
        check(labels, &[("a", "3")], ["", "x", "x", "false", "0"]);
    }

    /// One object must not hold up all others, whatever it is like.
    #[test]
    fn many_labels_take_no_longer_than_they_are_long() {
        let labels: Vec<String> = (0..200_000).map(|at| format!("\"{at}\":\"\"")).collect();
        let json = format!("{{\"metadata\":{{\"labels\":{{{}}}}}}}", labels.join(","));
        let (outline, begun) = (Outline::new(FIELDS), std::time::Instant::now());
        let read = outline.read(json.as_bytes()).expect("an object");
        assert_eq!(read.labels().len(), labels.len());
        // Were each looked for among all others, it would take minutes.
        assert!(begun.elapsed().as_secs() < 20);
    }

    #[test]
    fn malformed_objects_are_noticed_wherever_they_are_malformed() {
        let outline = Outline::new(FIELDS);
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

    /// A kind with a selectable field that is deeper would select wrongly.
    #[test]
    fn every_selectable_field_of_every_kind_is_found() {
        for kind in crate::kinds::all() {
            let outline = Outline::new(&kind.selectable);
            for field in &kind.selectable {
                let paths = match field.value {
                    Selected::FirstOf(paths) => paths.to_vec(),
                    Selected::Text(path) | Selected::Flag(path) | Selected::Count(path) => {
                        vec![path]
                    }
                };
                for path in paths {
                    let value = match field.value {
                        Selected::Flag(_) => Value::Bool(true),
                        Selected::Count(_) => 3.into(),
                        Selected::Text(_) | Selected::FirstOf(_) => "x".into(),
                    };
                    let object = match path.split('.').collect::<Vec<_>>()[..] {
                        [part, name] => json!({part: {name: value}}),
                        [part] => json!({part: value}),
                        _ => panic!("{path} is too deep"),
                    };
                    let text = object.to_string();
                    let read = outline.read(text.as_bytes()).expect("an object");
                    let values: Vec<_> = read.fields().collect();
                    let place = kind.selectable.iter().position(|it| it.name == field.name);
                    let found = &values[place.expect("it is one of them")];
                    let want = value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned);
                    assert_eq!(*found, want, "{} of {}", field.name, kind.name);
                }
            }
        }
    }
}
