//! Event.

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use rhumb_meta::{gotext, validation};

use crate::{Kind, NameRule, Request, Rules, Scope, Selectable, Selected, View, checks};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "Event",
        "events",
        "io.k8s.api.core.v1.Event",
    )
    .short(&["ev"])
    .names(NameRule::PathSegment)
    .any_finalizers()
    .updates_create()
    .ignores_dependents()
    .selectable(SELECTABLE)
    .indexed(&["involvedObject.uid", "involvedObject.name"])
    .rules(EventRules { is_strict: false })
}

macro_rules! selectable {
    ($($name:literal => $path:literal),* $(,)?) => {
        &[
            $(Selectable { name: $name, value: Selected::Text($path) },)*
            Selectable { name: "source", value: Selected::FirstOf(&["source.component", "reportingComponent"]) },
        ]
    };
}

const SELECTABLE: &[Selectable] = selectable!(
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

/// The rules of events, whichever group they are written through: they see the form of the core group. Only the
/// newer group is strict.
#[derive(Debug)]
pub(in crate::kinds) struct EventRules {
    pub(in crate::kinds) is_strict: bool,
}

const TEXT_MAX_BYTES: usize = 128;
const NOTE_MAX_BYTES: usize = 1024;

impl Rules for EventRules {
    fn validate_create(&self, event: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        self.validate_always(event, errors);
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
        event: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_always(event, errors);
        if !self.is_strict {
            return;
        }
        if !event.field("series").same_as(&old.field("series")) {
            validate_series(event, errors);
        }
        for (name, shape) in IMMUTABLE {
            // As upstream, one field is named as in the newer group.
            let shown = match *name {
                "reportingComponent" => "reportingController",
                name => name,
            };
            let (field, old) = (event.field(name), old.field(name));
            let are_both_empty = field.is_empty() && old.is_empty();
            if !are_both_empty && !field.same_as(&old) {
                let path = Path::new(shown);
                errors.push(Error::invalid(&path, shape.show(&field), checks::IMMUTABLE));
            }
        }
    }
}

/// How errors show a field.
enum Shape {
    Text,
    Number,
    Other,
    /// An object with these fields, under the names that upstream has inside.
    Of(&'static [(&'static str, &'static str)]),
    /// As `Of`, or nothing at all.
    Maybe(&'static [(&'static str, &'static str)]),
}

impl Shape {
    fn show(&self, field: &View<'_>) -> BadValue {
        match self {
            Shape::Text => field.str().into(),
            Shape::Number => field.int().unwrap_or_default().into(),
            Shape::Of(names) => show_object(field, names),
            Shape::Maybe(names) if field.exists() => show_object(field, names),
            Shape::Maybe(_) | Shape::Other => field.bad_value(),
        }
    }
}

fn show_object(field: &View<'_>, names: &[(&str, &str)]) -> BadValue {
    let shown: Vec<String> = names
        .iter()
        .map(|(inside, name)| {
            let text = gotext::json(field.field(name).str());
            format!("\"{inside}\":{text}")
        })
        .collect();
    BadValue::Rendered(format!("{{{}}}", shown.join(",")))
}

const REFERENCE: &[(&str, &str)] = &[
    ("Kind", "kind"),
    ("Namespace", "namespace"),
    ("Name", "name"),
    ("UID", "uid"),
    ("APIVersion", "apiVersion"),
    ("ResourceVersion", "resourceVersion"),
    ("FieldPath", "fieldPath"),
];

const SOURCE: &[(&str, &str)] = &[("Component", "component"), ("Host", "host")];

const IMMUTABLE: &[(&str, Shape)] = &[
    ("involvedObject", Shape::Of(REFERENCE)),
    ("reason", Shape::Text),
    ("message", Shape::Text),
    ("source", Shape::Of(SOURCE)),
    ("firstTimestamp", Shape::Other),
    ("lastTimestamp", Shape::Other),
    ("count", Shape::Number),
    // Upstream asks twice.
    ("reason", Shape::Text),
    ("type", Shape::Text),
    ("eventTime", Shape::Other),
    ("action", Shape::Text),
    ("related", Shape::Maybe(REFERENCE)),
    ("reportingComponent", Shape::Text),
    ("reportingInstance", Shape::Text),
];

impl EventRules {
    fn validate_always(&self, event: &View<'_>, errors: &mut ErrorList) {
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
            self.validate_new(event, errors);
        }
        for problem in validation::dns1123_subdomain(namespace.str()) {
            // Upstream leaves `metadata` out of this path.
            let path = Path::new("namespace");
            errors.push(Error::invalid(&path, namespace.str(), problem));
        }
    }

    /// Events with a time of their own are held to more.
    fn validate_new(&self, event: &View<'_>, errors: &mut ErrorList) {
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

fn validate_length(field: &View<'_>, bytes_max: usize, errors: &mut ErrorList) {
    if field.len() > bytes_max {
        let detail = format!("can have at most {bytes_max} characters");
        errors.push(Error::invalid(field.path(), "", detail));
    }
}

fn validate_series(event: &View<'_>, errors: &mut ErrorList) {
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
    fn old_events_are_about_their_own_namespace() {
        let event = kind("", "Event");
        let about = |namespace: &str| json!({"involvedObject": {"namespace": namespace}});
        check_create(&event, about("ns"), &[]);
        let want = "involvedObject.namespace: Invalid value: \"x\": does not match event.namespace";
        check_create(&event, about("x"), &[want]);
        let want = "involvedObject.namespace: Invalid value: \"\": does not match event.namespace";
        check_create(&event, json!({}), &[want]);
    }

    #[test]
    fn new_events_say_who_did_what() {
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
    fn the_source_is_who_reports() {
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
