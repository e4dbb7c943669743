//! PodTemplate.

use rhumb_meta::field::ErrorList;

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

const POD_SPEC: &[&str] = &["template", "spec"];

#[derive(Debug)]
struct PodTemplateRules;

impl Rules for PodTemplateRules {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        pods::drop_from_template(object, None, POD_SPEC, request.gates);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        pods::drop_from_template(object, Some(old), POD_SPEC, request.gates);
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
