//! RuntimeClass.

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation;

use crate::{Kind, Request, Rules, Scope, View, checks, resource_names, selectors};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "node.k8s.io",
        "v1",
        "RuntimeClass",
        "runtimeclasses",
        "io.k8s.api.node.v1.RuntimeClass",
    )
    .any_finalizers()
    .updates_need_version()
    .updates_create()
    .rules(RuntimeClassRules)
}

#[derive(Debug)]
struct RuntimeClassRules;

impl Rules for RuntimeClassRules {
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        let handler = object.field("handler");
        if handler.is_empty() {
            handler.required(errors, "");
        } else {
            checks::problems(&handler, validation::dns1123_label(handler.str()), errors);
        }
        let overhead = object.field("overhead");
        // Upstream checks the overhead as the limits of a container, and names it so.
        for (name, amount) in overhead.field("podFixed").entries() {
            let limits = overhead.field("limits");
            let at = View::at(amount.value(), limits.path().key(name));
            resource_names::validate_for_container(name, &at, errors);
            resource_names::validate_amount(name, &at, errors);
        }
        let scheduling = object.field("scheduling");
        selectors::validate_labels(&scheduling.field("nodeSelector"), errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
        checks::immutable_text(&object.field("handler"), &old.field("handler"), errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{check_create, check_update, kind};

    #[test]
    fn classes_have_a_handler_that_stays() {
        let class = kind("node.k8s.io", "RuntimeClass");
        check_create(&class, json!({"handler": "runc"}), &[]);
        check_create(&class, json!({}), &["handler: Required value"]);
        check_create(
            &class,
            json!({"handler": "a", "overhead": {"podFixed": {"cpu": "-1"}}}),
            &["overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
        );
        let want = "handler: Invalid value: \"b\": field is immutable";
        check_update(
            &class,
            json!({"handler": "a"}),
            json!({"handler": "b"}),
            &[want],
        );
    }
}
