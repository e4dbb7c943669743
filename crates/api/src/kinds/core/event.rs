//! Declares `Event` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use rhumb_meta::{gotext, validation};

use crate::{
    FieldView, Kind, NameRule, ResourceScope, ResourceStrategy, SelectableField, StrategyContext,
    checks,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "Event",
        "events",
        "io.k8s.api.core.v1.Event",
    )
    .short_names(&["ev"])
    .names(NameRule::PathSegment)
    .allow_any_finalizer()
    .creates_on_update()
    .ignores_dependents()
    .selectable(SELECTABLE)
    .indexed(&["involvedObject.uid", "involvedObject.name"])
    .strategy(EventStrategy { is_strict: false })
}

macro_rules! selectable {
    ($($name:literal => $path:literal),* $(,)?) => {
        &[
            $(SelectableField::string($name, $path),)*
            SelectableField::first_non_empty("source", &["source.component", "reportingComponent"]),
        ]
    };
}

const SELECTABLE: &[SelectableField] = selectable!(
    "involvedObject.kind" => "involvedObject.kind",
    "involvedObject.namespace" => "involvedObject.namespace",
    "involvedObject.name" => "involvedObject.name",
    "involvedObject.uid" => "involvedObject.uid",
    "involvedObject.apiVersion" => "involvedObject.apiVersion",
    "involvedObject.resourceVersion" => "involvedObject.resourceVersion",
    "involvedObject.fieldPath" => "involvedObject.fieldPath",
    "reason" => "reason",
    "reportingComponent" => "reportingComponent",
    "type" => "type",
);

/// Strategy of events of both API groups. It sees events in the format of the core group; only `events.k8s.io` is
/// strict.
#[derive(Debug)]
pub(in crate::kinds) struct EventStrategy {
    pub(in crate::kinds) is_strict: bool,
}

const TEXT_MAX_BYTES: usize = 128;
const NOTE_MAX_BYTES: usize = 1024;

impl ResourceStrategy for EventStrategy {
    fn validate_create(
        &self,
        event: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_event(event, errors);
        if !self.is_strict {
            return;
        }
        validate_series(event, errors);
        if !event.field("eventTime").exists() {
            event.field("eventTime").required(errors, "");
        }
        let kind = event.field("type");
        if !matches!(kind.str(), "Normal" | "Warning") {
            let detail = format!("has invalid value: {}", kind.str());
            errors.push(Error::invalid(kind.path(), "", detail));
        }
        for name in ["firstTimestamp", "lastTimestamp", "count", "source"] {
            let field = event.field(name);
            if !field.is_empty() {
                errors.push(Error::invalid(field.path(), "", "needs to be unset"));
            }
        }
    }

    fn validate_update(
        &self,
        event: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_event(event, errors);
        if !self.is_strict {
            return;
        }
        if !event.field("series").same_as(&old.field("series")) {
            validate_series(event, errors);
        }
        for (name, shape) in IMMUTABLE_FIELDS {
            // As upstream, one field has its name from `events.k8s.io`.
            let shown = match *name {
                "reportingComponent" => "reportingController",
                name => name,
            };
            let (field, old) = (event.field(name), old.field(name));
            let are_both_empty = field.is_empty() && old.is_empty();
            if !are_both_empty && !field.same_as(&old) {
                let path = Path::new(shown);
                errors.push(Error::invalid(
                    &path,
                    shape.render(&field),
                    checks::IMMUTABLE,
                ));
            }
        }
    }
}

/// How the value of a field is rendered in an error.
enum BadValueFormat {
    Text,
    Number,
    Other,
    /// A struct with these (Go name, JSON name) fields.
    Struct(&'static [(&'static str, &'static str)]),
    /// Like `Struct`, but may be absent.
    OptionalStruct(&'static [(&'static str, &'static str)]),
}

impl BadValueFormat {
    fn render(&self, field: &FieldView<'_>) -> BadValue {
        match self {
            BadValueFormat::Text => field.str().into(),
            BadValueFormat::Number => field.int().unwrap_or_default().into(),
            BadValueFormat::Struct(names) => render_struct(field, names),
            BadValueFormat::OptionalStruct(names) if field.exists() => render_struct(field, names),
            BadValueFormat::OptionalStruct(_) | BadValueFormat::Other => field.bad_value(),
        }
    }
}

fn render_struct(field: &FieldView<'_>, names: &[(&str, &str)]) -> BadValue {
    let shown: Vec<String> = names
        .iter()
        .map(|(inside, name)| {
            let text = gotext::json(field.field(name).str());
            format!("\"{inside}\":{text}")
        })
        .collect();
    BadValue::Rendered(format!("{{{}}}", shown.join(",")))
}

const OBJECT_REFERENCE_FIELDS: &[(&str, &str)] = &[
    ("Kind", "kind"),
    ("Namespace", "namespace"),
    ("Name", "name"),
    ("UID", "uid"),
    ("APIVersion", "apiVersion"),
    ("ResourceVersion", "resourceVersion"),
    ("FieldPath", "fieldPath"),
];

const EVENT_SOURCE_FIELDS: &[(&str, &str)] = &[("Component", "component"), ("Host", "host")];

const IMMUTABLE_FIELDS: &[(&str, BadValueFormat)] = &[
    (
        "involvedObject",
        BadValueFormat::Struct(OBJECT_REFERENCE_FIELDS),
    ),
    ("reason", BadValueFormat::Text),
    ("message", BadValueFormat::Text),
    ("source", BadValueFormat::Struct(EVENT_SOURCE_FIELDS)),
    ("firstTimestamp", BadValueFormat::Other),
    ("lastTimestamp", BadValueFormat::Other),
    ("count", BadValueFormat::Number),
    // Upstream checks it twice.
    ("reason", BadValueFormat::Text),
    ("type", BadValueFormat::Text),
    ("eventTime", BadValueFormat::Other),
    ("action", BadValueFormat::Text),
    (
        "related",
        BadValueFormat::OptionalStruct(OBJECT_REFERENCE_FIELDS),
    ),
    ("reportingComponent", BadValueFormat::Text),
    ("reportingInstance", BadValueFormat::Text),
];

impl EventStrategy {
    fn validate_event(&self, event: &FieldView<'_>, errors: &mut ErrorList) {
        let metadata = event.field("metadata");
        let namespace = metadata.field("namespace");
        let object = event.field("involvedObject");
        let about = object.field("namespace");
        let is_new = event.field("eventTime").exists();
        let matches = match (is_new, about.str(), namespace.str()) {
            (false, "", namespace) => matches!(namespace, "" | "default"),
            (false, about, namespace) => about == namespace,
            (true, "", namespace) => matches!(namespace, "default" | "kube-system"),
            (true, _, _) => true,
        };
        if !matches {
            checks::invalid_text(&about, errors, "does not match event.namespace");
        }
        if is_new {
            self.validate_new_style_event(event, errors);
        }
        for problem in validation::dns1123_subdomain(namespace.str()) {
            // Upstream leaves `metadata` out of this path.
            let path = Path::new("namespace");
            errors.push(Error::invalid(&path, namespace.str(), problem));
        }
    }

    /// Validates the additional requirements of events with `eventTime`.
    fn validate_new_style_event(&self, event: &FieldView<'_>, errors: &mut ErrorList) {
        let controller = event.field("reportingComponent");
        let shown = if self.is_strict {
            "reportingController"
        } else {
            "reportingComponent"
        };
        let path = Path::new(shown);
        if controller.is_empty() {
            errors.push(Error::required(&path, ""));
        }
        for problem in validation::qualified_name(controller.str()) {
            errors.push(Error::invalid(&path, controller.str(), problem));
        }
        for name in ["reportingInstance", "action", "reason"] {
            let field = event.field(name);
            if field.is_empty() {
                field.required(errors, "");
            }
            validate_length(&field, TEXT_MAX_BYTES, errors);
        }
        validate_length(&event.field("message"), NOTE_MAX_BYTES, errors);
    }
}

fn validate_length(field: &FieldView<'_>, bytes_max: usize, errors: &mut ErrorList) {
    if field.len() > bytes_max {
        let detail = format!("can have at most {bytes_max} characters");
        errors.push(Error::invalid(field.path(), "", detail));
    }
}

fn validate_series(event: &FieldView<'_>, errors: &mut ErrorList) {
    let series = event.field("series");
    if !series.exists() {
        return;
    }
    let count = series.field("count");
    if count.int().unwrap_or_default() < 2 {
        errors.push(Error::invalid(count.path(), "", "should be at least 2"));
    }
    let time = series.field("lastObservedTime");
    if !time.exists() {
        time.required(errors, "");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{check_create, kind, object, selected};

    #[test]
    fn event_namespace_matches_the_involved_object() {
        let event = kind("", "Event");
        let about = |namespace: &str| json!({"involvedObject": {"namespace": namespace}});
        check_create(&event, about("ns"), &[]);
        let want = "involvedObject.namespace: Invalid value: \"x\": does not match event.namespace";
        check_create(&event, about("x"), &[want]);
        let want = "involvedObject.namespace: Invalid value: \"\": does not match event.namespace";
        check_create(&event, json!({}), &[want]);
    }

    #[test]
    fn new_events_require_reporter_action_and_reason() {
        check_create(
            &kind("", "Event"),
            json!({"eventTime": "2024-01-01T00:00:00.000000Z", "involvedObject": {"namespace": "x"},
                "reportingComponent": "a/b", "action": "x".repeat(129), "message": "x".repeat(1025)}),
            &[
                "reportingInstance: Required value",
                "action: Invalid value: \"\": can have at most 128 characters",
                "reason: Required value",
                "message: Invalid value: \"\": can have at most 1024 characters",
            ],
        );
    }

    #[test]
    fn source_selector_falls_back_to_the_reporting_component() {
        let event = kind("", "Event");
        let source = |object| selected(&event, "source", object);
        let old = object(
            &event,
            json!({"source": {"component": "a"}, "reportingComponent": "b"}),
        );
        assert_eq!(source(&old), "a");
        let new = object(&event, json!({"reportingComponent": "b"}));
        assert_eq!(source(&new), "b");
    }
}
