//! What tests of plugins share.

use rhumb_api::Object;
use serde_json::Value;

pub(super) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}
