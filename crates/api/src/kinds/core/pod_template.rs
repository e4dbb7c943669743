//! PodTemplate.

use rhumb_meta::field::ErrorList;
use serde_json::Value;

use crate::{Generation, Kind, Object, Request, Rules, Scope, View, pods};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "PodTemplate",
        "podtemplates",
        "io.k8s.api.core.v1.PodTemplate",
    )
    .returns_deleted()
    .generation(Generation::Of(&["template"]))
    .rules(PodTemplateRules)
}

#[derive(Debug)]
struct PodTemplateRules;

impl Rules for PodTemplateRules {
    fn prepare_create(&self, object: &mut Object, _: &Request<'_>) {
        if let Some(Value::Object(spec)) = spec_mut(object) {
            pods::drop_unserved_fields(spec, None);
        }
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _: &Request<'_>) {
        let old = old
            .get("template")
            .and_then(|template| template.get("spec"))
            .and_then(Value::as_object);
        if let Some(Value::Object(spec)) = spec_mut(object) {
            pods::drop_unserved_fields(spec, old);
        }
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        pods::validate_template(&object.field("template"), errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let (template, old) = (object.field("template"), old.field("template"));
        pods::validate_template_update(&template, &old, errors);
    }

    fn warnings(&self, object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
        let template = object.field("template");
        let is_same = old.is_some_and(|old| old.field("template").same_as(&template));
        if !is_same {
            pods::template_warnings(&template, warnings);
        }
    }
}

fn spec_mut(object: &mut Object) -> Option<&mut Value> {
    object.get_mut("template")?.get_mut("spec")
}
