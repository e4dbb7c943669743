//! Test helpers that run an object through a kind's strategy and compare the validation errors.

use rhumb_meta::Timestamp;
use rhumb_meta::field::ErrorList;
use serde_json::{Value, json};

use crate::{FeatureGates, FieldView, JsonObject, Kind, StrategyContext, kinds, metadata};

pub(crate) fn kind(group: &str, name: &str) -> Kind {
    let mut all = kinds::all().into_iter();
    all.find(|kind| kind.group == group && kind.name == name)
        .expect(name)
}

pub(crate) fn request(gates: &FeatureGates) -> StrategyContext<'_> {
    StrategyContext {
        gates,
        now: Timestamp::from_unix(1_700_000_000, 0),
        user: "someone",
        uid: "",
        groups: &[],
        extra: None,
        is_patch: false,
    }
}

/// The object with the required metadata added where missing.
pub(crate) fn object(kind: &Kind, value: Value) -> JsonObject {
    let Value::Object(mut object) = value else {
        panic!("not an object: {value}");
    };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut().expect("metadata is an object");
    metadata.entry("name").or_insert_with(|| json!("a"));
    metadata
        .entry("resourceVersion")
        .or_insert_with(|| json!("1"));
    if kind.is_namespaced() {
        metadata.entry("namespace").or_insert_with(|| json!("ns"));
    }
    object
}

fn assert_errors(errors: &ErrorList, want: &[&str], context: &JsonObject) {
    let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(got, want, "{}", json!(context));
}

/// Creates an object and compares the validation errors.
pub(crate) fn check_create(kind: &Kind, value: Value, want: &[&str]) {
    let (object, errors) = create(kind, value, &FeatureGates::default());
    assert_errors(&errors, want, &object);
}

pub(crate) fn create(kind: &Kind, value: Value, gates: &FeatureGates) -> (JsonObject, ErrorList) {
    let mut object = object(kind, value);
    let mut errors = ErrorList::new();
    kind.strategy.apply_defaults(&mut object);
    kind.strategy.prepare_create(&mut object, &request(gates));
    metadata::validate_create(&FieldView::root(&object), kind, &mut errors);
    kind.strategy
        .validate_create(&FieldView::root(&object), &request(gates), &mut errors);
    (object, errors)
}

/// Updates an object by a merge patch and compares the validation errors.
pub(crate) fn check_update(kind: &Kind, old: Value, patch: Value, want: &[&str]) {
    let (object, errors) = update(kind, old, patch);
    assert_errors(&errors, want, &object);
}

pub(crate) fn update(kind: &Kind, old: Value, patch: Value) -> (JsonObject, ErrorList) {
    update_with(kind, old, patch, &FeatureGates::default())
}

pub(crate) fn update_with(
    kind: &Kind,
    old: Value,
    patch: Value,
    gates: &FeatureGates,
) -> (JsonObject, ErrorList) {
    let old = object(kind, old);
    let mut new = patched(&old, patch);
    let mut errors = ErrorList::new();
    kind.strategy.apply_defaults(&mut new);
    kind.strategy
        .prepare_update(&mut new, &old, &request(gates));
    let (view, old) = (FieldView::root(&new), FieldView::root(&old));
    metadata::validate_update(&view, &old, kind, &mut errors);
    kind.strategy
        .validate_update(&view, &old, &request(gates), &mut errors);
    (new, errors)
}

pub(crate) fn check_status(kind: &Kind, old: Value, patch: Value, want: &[&str]) {
    let gates = FeatureGates::default();
    let old = object(kind, old);
    let mut new = patched(&old, patch);
    let mut errors = ErrorList::new();
    kind.strategy
        .prepare_status_update(&mut new, &old, &request(&gates));
    let (view, old) = (FieldView::root(&new), FieldView::root(&old));
    kind.strategy
        .validate_status_update(&view, &old, &request(&gates), &mut errors);
    assert_errors(&errors, want, &new);
}

pub(crate) fn warnings(kind: &Kind, value: Value) -> Vec<String> {
    let object = object(kind, value);
    let mut warnings = Vec::new();
    kind.strategy
        .warnings(&FieldView::root(&object), None, &mut warnings);
    warnings
}

pub(crate) fn patched(old: &JsonObject, patch: Value) -> JsonObject {
    let mut value = Value::Object(old.clone());
    merge(&mut value, patch);
    value.as_object().expect("an object").clone()
}

fn merge(into: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *into = patch;
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    let fields = into.as_object_mut().expect("replaced by an object above");
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// The value of a selectable field of an object.
pub(crate) fn selected(kind: &Kind, field: &str, object: &JsonObject) -> String {
    let outline = crate::SelectionAttrsReader::new(&kind.selectable);
    let text = serde_json::to_string(object).expect("JSON");
    let outlined = outline.read(text.as_bytes()).expect("an object");
    let place = kind.selectable.iter().position(|known| known.name == field);
    let value = outlined.fields().nth(place.expect(field));
    value.expect(field).to_owned()
}
