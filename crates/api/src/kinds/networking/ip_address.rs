//! Declares `IPAddress` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/networking/validation`.

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation;

use crate::{
    FieldView, Kind, NameRule, ResourceScope, ResourceStrategy, StrategyContext, checks,
    ip_addresses,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "networking.k8s.io",
        "v1",
        "IPAddress",
        "ipaddresses",
        "io.k8s.api.networking.v1.IPAddress",
    )
    .short_names(&["ip"])
    .names(NameRule::KindSpecific)
    .strategy(IpAddressStrategy)
}

#[derive(Debug)]
struct IpAddressStrategy;

impl ResourceStrategy for IpAddressStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let metadata = object.field("metadata");
        let name = metadata.field("name");
        if !name.is_empty() {
            ip_addresses::validate_canonical(&name, errors);
        }
        let spec = object.field("spec");
        let parent = spec.field("parentRef");
        if !parent.exists() {
            return parent.required(errors, "");
        }
        let group = parent.field("group");
        if !group.is_empty() {
            checks::push_problems(&group, validation::dns1123_subdomain(group.str()), errors);
        }
        for (name, is_required) in [("resource", true), ("name", true), ("namespace", false)] {
            let field = parent.field(name);
            if is_required && field.is_empty() {
                field.required(errors, "");
            }
            checks::push_problems(&field, validation::path_segment_name(field.str()), errors);
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
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
    fn ip_address_name_is_the_canonical_address() {
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
