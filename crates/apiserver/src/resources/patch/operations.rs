//! JSON patch (RFC 6902), with the deviations of upstream's library (evanphx/json-patch): `replace` adds missing
//! fields, negative indices count from the end, and an absent value is null.

use rhumb_schema::{AliasResolver, check_json};
use serde_json::Value;

/// The total size of `copy` operations in a patch. Without a limit, forty nested copies exhaust any memory.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How many array items a patch may shift in total: an operation at the head of an array shifts all its items.
const MOVED_ITEMS_MAX: usize = 20_000_000;

/// One operation of a patch. It is checked when it is applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct JsonPatchOperation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// Why an operation failed.
#[derive(Debug, PartialEq, Eq)]
enum OperationError {
    /// A `test` operation found another value.
    TestFailed,
    Other,
}

/// The operation of a patch that failed. Clients get no details; admission errors include them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} operation does not apply: {}: {path:?}", if *.is_test { "testing value failed" } else { "doc is missing path" })]
pub(crate) struct JsonPatchError {
    op: String,
    path: String,
    /// Whether it was a `test` operation that found another value.
    pub(crate) is_test: bool,
}

/// Decodes a patch, with the error messages of Go's JSON decoder.
pub(super) fn decode(body: &[u8]) -> Result<Vec<JsonPatchOperation>, String> {
    check_json(body).map_err(|error| error.to_string())?;
    let patch: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    match patch {
        Value::Null => Ok(Vec::new()),
        Value::Array(operations) => operations
            .into_iter()
            .map(JsonPatchOperation::decode)
            .collect(),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            go_kind(&other)
        )),
    }
}

/// The name of a JSON type in Go's error messages.
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

impl JsonPatchOperation {
    fn decode(operation: Value) -> Result<JsonPatchOperation, String> {
        let mut fields = match operation {
            Value::Null => return Ok(JsonPatchOperation::default()),
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
        Ok(JsonPatchOperation {
            op: text("op")?.unwrap_or_default(),
            path: text("path")?,
            from: text("from")?,
            value,
        })
    }

    fn apply(
        &self,
        document: &mut Value,
        cost: &mut PatchCost,
        alias_resolver: &mut AliasResolver<'_>,
    ) -> Result<(), OperationError> {
        let path = self
            .path
            .as_deref()
            .map(|path| alias_resolver.resolve_pointer(path));
        let path = &*path.ok_or(OperationError::Other)?;
        let from = self
            .from
            .as_deref()
            .map(|from| alias_resolver.resolve_pointer(from));
        let from = || from.as_deref().ok_or(OperationError::Other);
        if matches!(self.op.as_str(), "add" | "remove" | "move" | "copy") {
            cost.count_moved(document, path)?;
        }
        if self.op == "move" {
            cost.count_moved(document, from()?)?;
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
                let (container, key) = find_container(document, from()?)?;
                let copy = get(container, &key)?.cloned().unwrap_or_default();
                cost.copied_bytes += json_size(&copy);
                if cost.copied_bytes > COPIED_BYTES_MAX {
                    return Err(OperationError::Other);
                }
                add(document, path, copy)
            }
            "test" if path.is_empty() => test_value(document, &self.value),
            "test" => {
                let (container, key) = find_container(document, path)?;
                test_value(get(container, &key)?.unwrap_or(&Value::Null), &self.value)
            }
            _ => Err(OperationError::Other),
        }
    }
}

/// The resources that a patch has used so far, which are limited.
#[derive(Debug, Default)]
struct PatchCost {
    copied_bytes: usize,
    moved_items: usize,
}

impl PatchCost {
    /// Counts the items of the array that the path leads into, if any.
    fn count_moved(&mut self, document: &mut Value, path: &str) -> Result<(), OperationError> {
        if let Ok((Value::Array(items), _)) = find_container(document, path) {
            self.moved_items += items.len();
        }
        if self.moved_items > MOVED_ITEMS_MAX {
            return Err(OperationError::Other);
        }
        Ok(())
    }
}

/// Applies all operations, or none. Their paths may use field aliases.
pub(super) fn apply(
    mut document: Value,
    operations: &[JsonPatchOperation],
    alias_resolver: &mut AliasResolver<'_>,
) -> Result<Value, JsonPatchError> {
    let mut cost = PatchCost::default();
    for operation in operations {
        let applied = operation.apply(&mut document, &mut cost, alias_resolver);
        applied.map_err(|cause| JsonPatchError {
            op: operation.op.clone(),
            path: operation.path.clone().unwrap_or_default(),
            is_test: cause == OperationError::TestFailed,
        })?;
    }
    Ok(document)
}

fn test_value(value: &Value, expected: &Value) -> Result<(), OperationError> {
    if value == expected {
        Ok(())
    } else {
        Err(OperationError::TestFailed)
    }
}

/// The object or array that contains the target of a path, and the last token of the path.
fn find_container<'d>(
    document: &'d mut Value,
    path: &str,
) -> Result<(&'d mut Value, String), OperationError> {
    let mut steps = path.split('/').skip(1).map(unescape);
    let mut last_step = steps.next().ok_or(OperationError::Other)?;
    let mut container = document;
    for step in steps {
        container = match container {
            Value::Object(fields) => fields.get_mut(&last_step),
            Value::Array(items) => {
                let index = array_index(&last_step, items.len())?;
                items.get_mut(index)
            }
            _ => None,
        }
        .ok_or(OperationError::Other)?;
        last_step = step;
    }
    match container {
        Value::Object(_) | Value::Array(_) => Ok((container, last_step)),
        _ => Err(OperationError::Other),
    }
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Parses an array index below `count`; negative ones count from the end.
fn array_index(step: &str, count: usize) -> Result<usize, OperationError> {
    let signed_index: i64 = step.parse().map_err(|_| OperationError::Other)?;
    let index = if signed_index < 0 {
        signed_index + i64::try_from(count).map_err(|_| OperationError::Other)?
    } else {
        signed_index
    };
    usize::try_from(index)
        .ok()
        .filter(|&index| index < count)
        .ok_or(OperationError::Other)
}

/// A missing field of an object is `None`; a missing array item is an error.
fn get<'c>(container: &'c Value, key: &str) -> Result<Option<&'c Value>, OperationError> {
    match container {
        Value::Object(fields) => Ok(fields.get(key)),
        Value::Array(items) => Ok(items.get(array_index(key, items.len())?)),
        _ => Err(OperationError::Other),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), OperationError> {
    let (container, key) = find_container(document, path)?;
    match container {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let index = array_index(&key, items.len() + 1)?;
            items.insert(index, value);
        }
        _ => return Err(OperationError::Other),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, OperationError> {
    let (container, key) = find_container(document, path)?;
    match container {
        Value::Object(fields) => fields.remove(&key).ok_or(OperationError::Other),
        Value::Array(items) => {
            let index = array_index(&key, items.len())?;
            Ok(items.remove(index))
        }
        _ => Err(OperationError::Other),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), OperationError> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(OperationError::Other);
        }
        *document = value;
        return Ok(());
    }
    let (container, key) = find_container(document, path)?;
    match container {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) => {
            let index = array_index(&key, items.len())?;
            items[index] = value;
        }
        _ => return Err(OperationError::Other),
    }
    Ok(())
}

/// The approximate size of a value as JSON.
fn json_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(json_size).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields
                .iter()
                .map(|(name, value)| name.len() + 4 + json_size(value))
                .sum::<usize>()
                + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Applies operations to a document with the schema of a webhook configuration.
    fn apply_to_webhook_configuration(
        document: Value,
        operations: &[JsonPatchOperation],
    ) -> Result<Value, JsonPatchError> {
        let table = rhumb_schema::Table::builtin();
        let object_type = "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration";
        let mut alias_resolver = AliasResolver::new(table, table.type_id(object_type).unwrap());
        apply(document, operations, &mut alias_resolver)
    }

    fn check(document: Value, patch: Value, expect: Option<Value>) {
        let operations = decode(patch.to_string().as_bytes()).unwrap();
        assert_eq!(
            apply_to_webhook_configuration(document, &operations).ok(),
            expect,
            "{patch}"
        );
    }

    #[test]
    fn paths_may_use_field_aliases() {
        let configuration_with =
            |rules: Value| json!({"webhooks": [{"excludeResourceRules": rules}]});
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
            check(
                configuration_with(names(&["a"])),
                json!([operation]),
                Some(configuration_with(expect)),
            );
        }
    }

    #[test]
    fn operations_behave_like_upstreams() {
        let check_one = |operation: Value, expect: Option<Value>| {
            let document = json!({"a": {"b/c": 1}, "l": [1, 2], "s": "x"});
            check(document, json!([operation]), expect);
        };
        let operation_at = |path: &str, value: Value| {
            let mut document = json!({"a": {"b/c": 1}, "l": [1, 2], "s": "x"});
            document[path] = value;
            Some(document)
        };
        check_one(
            json!({"op": "add", "path": "/l/-", "value": 3}),
            operation_at("l", json!([1, 2, 3])),
        );
        check_one(
            json!({"op": "add", "path": "/l/1", "value": 3}),
            operation_at("l", json!([1, 3, 2])),
        );
        check_one(
            json!({"op": "add", "path": "/l/-1", "value": 3}),
            operation_at("l", json!([1, 2, 3])),
        );
        check_one(json!({"op": "add", "path": "/l/3", "value": 3}), None);
        check_one(
            json!({"op": "add", "path": "/n"}),
            operation_at("n", Value::Null),
        );
        check_one(json!({"op": "add", "path": "/n/m", "value": 1}), None);
        check_one(json!({"op": "add", "path": "/s/m", "value": 1}), None);
        check_one(
            json!({"op": "replace", "path": "/n", "value": 1}),
            operation_at("n", json!(1)),
        );
        check_one(json!({"op": "replace", "path": "/l/2", "value": 1}), None);
        check_one(
            json!({"op": "replace", "path": "", "value": {}}),
            Some(json!({})),
        );
        check_one(json!({"op": "replace", "path": "", "value": 1}), None);
        check_one(
            json!({"op": "remove", "path": "/a/b~1c"}),
            operation_at("a", json!({})),
        );
        check_one(json!({"op": "remove", "path": "/none"}), None);
        check_one(json!({"op": "remove", "path": ""}), None);
        check_one(json!({"op": "move", "from": "/none", "path": "/n"}), None);
        check_one(
            json!({"op": "copy", "from": "/l/-1", "path": "/s"}),
            operation_at("s", json!(2)),
        );
        check_one(
            json!({"op": "test", "path": "/none", "value": null}),
            operation_at("s", json!("x")),
        );
        check_one(json!({"op": "test", "path": "/s", "value": "y"}), None);
        check_one(json!({"op": "dance", "path": "/s"}), None);
        check_one(json!({"op": "add", "value": 1}), None);
        check_one(Value::Null, None);
    }

    #[test]
    fn copied_bytes_are_limited() {
        let copy = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let patch = Value::Array(vec![copy; 40]);
        check(json!({"a": ["x"]}), patch, None);
    }

    #[test]
    fn moved_items_are_limited() {
        const ITEMS: usize = 200_000;
        let check = |operation: &Value, times: usize, is_allowed: bool| {
            let document = json!({"l": vec![0; ITEMS]});
            let patch = Value::Array(vec![operation.clone(); times]);
            let operations = decode(patch.to_string().as_bytes()).unwrap();
            let outcome = apply_to_webhook_configuration(document, &operations);
            assert_eq!(outcome.is_ok(), is_allowed, "{times} times {operation}");
        };
        // Each removal leaves one item less to shift.
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
        // A move shifts the array twice.
        let move_within = json!({"op": "move", "from": "/l/0", "path": "/l/1"});
        check(&move_within, most / 2, true);
        check(&move_within, most / 2 + 1, false);
        // A replacement shifts nothing.
        let replace = json!({"op": "replace", "path": "/l/0", "value": 1});
        check(&replace, 10 * most, true);
    }

    #[test]
    fn malformed_json_patches_get_gos_errors() {
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
