//! Finds `ipBlock`s that are invalid, ambiguous or match nothing.

use rhumb_api::ip_addresses::CidrBlock;

use super::{LazyFieldPath, LintWarning};
use crate::ip_ranges::IpRanges;
use crate::objects::IpBlock;

pub(super) fn lint_ip_block(
    block: &IpBlock,
    field_path: LazyFieldPath<'_>,
    warnings: &mut Vec<LintWarning>,
) {
    let cidr = block.cidr.as_deref().unwrap_or_default();
    let whole = parse_cidr(
        cidr,
        "matches nothing",
        &|| format!("{}.cidr", field_path()),
        warnings,
    );
    let mut excepts = Vec::new();
    for (at, text) in block.except.iter().flatten().enumerate() {
        let field_path = || format!("{}.except[{at}]", field_path());
        let except = parse_cidr(text, "excludes nothing", &field_path, warnings);
        excepts.extend(except);
        if let (Some(whole), Some(except)) = (whole, except)
            && !whole.contains(except)
            && !except.contains(whole)
        {
            let field_path = field_path();
            warnings.push(LintWarning {
                reason: "ExceptOutsideBlock",
                message: format!("{field_path}: {text} is outside of {cidr} and excludes nothing"),
            });
        }
    }
    if whole.is_some_and(|whole| IpRanges::from_cidr_except(whole, excepts.into_iter()).is_empty())
    {
        let field_path = field_path();
        warnings.push(LintWarning {
            reason: "ExceptCoversBlock",
            message: format!("{field_path} matches nothing: except excludes all of {cidr}"),
        });
    }
}

fn parse_cidr(
    text: &str,
    consequence: &str,
    field_path: LazyFieldPath<'_>,
    warnings: &mut Vec<LintWarning>,
) -> Option<CidrBlock> {
    let Some(block) = CidrBlock::parse_lax(text) else {
        let field_path = field_path();
        warnings.push(LintWarning {
            reason: "UnreadableCIDR",
            message: format!(
                "{field_path}: {text:?} is not a CIDR such as 10.0.0.0/8, and {consequence}"
            ),
        });
        return None;
    };
    let (single, meant) = (block.address.to_canonical(), block.masked());
    if single != meant.address {
        let width = if single.is_ipv4() { 32 } else { 128 };
        warnings.push(LintWarning {
            reason: "AmbiguousCIDR",
            message: format!("Interpreting {text} as {meant} rather than {single}/{width}"),
        });
    }
    Some(block)
}
