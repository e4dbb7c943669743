//! Declares `PodTemplate` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use rhumb_meta::field::ErrorList;

use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope, ResourceStrategy,
    StrategyContext, pods,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "PodTemplate",
        "podtemplates",
        "io.k8s.api.core.v1.PodTemplate",
    )
    .returns_deleted()
    .generation(GenerationPolicy::ChangesTo(&["template"]))
    .strategy(PodTemplateStrategy)
}

const POD_SPEC: &[&str] = &["template", "spec"];

#[derive(Debug)]
struct PodTemplateStrategy;

impl ResourceStrategy for PodTemplateStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        pods::drop_disabled_template_fields(object, None, POD_SPEC, request.gates);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        pods::drop_disabled_template_fields(object, Some(old), POD_SPEC, request.gates);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        pods::validate_template(&object.field("template"), errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (template, old) = (object.field("template"), old.field("template"));
        pods::validate_template_update(&template, &old, errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        let template = object.field("template");
        let is_same = old.is_some_and(|old| old.field("template").same_as(&template));
        if !is_same {
            pods::template_warnings(&template, warnings);
        }
    }
}
