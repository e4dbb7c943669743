//! JSON patch (RFC 6902), with the freedoms that upstream's library takes: `replace` sets what an object has not,
//! negative indices count from the end, and a value that is not given is null.

use rhumb_schema::{Speller, check_json};
use serde_json::Value;

/// How much a patch may copy in all: without it, forty copies fill any memory.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How many items of lists a patch may move in all: each operation at the head of a list moves the whole of it.
const MOVED_ITEMS_MAX: usize = 20_000_000;

/// One operation as it was sent. Whether it makes sense shows when it is applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Operation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// Why an operation does not apply.
#[derive(Debug, PartialEq, Eq)]
enum Cause {
    /// A test did not hold.
    Test,
    Other,
}

/// An operation of a patch that does not apply. Clients are told no more than that; others want to know which.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} operation does not apply: {}: {path:?}", if *.is_test { "testing value failed" } else { "doc is missing path" })]
pub(crate) struct PatchFailure {
    op: String,
    path: String,
    /// Whether it is a test that did not hold.
    pub(crate) is_test: bool,
}

/// The operations of a patch, or what is wrong with it in Go's words.
pub(super) fn decode(body: &[u8]) -> Result<Vec<Operation>, String> {
    check_json(body).map_err(|error| error.to_string())?;
    let patch: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    match patch {
        Value::Null => Ok(Vec::new()),
        Value::Array(operations) => operations.into_iter().map(Operation::decode).collect(),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            go_kind(&other)
        )),
    }
}

/// What Go calls a value that it did not expect.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl Operation {
    fn decode(operation: Value) -> Result<Operation, String> {
        let mut fields = match operation {
            Value::Null => return Ok(Operation::default()),
            Value::Object(fields) => fields,
            other => {
                return Err(format!(
                    "json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                    go_kind(&other)
                ));
            }
        };
        let value = fields.remove("value").unwrap_or_default();
        let mut text = |name: &str| match fields.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!(
                "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                go_kind(&other)
            )),
        };
        Ok(Operation {
            op: text("op")?.unwrap_or_default(),
            path: text("path")?,
            from: text("from")?,
            value,
        })
    }

    fn apply(
        &self,
        document: &mut Value,
        work: &mut Work,
        speller: &mut Speller<'_>,
    ) -> Result<(), Cause> {
        let path = self.path.as_deref().map(|path| speller.pointer(path));
        let path = &*path.ok_or(Cause::Other)?;
        let from = self.from.as_deref().map(|from| speller.pointer(from));
        let from = || from.as_deref().ok_or(Cause::Other);
        if matches!(self.op.as_str(), "add" | "remove" | "move" | "copy") {
            work.count_moved(document, path)?;
        }
        if self.op == "move" {
            work.count_moved(document, from()?)?;
        }
        match self.op.as_str() {
            "add" => add(document, path, self.value.clone()),
            "remove" => remove(document, path).map(|_| ()),
            "replace" => replace(document, path, self.value.clone()),
            "move" => {
                let moved = remove(document, from()?)?;
                add(document, path, moved)
            }
            "copy" => {
                let (container, key) = find(document, from()?)?;
                let copy = get(container, &key)?.cloned().unwrap_or_default();
                work.copied_bytes += size_of(&copy);
                if work.copied_bytes > COPIED_BYTES_MAX {
                    return Err(Cause::Other);
                }
                add(document, path, copy)
            }
            "test" if path.is_empty() => is_same(document, &self.value),
            "test" => {
                let (container, key) = find(document, path)?;
                is_same(get(container, &key)?.unwrap_or(&Value::Null), &self.value)
            }
            _ => Err(Cause::Other),
        }
    }
}

/// What a patch has cost so far.
#[derive(Debug, Default)]
struct Work {
    copied_bytes: usize,
    moved_items: usize,
}

impl Work {
    /// Counts the items of the list that the path leads into, if it does.
    fn count_moved(&mut self, document: &mut Value, path: &str) -> Result<(), Cause> {
        if let Ok((Value::Array(items), _)) = find(document, path) {
            self.moved_items += items.len();
        }
        if self.moved_items > MOVED_ITEMS_MAX {
            return Err(Cause::Other);
        }
        Ok(())
    }
}

/// Applies all operations, or none. Their paths may have other spellings of fields.
pub(super) fn apply(
    mut document: Value,
    operations: &[Operation],
    speller: &mut Speller<'_>,
) -> Result<Value, PatchFailure> {
    let mut work = Work::default();
    for operation in operations {
        let applied = operation.apply(&mut document, &mut work, speller);
        applied.map_err(|cause| PatchFailure {
            op: operation.op.clone(),
            path: operation.path.clone().unwrap_or_default(),
            is_test: cause == Cause::Test,
        })?;
    }
    Ok(document)
}

fn is_same(value: &Value, expected: &Value) -> Result<(), Cause> {
    if value == expected {
        Ok(())
    } else {
        Err(Cause::Test)
    }
}

/// The object or list that holds what a path names, and the last step to it.
fn find<'d>(document: &'d mut Value, path: &str) -> Result<(&'d mut Value, String), Cause> {
    let mut steps = path.split('/').skip(1).map(unescape);
    let mut last = steps.next().ok_or(Cause::Other)?;
    let mut container = document;
    for step in steps {
        container = match container {
            Value::Object(fields) => fields.get_mut(&last),
            Value::Array(items) => {
                let index = index(&last, items.len())?;
                items.get_mut(index)
            }
            _ => None,
        }
        .ok_or(Cause::Other)?;
        last = step;
    }
    match container {
        Value::Object(_) | Value::Array(_) => Ok((container, last)),
        _ => Err(Cause::Other),
    }
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// A place among so many; negative ones count from the end.
fn index(step: &str, count: usize) -> Result<usize, Cause> {
    let given: i64 = step.parse().map_err(|_| Cause::Other)?;
    let index = if given < 0 {
        given + i64::try_from(count).map_err(|_| Cause::Other)?
    } else {
        given
    };
    usize::try_from(index)
        .ok()
        .filter(|&index| index < count)
        .ok_or(Cause::Other)
}

/// What an object has not is `None`; a list must have it.
fn get<'c>(container: &'c Value, key: &str) -> Result<Option<&'c Value>, Cause> {
    match container {
        Value::Object(fields) => Ok(fields.get(key)),
        Value::Array(items) => Ok(items.get(index(key, items.len())?)),
        _ => Err(Cause::Other),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), Cause> {
    let (container, key) = find(document, path)?;
    match container {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(&key, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => return Err(Cause::Other),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, Cause> {
    let (container, key) = find(document, path)?;
    match container {
        Value::Object(fields) => fields.remove(&key).ok_or(Cause::Other),
        Value::Array(items) => {
            let at = index(&key, items.len())?;
            Ok(items.remove(at))
        }
        _ => Err(Cause::Other),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), Cause> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(Cause::Other);
        }
        *document = value;
        return Ok(());
    }
    let (container, key) = find(document, path)?;
    match container {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) => {
            let at = index(&key, items.len())?;
            items[at] = value;
        }
        _ => return Err(Cause::Other),
    }
    Ok(())
}

/// About how long a value is as JSON.
fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(size_of).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields
                .iter()
                .map(|(name, value)| name.len() + 4 + size_of(value))
                .sum::<usize>()
                + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// To an object that has the fields of a webhook configuration, and any others.
    fn applied(document: Value, operations: &[Operation]) -> Result<Value, PatchFailure> {
        let table = rhumb_schema::Table::builtin();
        let of = "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration";
        let mut speller = Speller::new(table, table.named(of).unwrap());
        apply(document, operations, &mut speller)
    }

    fn check(document: Value, patch: Value, expect: Option<Value>) {
        let operations = decode(patch.to_string().as_bytes()).unwrap();
        assert_eq!(applied(document, &operations).ok(), expect, "{patch}");
    }

    #[test]
    fn paths_lead_to_fields_by_any_of_their_names() {
        let with = |rules: Value| json!({"webhooks": [{"excludeResourceRules": rules}]});
        let names = |names: &[&str]| json!([{"resourceNames": names}]);
        for (operation, expect) in [
            (
                json!({"op": "remove", "path": "/webhooks/0/exclusionRules/0"}),
                json!([]),
            ),
            (
                json!({"op": "add", "path": "/webhooks/0/excludeRules/0/objectNames/-", "value": "b"}),
                names(&["a", "b"]),
            ),
            (
                json!({"op": "copy", "from": "/webhooks/0/exclusionRules/0/objectNames/0",
                    "path": "/webhooks/0/exclusionRules/0/objectNames/-"}),
                names(&["a", "a"]),
            ),
            (
                json!({"op": "test", "path": "/webhooks/0/exclusionRules/0/objectNames/0", "value": "a"}),
                names(&["a"]),
            ),
        ] {
            check(with(names(&["a"])), json!([operation]), Some(with(expect)));
        }
    }

    #[test]
    fn operations_do_what_upstreams_do() {
        let one = |operation: Value, expect: Option<Value>| {
            let document = json!({"a": {"b/c": 1}, "l": [1, 2], "s": "x"});
            check(document, json!([operation]), expect);
        };
        let with = |path: &str, value: Value| {
            let mut document = json!({"a": {"b/c": 1}, "l": [1, 2], "s": "x"});
            document[path] = value;
            Some(document)
        };
        one(
            json!({"op": "add", "path": "/l/-", "value": 3}),
            with("l", json!([1, 2, 3])),
        );
        one(
            json!({"op": "add", "path": "/l/1", "value": 3}),
            with("l", json!([1, 3, 2])),
        );
        one(
            json!({"op": "add", "path": "/l/-1", "value": 3}),
            with("l", json!([1, 2, 3])),
        );
        one(json!({"op": "add", "path": "/l/3", "value": 3}), None);
        one(json!({"op": "add", "path": "/n"}), with("n", Value::Null));
        one(json!({"op": "add", "path": "/n/m", "value": 1}), None);
        one(json!({"op": "add", "path": "/s/m", "value": 1}), None);
        one(
            json!({"op": "replace", "path": "/n", "value": 1}),
            with("n", json!(1)),
        );
        one(json!({"op": "replace", "path": "/l/2", "value": 1}), None);
        one(
            json!({"op": "replace", "path": "", "value": {}}),
            Some(json!({})),
        );
        one(json!({"op": "replace", "path": "", "value": 1}), None);
        one(
            json!({"op": "remove", "path": "/a/b~1c"}),
            with("a", json!({})),
        );
        one(json!({"op": "remove", "path": "/none"}), None);
        one(json!({"op": "remove", "path": ""}), None);
        one(json!({"op": "move", "from": "/none", "path": "/n"}), None);
        one(
            json!({"op": "copy", "from": "/l/-1", "path": "/s"}),
            with("s", json!(2)),
        );
        one(
            json!({"op": "test", "path": "/none", "value": null}),
            with("s", json!("x")),
        );
        one(json!({"op": "test", "path": "/s", "value": "y"}), None);
        one(json!({"op": "dance", "path": "/s"}), None);
        one(json!({"op": "add", "value": 1}), None);
        one(Value::Null, None);
    }

    #[test]
    fn what_a_patch_copies_is_limited() {
        let copy = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let patch = Value::Array(vec![copy; 40]);
        check(json!({"a": ["x"]}), patch, None);
    }

    #[test]
    fn what_a_patch_moves_is_limited() {
        const ITEMS: usize = 200_000;
        let check = |operation: &Value, times: usize, fits: bool| {
            let document = json!({"l": vec![0; ITEMS]});
            let patch = Value::Array(vec![operation.clone(); times]);
            let operations = decode(patch.to_string().as_bytes()).unwrap();
            let outcome = applied(document, &operations);
            assert_eq!(outcome.is_ok(), fits, "{times} times {operation}");
        };
        // Each removal leaves one item less to move.
        let most = MOVED_ITEMS_MAX / ITEMS;
        check(&json!({"op": "remove", "path": "/l/0"}), most, true);
        check(&json!({"op": "remove", "path": "/l/0"}), most + 1, false);
        check(
            &json!({"op": "add", "path": "/l/0", "value": 1}),
            most - 1,
            true,
        );
        check(
            &json!({"op": "add", "path": "/l/0", "value": 1}),
            most,
            false,
        );
        // A move goes through the list twice.
        let back = json!({"op": "move", "from": "/l/0", "path": "/l/1"});
        check(&back, most / 2, true);
        check(&back, most / 2 + 1, false);
        // What changes an item in its place moves nothing.
        let replace = json!({"op": "replace", "path": "/l/0", "value": 1});
        check(&replace, 10 * most, true);
    }

    #[test]
    fn bodies_that_are_no_patch_are_refused_in_gos_words() {
        for (body, expect) in [
            (
                "{}",
                "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
            (
                "[1]",
                "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
            ),
            (
                "[{\"op\":1}]",
                "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
            ),
            ("[", "unexpected end of JSON input"),
        ] {
            assert_eq!(decode(body.as_bytes()), Err(expect.to_owned()), "{body}");
        }
    }
}
