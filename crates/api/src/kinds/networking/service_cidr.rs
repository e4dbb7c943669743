//! Declares `ServiceCIDR` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/networking/validation`.

use std::collections::BTreeMap;

use rhumb_meta::field::{BadValue, Error, ErrorList};

use crate::ip_addresses::{self, CidrBlock};
use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext, checks};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "networking.k8s.io",
        "v1",
        "ServiceCIDR",
        "servicecidrs",
        "io.k8s.api.networking.v1.ServiceCIDR",
    )
    .status()
    .status_update_preserves(crate::kind::USER_METADATA_FIELDS)
    .strategy(ServiceCidrStrategy)
}

#[derive(Debug)]
struct ServiceCidrStrategy;

impl ResourceStrategy for ServiceCidrStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let spec = object.field("spec");
        validate_blocks(&spec.field("cidrs"), errors);
    }

    /// Allows only the addition of a second CIDR, of the other family.
    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        let (blocks, old_blocks) = (spec.field("cidrs"), old.field("cidrs"));
        let is_grown = (old_blocks.len(), blocks.len()) == (1, 2);
        if blocks.len() != old_blocks.len() && !is_grown {
            return blocks.invalid(errors, checks::IMMUTABLE);
        }
        for (block, old) in blocks.items().zip(old_blocks.items()) {
            checks::immutable_text(&block, &old, errors);
        }
        if is_grown {
            validate_blocks(&blocks, errors);
        }
    }
}

fn validate_blocks(blocks: &FieldView<'_>, errors: &mut ErrorList) {
    if blocks.is_empty() {
        return blocks.required(errors, "at least one CIDR required");
    }
    if blocks.len() > 2 {
        // Upstream reports the whole spec, with its Go field name.
        let shown = BadValue::json(&BTreeMap::from([("CIDRs", blocks.value())]));
        errors.push(Error::invalid(
            blocks.path(),
            shown,
            "may only hold up to 2 values",
        ));
        return;
    }
    for block in blocks.items() {
        ip_addresses::validate_canonical_cidr(&block, errors);
    }
    let families: Vec<bool> = blocks
        .items()
        .filter_map(|block| Some(CidrBlock::parse_lax(block.str())?.is_v6()))
        .collect();
    if let [first, second] = families.as_slice()
        && first == second
    {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        blocks.invalid(errors, detail);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, check_update, kind};

    fn blocks(blocks: Value) -> Value {
        json!({"spec": {"cidrs": blocks}})
    }

    #[test]
    fn at_most_one_cidr_per_ip_family_is_allowed() {
        let check = |list: Value, want: &[&str]| {
            check_create(
                &kind("networking.k8s.io", "ServiceCIDR"),
                blocks(list),
                want,
            );
        };
        check(json!(["10.0.0.0/16", "fd00::/112"]), &[]);
        check(
            json!([]),
            &["spec.cidrs: Required value: at least one CIDR required"],
        );
        check(
            json!(["FD00::/112"]),
            &[
                "spec.cidrs[0]: Invalid value: \"FD00::/112\": must be in canonical form (\"fd00::/112\")",
            ],
        );
        check(
            json!(["10.0.0.0/16", "10.1.0.0/16"]),
            &[concat!(
                "spec.cidrs: Invalid value: [\"10.0.0.0/16\",\"10.1.0.0/16\"]: may specify no more than one IP for ",
                "each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
            )],
        );
        check(
            json!(["a", "b", "c"]),
            &[
                "spec.cidrs: Invalid value: {\"CIDRs\":[\"a\",\"b\",\"c\"]}: may only hold up to 2 values",
            ],
        );
    }

    #[test]
    fn adding_a_second_cidr_is_allowed() {
        let check = |patch: Value, want: &[&str]| {
            let cidrs = kind("networking.k8s.io", "ServiceCIDR");
            check_update(&cidrs, blocks(json!(["10.0.0.0/16"])), blocks(patch), want);
        };
        check(json!(["10.0.0.0/16", "fd00::/112"]), &[]);
        let want = "spec.cidrs[0]: Invalid value: \"10.1.0.0/16\": field is immutable";
        check(json!(["10.1.0.0/16"]), &[want]);
    }
}
