//! JSON patch (RFC 6902), with the deviations of upstream's library (evanphx/json-patch): `replace` adds missing
//! fields, negative indices count from the end, and an absent value is null.

use serde_json::Value;

use crate::{AliasResolver, check_json};

/// The total size of `copy` operations in a patch. Without a limit, forty nested copies exhaust any memory.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How many array items a patch may shift in total: an operation at the head of an array shifts all its items.
const MOVED_ITEMS_MAX: usize = 20_000_000;

/// The maximum number of operations in a JSON patch of a client, as upstream has it.
pub const JSON_PATCH_OPERATIONS_MAX: usize = 10_000;

/// A parsed JSON patch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JsonPatch(Vec<JsonPatchOperation>);

impl JsonPatch {
    /// Errors have the messages of Go's JSON decoder.
    pub fn parse(bytes: &[u8]) -> Result<JsonPatch, String> {
        decode(bytes).map(JsonPatch)
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies the patch to a document, whose field aliases the resolver knows.
    pub fn apply(
        &self,
        document: Value,
        alias_resolver: &mut AliasResolver<'_>,
    ) -> Result<Value, JsonPatchError> {
        apply(document, &self.0, alias_resolver)
    }
}

/// One operation of a patch. It is checked when it is applied.
#[derive(Debug, Clone, Default, PartialEq)]
struct JsonPatchOperation {
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
pub struct JsonPatchError {
    op: String,
    path: String,
    /// Whether it was a `test` operation that found another value.
    pub is_test: bool,
}

/// Decodes a patch, with the error messages of Go's JSON decoder.
fn decode(body: &[u8]) -> Result<Vec<JsonPatchOperation>, String> {
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
fn apply(
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
mod tests;
