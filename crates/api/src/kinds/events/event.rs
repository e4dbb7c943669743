//! Declares `Event` of `events.k8s.io`: the objects of the core group with some fields renamed. The strategy is that
//! of the core group.

use serde_json::json;

use crate::kind::VersionConversion;
use crate::kinds::core::event::EventStrategy;
use crate::{JsonObject, Kind, ResourceScope, SelectableField};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "events.k8s.io",
        "v1",
        "Event",
        "events",
        "io.k8s.api.events.v1.Event",
    )
    .short_names(&["ev"])
    .storage("events")
    .stored_as(
        "",
        "v1",
        "Event",
        VersionConversion {
            to_stored: to_core_event,
            from_stored: from_core_event,
        },
    )
    .creates_on_update()
    .ignores_dependents()
    .selectable(SELECTABLE)
    .strategy(EventStrategy { is_strict: true })
}

macro_rules! selectable {
    ($($name:literal => $path:literal),* $(,)?) => {
        &[$(SelectableField::string($name, $path),)*]
    };
}

const SELECTABLE: &[SelectableField] = selectable!(
    "reason" => "reason",
    "regarding.kind" => "involvedObject.kind",
    "regarding.namespace" => "involvedObject.namespace",
    "regarding.name" => "involvedObject.name",
    "regarding.uid" => "involvedObject.uid",
    "regarding.apiVersion" => "involvedObject.apiVersion",
    "regarding.resourceVersion" => "involvedObject.resourceVersion",
    "regarding.fieldPath" => "involvedObject.fieldPath",
    "reportingController" => "reportingComponent",
    "type" => "type",
);

/// Fields whose name differs: here, and in the core group.
const RENAMED_FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn to_core_event(event: &mut JsonObject) {
    rename_fields(event, RENAMED_FIELDS.iter().copied());
    event.insert("apiVersion".to_owned(), json!("v1"));
}

fn from_core_event(event: &mut JsonObject) {
    rename_fields(
        event,
        RENAMED_FIELDS.iter().map(|&(ours, theirs)| (theirs, ours)),
    );
    event.insert("apiVersion".to_owned(), json!("events.k8s.io/v1"));
}

fn rename_fields<'a>(event: &mut JsonObject, names: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in names {
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{check_create, check_update, kind, object, selected};

    fn event() -> Value {
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a", "namespace": "ns"},
            "eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "x/y", "reportingInstance": "z",
            "action": "Act", "reason": "Why", "type": "Normal", "note": "text",
            "regarding": {"kind": "Pod", "namespace": "ns"}})
    }

    fn stored() -> Value {
        let mut event = event().as_object().expect("an object").clone();
        to_core_event(&mut event);
        Value::Object(event)
    }

    #[test]
    fn core_and_events_v1_forms_convert_both_ways() {
        let want = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a", "namespace": "ns"},
            "eventTime": "2024-01-01T00:00:00.000000Z", "reportingComponent": "x/y", "reportingInstance": "z",
            "action": "Act", "reason": "Why", "type": "Normal", "message": "text",
            "involvedObject": {"kind": "Pod", "namespace": "ns"}});
        assert_eq!(stored(), want);
        let mut back = want.as_object().expect("an object").clone();
        from_core_event(&mut back);
        assert_eq!(Value::Object(back), event());
    }

    #[test]
    fn field_selectors_use_events_v1_names() {
        let kind = kind("events.k8s.io", "Event");
        let object = object(&kind, stored());
        assert_eq!(selected(&kind, "regarding.kind", &object), "Pod");
    }

    #[test]
    fn new_events_reject_deprecated_fields() {
        let kind = kind("events.k8s.io", "Event");
        check_create(&kind, stored(), &[]);
        let mut odd = stored();
        odd["type"] = json!("Odd");
        odd["count"] = json!(1);
        odd["series"] = json!({"count": 1});
        odd.as_object_mut().expect("an object").remove("eventTime");
        check_create(
            &kind,
            odd,
            &[
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
                "eventTime: Required value",
                "type: Invalid value: \"\": has invalid value: Odd",
                "count: Invalid value: \"\": needs to be unset",
            ],
        );
    }

    #[test]
    fn event_fields_except_series_are_immutable() {
        let kind = kind("events.k8s.io", "Event");
        let series =
            json!({"series": {"count": 2, "lastObservedTime": "2024-01-01T00:00:01.000000Z"}});
        check_update(&kind, stored(), series, &[]);
        let patch = json!({"reason": "Because", "reportingComponent": "other"});
        check_update(
            &kind,
            stored(),
            patch,
            &[
                "reason: Invalid value: \"Because\": field is immutable",
                "reason: Invalid value: \"Because\": field is immutable",
                "reportingController: Invalid value: \"other\": field is immutable",
            ],
        );
    }
}
