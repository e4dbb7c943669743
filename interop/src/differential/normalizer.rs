//! Replaces values that differ between runs by placeholders.
//!
//! Equal values get equal placeholders within a case, so that a recreated object or a version that should not have
//! changed is still detected. Values that the case itself sends are kept.

use serde_json::{Map, Value};

use super::volatile_values;

/// The placeholders assigned in one case so far.
#[derive(Debug)]
pub struct ResponseNormalizer {
    /// The random part of names, unique to this run of the case.
    id: String,
    /// Everything that the case sends; values that occur in it are not replaced.
    sent: String,
    uids: Vec<String>,
    versions: Vec<String>,
    /// Generated names with their placeholders.
    names: Vec<(String, String)>,
    masked_prefixes: Vec<String>,
}

impl ResponseNormalizer {
    pub fn new(id: &str, sent: String) -> Self {
        Self {
            id: id.to_owned(),
            sent,
            uids: Vec::new(),
            versions: Vec::new(),
            names: Vec::new(),
            masked_prefixes: Vec::new(),
        }
    }

    /// Sets the texts after which numbers are not compared.
    pub fn mask_numbers_after(&mut self, texts: &[String]) {
        self.masked_prefixes = texts.to_vec();
    }

    pub fn value(&mut self, value: Value) -> Value {
        match value {
            Value::Object(fields) => Value::Object(self.object(fields)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::String(text) => Value::String(self.text(&text)),
            other => other,
        }
    }

    fn object(&mut self, mut fields: Map<String, Value>) -> Map<String, Value> {
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or("");
        let kind = kind.to_owned();
        let is_collection = kind.ends_with("List") || kind == "Table";
        let is_table = kind == "Table";
        if fields.get("type").and_then(Value::as_str) == Some("BOOKMARK") {
            mask_bookmark_version(fields.get_mut("object"));
        }
        if is_collection && let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            mask_list_metadata(metadata);
        } else if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.remove("managedFields");
            self.record_generated_name(metadata);
        }
        if is_table {
            mask_ages(&mut fields);
        }
        if kind == "Status" {
            sort_causes(&mut fields);
        }
        let normalized = |(name, value): (String, Value)| {
            let value = self.field(&name, value);
            (self.text(&name), value)
        };
        fields.into_iter().map(normalized).collect()
    }

    fn field(&mut self, name: &str, value: Value) -> Value {
        match (name, &value) {
            ("resourceVersion", Value::String(version)) if is_number(version) => {
                self.version(version).into()
            }
            ("nodePort" | "healthCheckNodePort", Value::Number(port))
                if !self.is_sent_as_token(&port.to_string()) =>
            {
                "<port>".into()
            }
            ("token", Value::String(token)) if token.starts_with("ey") => "<token>".into(),
            _ => self.value(value),
        }
    }

    fn version(&mut self, version: &str) -> String {
        if version == "0" || self.is_sent(&format!("\"{version}\"")) {
            return version.to_owned();
        }
        format!(
            "<version {}>",
            1 + position(&mut self.versions, version.to_owned())
        )
    }

    fn is_sent(&self, text: &str) -> bool {
        self.sent.contains(text)
    }

    /// Whether the case sends this number or address as a whole token: `10.0.0.40` does not contain `10.0.0.4`.
    fn is_sent_as_token(&self, text: &str) -> bool {
        self.sent.match_indices(text).any(|(start, _)| {
            let (before, rest) = self.sent.split_at(start);
            !before.ends_with(|before: char| before.is_ascii_digit())
                && !rest[text.len()..].starts_with(|after: char| after.is_ascii_digit())
        })
    }

    /// Records a name that the server generated.
    fn record_generated_name(&mut self, metadata: &Map<String, Value>) {
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        if let (Some(prefix), Some(name)) = (text("generateName"), text("name"))
            && name.starts_with(prefix)
            && !self.is_sent(name)
        {
            let placeholder = format!("{prefix}<random>");
            self.names.push((name.to_owned(), placeholder));
        }
    }

    pub fn text(&mut self, text: &str) -> String {
        let mut text = self.normalize_quoted_objects(text);
        for (name, placeholder) in &self.names {
            text = text.replace(name, placeholder);
        }
        text = text.replace(&self.id, "ID");
        if text.starts_with("10.0.0.") && text.len() <= 10 && !self.is_sent_as_token(&text) {
            return "<cluster address>".into();
        }
        for prefix in &self.masked_prefixes {
            text = mask_number_after(&text, prefix);
        }
        self.mask_identities(&text)
    }

    /// Sorts the fields of objects that are quoted in messages.
    fn normalize_quoted_objects(&mut self, text: &str) -> String {
        const PREFIX: &str = "Invalid value: ";
        let Some(start) = text.find("Invalid value: \"{").map(|at| at + PREFIX.len()) else {
            return text.to_owned();
        };
        let mut quoted = serde_json::Deserializer::from_str(&text[start..]).into_iter::<String>();
        let Some(Ok(quotation)) = quoted.next() else {
            return text.to_owned();
        };
        let Ok(object) = serde_json::from_str::<Value>(&quotation) else {
            return text.to_owned();
        };
        let end = start + quoted.byte_offset();
        format!("{}{}{}", &text[..start], self.value(object), &text[end..])
    }

    fn mask_identities(&mut self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let bytes = rest.as_bytes();
            let found = volatile_values::uuid(bytes)
                .or_else(|| volatile_values::time(bytes))
                .or_else(|| volatile_values::token_volume(bytes));
            match found.filter(|length| !self.is_sent(&rest[..*length])) {
                Some(length) => {
                    result.push_str(&self.placeholder(&rest[..length]));
                    rest = &rest[length..];
                }
                None => {
                    result.push(next);
                    rest = &rest[next.len_utf8()..];
                }
            }
        }
        result
    }

    fn placeholder(&mut self, value: &str) -> String {
        if volatile_values::token_volume(value.as_bytes()).is_some() {
            return "<token volume>".into();
        }
        if value.contains('T') {
            let fraction = value.split_once('.').map_or(0, |(_, end)| end.len() - 1);
            return match fraction {
                0 => "<time>".into(),
                digits => format!("<time with {digits} digits>"),
            };
        }
        format!("<uid {}>", 1 + position(&mut self.uids, value.to_owned()))
    }
}

fn position(seen: &mut Vec<String>, text: String) -> usize {
    seen.iter()
        .position(|known| *known == text)
        .unwrap_or_else(|| {
            seen.push(text);
            seen.len() - 1
        })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The resourceVersion of a list is that of the whole store and changes with unrelated writes.
fn mask_list_metadata(metadata: &mut Map<String, Value>) {
    for (name, placeholder) in [("resourceVersion", "<version>"), ("continue", "<continue>")] {
        if let Some(Value::String(text)) = metadata.get_mut(name)
            && !text.is_empty()
        {
            placeholder.clone_into(text);
        }
    }
}

/// The resourceVersion of a bookmark is that of the whole store.
fn mask_bookmark_version(object: Option<&mut Value>) {
    let metadata = object.and_then(|object| object.get_mut("metadata"));
    if let Some(Value::Object(metadata)) = metadata {
        mask_list_metadata(metadata);
    }
}

fn mask_ages(table: &mut Map<String, Value>) {
    let rows = table.get_mut("rows").and_then(Value::as_array_mut);
    for row in rows.into_iter().flatten() {
        let cells = row.get_mut("cells").and_then(Value::as_array_mut);
        for cell in cells.into_iter().flatten() {
            if cell.as_str().is_some_and(volatile_values::is_age) {
                *cell = "<age>".into();
            }
        }
    }
}

/// Upstream validates map entries in random order, so the causes are sorted.
fn sort_causes(status: &mut Map<String, Value>) {
    let causes = status
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"));
    let Some(Value::Array(causes)) = causes else {
        return;
    };
    let text = |cause: &Value| {
        let part = |name: &str| cause.get(name).and_then(Value::as_str).unwrap_or_default();
        format!("{}: {}", part("field"), part("message"))
    };
    causes.sort_by_key(text);
    let mut texts: Vec<String> = causes.iter().map(text).collect();
    texts.dedup();
    let sorted = texts.join(", ");
    if let Some(Value::String(message)) = status.get_mut("message")
        && let Some(start) = message.find(" is invalid: [").map(|at| at + 14)
        && message.len() == start + sorted.len() + 1
    {
        message.replace_range(start.., &format!("{sorted}]"));
    }
}

fn mask_number_after(text: &str, prefix: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(found) = rest.find(prefix) {
        let end = found + prefix.len();
        result.push_str(&rest[..end]);
        rest = &rest[end..];
        let count = volatile_values::digits(rest.as_bytes());
        if count > 0 {
            result.push_str("<number>");
        }
        rest = &rest[count..];
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(input: Value, expect: Value) {
        let sent = "2020-01-01T00:00:00Z 10.0.0.200 nodePort 30001".to_owned();
        let mut normalizer = ResponseNormalizer::new("abcde", sent);
        normalizer.mask_numbers_after(&["current: ".to_owned()]);
        assert_eq!(normalizer.value(input), expect);
    }

    const ONE: &str = "123e4567-e89b-12d3-a456-426614174000";
    const TWO: &str = "223e4567-e89b-12d3-a456-426614174000";

    #[test]
    fn equal_values_get_equal_placeholders() {
        check(
            json!([ONE, TWO, format!("was {ONE}")]),
            json!(["<uid 1>", "<uid 2>", "was <uid 1>"]),
        );
        check(
            json!([{"resourceVersion": "7"}, {"resourceVersion": "8"}, {"resourceVersion": "7"}]),
            json!([{"resourceVersion": "<version 1>"}, {"resourceVersion": "<version 2>"}, {"resourceVersion": "<version 1>"}]),
        );
    }

    #[test]
    fn values_sent_by_the_case_are_kept() {
        check(
            json!(["2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z"]),
            json!(["2020-01-01T00:00:00Z", "<time>"]),
        );
        check(
            json!(["10.0.0.200", "10.0.0.17", "10.0.0.20"]),
            json!(["10.0.0.200", "<cluster address>", "<cluster address>"]),
        );
        check(
            json!([{"nodePort": 30001}, {"nodePort": 30002}]),
            json!([{"nodePort": 30001}, {"nodePort": "<port>"}]),
        );
    }

    #[test]
    fn causes_are_sorted() {
        check(
            json!({"kind": "Status", "message": "x is invalid: [b: no, a: yes]", "details":
                {"causes": [{"field": "b", "message": "no"}, {"field": "a", "message": "yes"}]}}),
            json!({"kind": "Status", "message": "x is invalid: [a: yes, b: no]", "details":
                {"causes": [{"field": "a", "message": "yes"}, {"field": "b", "message": "no"}]}}),
        );
    }

    #[test]
    fn quoted_objects_are_normalized() {
        check(
            json!(
                "is invalid: Invalid value: \"{\\\"b\\\":1,\\\"a\\\":{\\\"resourceVersion\\\":\\\"7\\\"}}\": bad"
            ),
            json!(
                "is invalid: Invalid value: {\"a\":{\"resourceVersion\":\"<version 1>\"},\"b\":1}: bad"
            ),
        );
    }

    #[test]
    fn lists_tables_and_generated_names_are_masked() {
        check(
            json!({"kind": "PodList", "metadata": {"resourceVersion": "5", "continue": "abc"}}),
            json!({"kind": "PodList", "metadata": {"resourceVersion": "<version>", "continue": "<continue>"}}),
        );
        check(
            json!({"kind": "Table", "rows": [{"cells": ["a", "5m3s", "<unknown>"]}]}),
            json!({"kind": "Table", "rows": [{"cells": ["a", "<age>", "<unknown>"]}]}),
        );
        check(
            json!({"metadata": {"generateName": "a-", "name": "a-x2x2x", "managedFields": []}}),
            json!({"metadata": {"generateName": "a-", "name": "a-<random>"}}),
        );
        check(
            json!("ns-abcde has current: 17"),
            json!("ns-ID has current: <number>"),
        );
    }
}
