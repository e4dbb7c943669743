//! Tests of JSON patches.

use super::*;
use serde_json::json;

/// Applies operations to a document with the schema of a webhook configuration.
fn apply_to_webhook_configuration(
    document: Value,
    operations: &[JsonPatchOperation],
) -> Result<Value, JsonPatchError> {
    let table = crate::Table::builtin();
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
    let configuration_with = |rules: Value| json!({"webhooks": [{"excludeResourceRules": rules}]});
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
