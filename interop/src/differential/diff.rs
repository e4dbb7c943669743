//! Compares two responses.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::{NormalizedResponse, ResponsesByCase};

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseDifference {
    /// Topic and case.
    pub case: String,
    /// Number of the step and its request.
    pub step: String,
    /// Location in the response, such as `body.spec.replicas` or `header.warning`.
    pub path: String,
    /// The value in the first response, if present.
    pub theirs: Option<Value>,
    pub ours: Option<Value>,
}

impl fmt::Display for ResponseDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "    {}", self.path)?;
        writeln!(formatter, "      upstream: {}", shown(self.theirs.as_ref()))?;
        write!(formatter, "      ours:     {}", shown(self.ours.as_ref()))
    }
}

fn shown(value: Option<&Value>) -> String {
    const LENGTH_MAX: usize = 600;
    let Some(value) = value else {
        return "(absent)".into();
    };
    let text = value.to_string();
    match text.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Fields that identify the items of a list, if their values are unique.
const IDENTITIES: [&str; 5] = [
    "/metadata/name",
    "/name",
    "/groupVersion",
    "/version",
    "/resource",
];

pub fn compare(theirs: &ResponsesByCase, ours: &ResponsesByCase) -> Vec<ResponseDifference> {
    let mut differences = Vec::new();
    for (case, theirs) in theirs {
        let nothing = Vec::new();
        let ours = ours.get(case).unwrap_or(&nothing);
        for (index, theirs) in theirs.iter().enumerate() {
            let mut collector = DifferenceCollector::default();
            collector.response(theirs, ours.get(index));
            differences.extend(
                collector
                    .fields
                    .into_iter()
                    .map(|field| ResponseDifference {
                        case: case.clone(),
                        step: theirs.step.clone(),
                        path: field.path,
                        theirs: field.theirs,
                        ours: field.ours,
                    }),
            );
        }
    }
    differences
}

#[derive(Default)]
struct DifferenceCollector {
    fields: Vec<FieldDifference>,
}

struct FieldDifference {
    path: String,
    theirs: Option<Value>,
    ours: Option<Value>,
}

impl DifferenceCollector {
    fn response(&mut self, theirs: &NormalizedResponse, ours: Option<&NormalizedResponse>) {
        let Some(ours) = ours else {
            self.add("response", Some(&"received".into()), None);
            return;
        };
        if theirs.status != ours.status {
            self.add(
                "status",
                Some(&theirs.status.into()),
                Some(&ours.status.into()),
            );
        }
        let headers = |response: &NormalizedResponse| -> Map<String, Value> {
            let header = |(name, values): (&String, &Vec<String>)| {
                (name.clone(), Value::from(values.clone()))
            };
            response.headers.iter().map(header).collect()
        };
        self.objects("header", &headers(theirs), &headers(ours));
        self.values("body", &theirs.body, &ours.body);
    }

    fn add(&mut self, path: &str, theirs: Option<&Value>, ours: Option<&Value>) {
        self.fields.push(FieldDifference {
            path: path.to_owned(),
            theirs: theirs.cloned(),
            ours: ours.cloned(),
        });
    }

    fn values(&mut self, path: &str, theirs: &Value, ours: &Value) {
        match (theirs, ours) {
            (Value::Object(theirs), Value::Object(ours)) => self.objects(path, theirs, ours),
            (Value::Array(theirs), Value::Array(ours)) => self.arrays(path, theirs, ours),
            _ if theirs == ours => {}
            _ => self.add(path, Some(theirs), Some(ours)),
        }
    }

    fn objects(&mut self, path: &str, theirs: &Map<String, Value>, ours: &Map<String, Value>) {
        for (name, value) in theirs {
            let path = format!("{path}.{name}");
            match ours.get(name) {
                Some(ours) => self.values(&path, value, ours),
                None => self.add(&path, Some(value), None),
            }
        }
        for (name, value) in ours {
            if !theirs.contains_key(name) {
                self.add(&format!("{path}.{name}"), None, Some(value));
            }
        }
    }

    fn arrays(&mut self, path: &str, theirs: &[Value], ours: &[Value]) {
        for identity in IDENTITIES {
            if let (Some(theirs), Some(ours)) = (by_name(theirs, identity), by_name(ours, identity))
            {
                self.named(path, &theirs, &ours);
                return;
            }
        }
        for index in 0..theirs.len().max(ours.len()) {
            let path = format!("{path}[{index}]");
            match (theirs.get(index), ours.get(index)) {
                (Some(theirs), Some(ours)) => self.values(&path, theirs, ours),
                (theirs, ours) => self.add(&path, theirs, ours),
            }
        }
    }

    fn named(&mut self, path: &str, theirs: &ItemsByName<'_>, ours: &ItemsByName<'_>) {
        for (name, value) in &theirs.items {
            let path = format!("{path}[{name}]");
            match ours.items.get(name) {
                Some(ours) => self.values(&path, value, ours),
                None => self.add(&path, Some(value), None),
            }
        }
        for (name, value) in &ours.items {
            if !theirs.items.contains_key(name) {
                self.add(&format!("{path}[{name}]"), None, Some(value));
            }
        }
        let common = |a: &ItemsByName<'_>, b: &ItemsByName<'_>| -> Vec<Value> {
            let names = a.order.iter().filter(|name| b.items.contains_key(*name));
            names.map(|name| name.as_str().into()).collect()
        };
        let (their_order, our_order) = (common(theirs, ours), common(ours, theirs));
        if their_order != our_order {
            let path = format!("{path}.order");
            self.add(&path, Some(&their_order.into()), Some(&our_order.into()));
        }
    }
}

struct ItemsByName<'a> {
    items: BTreeMap<String, &'a Value>,
    order: Vec<String>,
}

/// The items by name, if the names are unique.
fn by_name<'a>(items: &'a [Value], identity: &str) -> Option<ItemsByName<'a>> {
    let mut named = ItemsByName {
        items: BTreeMap::new(),
        order: Vec::new(),
    };
    for item in items {
        let name = item.pointer(identity)?.as_str()?.to_owned();
        named.order.push(name.clone());
        if named.items.insert(name, item).is_some() {
            return None;
        }
    }
    Some(named)
}

/// Whether the text matches the pattern, in which `*` matches any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            let mut ends = text.char_indices().map(|(index, _)| index);
            ends.any(|index| matches(rest, &text[index..])) || matches(rest, "")
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(theirs: Value, ours: Value, expect: &[&str]) {
        let mut collector = DifferenceCollector::default();
        collector.values("body", &theirs, &ours);
        let paths: Vec<&str> = collector.fields.iter().map(|field| &*field.path).collect();
        assert_eq!(paths, expect);
    }

    #[test]
    fn every_different_field_is_reported() {
        check(
            json!({"a": [1, {"b": 2}]}),
            json!({"a": [1, {"b": 2}]}),
            &[],
        );
        check(
            json!({"a": 1, "b": null, "c": [1, 2]}),
            json!({"a": "1", "c": [1, 3], "d": {}}),
            &["body.a", "body.b", "body.c[1]", "body.d"],
        );
        check(json!([1]), json!([1, 2]), &["body[1]"]);
    }

    #[test]
    fn named_items_are_compared_by_name() {
        check(
            json!([{"name": "a", "x": 1}, {"name": "b"}]),
            json!([{"name": "b"}, {"name": "a", "x": 2}, {"name": "c"}]),
            &["body[a].x", "body[c]", "body.order"],
        );
    }

    #[test]
    fn wildcards_match_any_text() {
        assert!(matches("body.a", "body.a"));
        assert!(matches("body.*.b*", "body.a.c.b"));
        assert!(!matches("body.a", "body.ab"));
        assert!(!matches("*.b", "body.bc"));
    }
}
