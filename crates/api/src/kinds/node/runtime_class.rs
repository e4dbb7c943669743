//! Declares `RuntimeClass` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/node/validation`.

use std::collections::HashSet;

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation;

use crate::validation_helpers::checks;
use crate::{
    FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext, resource_names, selectors,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "node.k8s.io",
        "v1",
        "RuntimeClass",
        "runtimeclasses",
        "io.k8s.api.node.v1.RuntimeClass",
    )
    .allow_any_finalizer()
    .creates_on_update()
    .requires_resource_version()
    .strategy(RuntimeClassStrategy)
}

#[derive(Debug)]
struct RuntimeClassStrategy;

impl ResourceStrategy for RuntimeClassStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let handler = object.field("handler");
        if handler.is_empty() {
            handler.required(errors, "");
        } else {
            checks::push_problems(&handler, validation::dns1123_label(handler.str()), errors);
        }
        let overhead = object.field("overhead");
        // Upstream validates the overhead as the limits of a container, and reports that path.
        for (name, amount) in overhead.field("podFixed").entries() {
            let limits = overhead.field("limits");
            let at = FieldView::at(amount.value(), limits.path().key(name));
            resource_names::validate_for_container(name, &at, errors);
            resource_names::validate_amount(name, &at, errors);
        }
        let scheduling = object.field("scheduling");
        selectors::validate_labels(&scheduling.field("nodeSelector"), errors);
        validate_tolerations(&scheduling.field("tolerations"), errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
        crate::checks::immutable_text(&object.field("handler"), &old.field("handler"), errors);
    }
}

/// Rejects invalid and duplicate tolerations.
fn validate_tolerations(tolerations: &FieldView<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for toleration in tolerations.items() {
        let key = ["key", "operator", "value", "effect"]
            .map(|name| toleration.field(name).str().to_owned());
        if !seen.insert(key) {
            toleration.duplicate(errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::kind;
    use crate::validation_helpers::testing::{check_create, check_update};

    #[test]
    fn handler_is_required_and_immutable() {
        let class = json!({"handler": "fast"});
        check_create(&kind(), &class, &[]);
        check_create(&kind(), &json!({}), &["handler: Required value"]);
        check_create(
            &kind(),
            &json!({"handler": "a.b", "scheduling": {"tolerations": [{"key": "a"}, {"key": "a"}]}}),
            &[
                "handler: Invalid value: \"a.b\": must not contain dots",
                "scheduling.tolerations[1]: Duplicate value: {\"key\":\"a\"}",
            ],
        );
        check_update(
            &kind(),
            &json!({"handler": "slow"}),
            &class,
            &["handler: Invalid value: \"slow\": field is immutable"],
        );
    }
}
