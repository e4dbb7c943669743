//! Test helpers that run objects through a kind's strategy and compare the errors a client would see.

use rhumb_meta::Timestamp;
use rhumb_meta::field::ErrorList;
use serde_json::Value;

use crate::{FeatureGates, FieldView, JsonObject, Kind, StrategyContext, defaults};

/// The object after a create: with the defaults of its own type and `prepare_create` applied.
pub(crate) fn created(kind: &Kind, object: &Value) -> JsonObject {
    let mut object = defaulted(kind, object);
    with_request(|request| kind.strategy.prepare_create(&mut object, request));
    object
}

pub(crate) fn updated(kind: &Kind, object: &Value, old: &Value) -> JsonObject {
    let old = defaulted(kind, old);
    let mut object = defaulted(kind, object);
    with_request(|request| kind.strategy.prepare_update(&mut object, &old, request));
    object
}

/// The object with the defaults of its own type.
pub(crate) fn defaulted(kind: &Kind, object: &Value) -> JsonObject {
    let mut object = object.as_object().expect("an object").clone();
    let schema = kind.storage_version().map(|served| served.schema.as_ref());
    for (name, fill) in defaults::by_type() {
        if Some(name) == schema {
            fill(&mut object);
        }
    }
    object
}

#[track_caller]
pub(crate) fn check_create(kind: &Kind, object: &Value, expect: &[&str]) {
    let object = created(kind, object);
    let mut errors = ErrorList::new();
    with_request(|request| {
        let view = FieldView::root(&object);
        kind.strategy.validate_create(&view, request, &mut errors);
    });
    assert_eq!(texts(&errors), expect);
}

#[track_caller]
pub(crate) fn check_update(kind: &Kind, object: &Value, old: &Value, expect: &[&str]) {
    let object = updated(kind, object, old);
    let old = defaulted(kind, old);
    let mut errors = ErrorList::new();
    with_request(|request| {
        let (view, old) = (FieldView::root(&object), FieldView::root(&old));
        kind.strategy
            .validate_update(&view, &old, request, &mut errors);
    });
    assert_eq!(texts(&errors), expect);
}

#[track_caller]
pub(crate) fn check_status_update(kind: &Kind, object: &Value, old: &Value, expect: &[&str]) {
    let mut object = object.as_object().expect("an object").clone();
    let old = old.as_object().expect("an object").clone();
    let mut errors = ErrorList::new();
    with_request(|request| {
        kind.strategy
            .prepare_status_update(&mut object, &old, request);
        let (view, old) = (FieldView::root(&object), FieldView::root(&old));
        kind.strategy
            .validate_status_update(&view, &old, request, &mut errors);
    });
    assert_eq!(texts(&errors), expect);
}

pub(crate) fn warnings(kind: &Kind, object: &Value) -> Vec<String> {
    let object = object.as_object().expect("an object");
    let mut warnings = Vec::new();
    kind.strategy
        .warnings(&FieldView::root(object), None, &mut warnings);
    warnings
}

pub(crate) fn texts(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn with_request(test: impl FnOnce(&StrategyContext<'_>)) {
    with_gates(FeatureGates::default(), test);
}

pub(crate) fn with_gates<T>(
    gates: FeatureGates,
    test: impl FnOnce(&StrategyContext<'_>) -> T,
) -> T {
    test(&StrategyContext {
        gates: &gates,
        now: Timestamp::from_unix(1_700_000_000, 0),
        user: "tester",
        uid: "",
        groups: &[],
        extra: None,
        is_patch: false,
    })
}

/// A copy of `object` with `value` at the dotted `path` (numbers index lists; `~` is a dot in a name).
pub(crate) fn with(object: &Value, path: &str, value: Value) -> Value {
    let mut copy = object.clone();
    let mut at = &mut copy;
    for name in path.split('.') {
        at = match name.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[name.replace('~', ".")],
        };
    }
    *at = value;
    copy
}

/// The object after an update of the approval subresource.
pub(crate) fn approved(kind: &Kind, object: &Value, old: &Value) -> JsonObject {
    let mut object = object.as_object().expect("an object").clone();
    let old = old.as_object().expect("an object");
    with_request(|request| {
        kind.strategy
            .prepare_subresource("approval", &mut object, old, request);
    });
    object
}

#[track_caller]
pub(crate) fn check_approval(kind: &Kind, object: &Value, old: &Value, expect: &[&str]) {
    let object = approved(kind, object, old);
    let old = old.as_object().expect("an object");
    let mut errors = ErrorList::new();
    with_request(|request| {
        kind.strategy.validate_subresource(
            "approval",
            &FieldView::root(&object),
            &FieldView::root(old),
            request,
            &mut errors,
        );
    });
    assert_eq!(texts(&errors), expect);
}
