//! Validation of `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` of a service, and of their changes.

use std::collections::BTreeSet;

use rhumb_meta::field::{Error, ErrorList};

use super::{is_headless, string_items};
use crate::{FieldView, checks, ip_addresses};

const IMMUTABLE_ONCE_SET: &str = "may not change once set";

/// Validates that addresses, families and policy are consistent.
pub(super) fn validate(
    spec: &FieldView<'_>,
    old: &FieldView<'_>,
    is_strict: bool,
    errors: &mut ErrorList,
) {
    if spec.field("type").str() == "ExternalName" {
        return;
    }
    let (single, all) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    let known_field = old.field("clusterIPs");
    let (cluster_ips, known) = (string_items(&all), string_items(&known_field));
    match (single.str(), cluster_ips.first()) {
        ("", None) => {}
        ("", Some(_)) => all.invalid(errors, "must be empty when `clusterIP` is not specified"),
        (_, None) => all.required(errors, ""),
        (single, Some(first)) if single != *first => {
            all.invalid(errors, "first value must match `clusterIP`");
        }
        _ => {}
    }
    validate_families(&spec.field("ipFamilies"), errors);
    let policy = spec.field("ipFamilyPolicy");
    if policy.exists() {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        checks::one_of(&policy, &known, errors);
    }
    let before = errors.len();
    for (index, address) in all.items().enumerate() {
        if index == 0 && address.str() == "None" {
            if cluster_ips.len() > 1 {
                all.invalid(errors, "'None' must be the first and only value");
            }
        } else if !known.contains(&address.str()) {
            ip_addresses::validate(&address, is_strict, errors);
        }
    }
    let has_invalid = errors.len() > before;
    if cluster_ips.len() > 2 {
        all.invalid(errors, "may only hold up to 2 values");
    }
    // The checks below need the family of every address.
    if !has_invalid {
        validate_stacks(spec, errors);
    }
}

fn validate_families(families: &FieldView<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for family in families.items() {
        checks::one_of(&family, &["IPv4", "IPv6"], errors);
        if !seen.insert(family.str().to_owned()) {
            family.duplicate(errors);
        }
    }
}

fn is_v6(address: &str) -> bool {
    ip_addresses::parse_lax(address).is_some_and(|address| address.is_ipv6())
}

fn validate_stacks(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let all = spec.field("clusterIPs");
    let cluster_ips = string_items(&all);
    if cluster_ips.len() > 1 {
        let v6 = cluster_ips.iter().filter(|address| is_v6(address)).count();
        let is_dual = v6 > 0 && v6 < cluster_ips.len();
        if !is_dual {
            all.invalid(errors, "may specify no more than one IP for each IP family");
        }
    }
    if is_headless(spec) {
        return;
    }
    let families_field = spec.field("ipFamilies");
    let families = string_items(&families_field);
    for (index, (address, family)) in all.items().zip(families).enumerate() {
        let is_expected = match family {
            "IPv4" => !is_v6(address.str()),
            "IPv6" => is_v6(address.str()),
            _ => true,
        };
        if !is_expected {
            let detail =
                format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            checks::invalid_text(&address, errors, detail);
        }
    }
}

/// Rejects changes of the primary address or family; the secondary one may be added and removed.
pub(super) fn validate_change(spec: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let is_name = |spec: &FieldView<'_>| spec.field("type").str() == "ExternalName";
    if is_name(spec) || is_name(old) {
        return;
    }
    let (headless, was_headless) = (is_headless(spec), is_headless(old));
    if !(headless && was_headless) {
        validate_address_change(spec, old, errors);
    }
    if !headless && !was_headless {
        validate_family_change(spec, old, errors);
    }
}

fn reject_item(
    list: &FieldView<'_>,
    index: usize,
    shown: &FieldView<'_>,
    detail: &str,
    errors: &mut ErrorList,
) {
    let path = list.path().index(index);
    errors.push(Error::invalid(&path, shown.bad_value(), detail));
}

fn validate_address_change(spec: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let (all, old_all) = (spec.field("clusterIPs"), old.field("clusterIPs"));
    let (now, before) = (string_items(&all), string_items(&old_all));
    if now.len() == before.len() {
        for (index, _) in now
            .iter()
            .zip(&before)
            .enumerate()
            .filter(|(_, (a, b))| a != b)
        {
            reject_item(&all, index, &all, IMMUTABLE_ONCE_SET, errors);
        }
        return;
    }
    if now.is_empty() {
        reject_item(&all, 0, &all, "primary clusterIP can not be unset", errors);
    } else if !before.is_empty() && now.first() != before.first() {
        reject_item(&all, 0, &all, IMMUTABLE_ONCE_SET, errors);
    }
    if now.len() == 1 && before.len() > 1 {
        require_single_stack(spec, "clusterIP", errors);
    }
}

fn validate_family_change(spec: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let (all, old_all) = (spec.field("ipFamilies"), old.field("ipFamilies"));
    let (now, before) = (string_items(&all), string_items(&old_all));
    let cluster_ips = spec.field("clusterIPs");
    if now.len() == before.len() {
        for _ in now.iter().zip(&before).filter(|(a, b)| a != b) {
            reject_item(&all, 0, &all, IMMUTABLE_ONCE_SET, errors);
        }
        return;
    }
    if now.len() < before.len() && cluster_ips.is_empty() {
        reject_item(&all, 0, &all, "primary ipFamily can not be unset", errors);
    }
    // As upstream, the reported value is the addresses, not the families.
    if !now.is_empty() && !before.is_empty() && now.first() != before.first() {
        reject_item(&all, 0, &cluster_ips, IMMUTABLE_ONCE_SET, errors);
    }
    if now.len() == 1 && before.len() > 1 {
        require_single_stack(spec, "ipFamily", errors);
    }
}

fn require_single_stack(spec: &FieldView<'_>, what: &str, errors: &mut ErrorList) {
    let policy = spec.field("ipFamilyPolicy");
    if policy.str() != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        policy.invalid(errors, detail);
    }
}
