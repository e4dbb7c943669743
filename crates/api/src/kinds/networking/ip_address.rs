//! IPAddress.

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation;

use crate::{Kind, NameRule, Request, Rules, Scope, View, addresses, checks};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "networking.k8s.io",
        "v1",
        "IPAddress",
        "ipaddresses",
        "io.k8s.api.networking.v1.IPAddress",
    )
    .short(&["ip"])
    .names(NameRule::Own)
    .rules(AddressRules)
}

#[derive(Debug)]
struct AddressRules;

impl Rules for AddressRules {
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        let metadata = object.field("metadata");
        let name = metadata.field("name");
        if !name.is_empty() {
            addresses::validate_canonical(&name, errors);
        }
        let spec = object.field("spec");
        let parent = spec.field("parentRef");
        if !parent.exists() {
            return parent.required(errors, "");
        }
        let group = parent.field("group");
        if !group.is_empty() {
            checks::problems(&group, validation::dns1123_subdomain(group.str()), errors);
        }
        for (name, is_required) in [("resource", true), ("name", true), ("namespace", false)] {
            let field = parent.field(name);
            if is_required && field.is_empty() {
                field.required(errors, "");
            }
            checks::problems(&field, validation::path_segment_name(field.str()), errors);
        }
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        checks::immutable(&spec.field("parentRef"), &old.field("parentRef"), errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{check_create, kind};

    #[test]
    fn addresses_are_named_by_themselves() {
        let address = kind("networking.k8s.io", "IPAddress");
        let named = |name: &str| json!({"metadata": {"name": name}, "spec": {"parentRef": {"resource": "services", "name": "a"}}});
        check_create(&address, named("2001:db8::1"), &[]);
        check_create(
            &address,
            named("2001:DB8::1"),
            &[
                "metadata.name: Invalid value: \"2001:DB8::1\": must be in canonical form (\"2001:db8::1\")",
            ],
        );
        check_create(
            &address,
            json!({"metadata": {"name": "10.0.0.1"}, "spec": {}}),
            &["spec.parentRef: Required value"],
        );
    }
}
