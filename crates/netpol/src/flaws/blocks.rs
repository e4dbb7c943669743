//! Blocks of addresses that are not what they seem.

use rhumb_api::addresses::Block;

use super::{Flaw, Place};
use crate::objects::IpBlock;
use crate::ranges::Ranges;

pub(super) fn find(block: &IpBlock, place: Place<'_>, flaws: &mut Vec<Flaw>) {
    let cidr = block.cidr.as_deref().unwrap_or_default();
    let whole = read(
        cidr,
        "matches nothing",
        &|| format!("{}.cidr", place()),
        flaws,
    );
    let mut excepts = Vec::new();
    for (at, text) in block.except.iter().flatten().enumerate() {
        let place = || format!("{}.except[{at}]", place());
        let except = read(text, "takes nothing away", &place, flaws);
        excepts.extend(except);
        if let (Some(whole), Some(except)) = (whole, except)
            && !whole.contains(except)
            && !except.contains(whole)
        {
            let place = place();
            flaws.push(Flaw {
                reason: "ExceptOutsideBlock",
                message: format!("{place}: {text} is not in {cidr}, and takes nothing away"),
            });
        }
    }
    if whole.is_some_and(|whole| Ranges::of(whole, excepts.into_iter()).is_empty()) {
        let place = place();
        flaws.push(Flaw {
            reason: "ExceptCoversBlock",
            message: format!("{place} matches nothing: except takes away all of {cidr}"),
        });
    }
}

fn read(text: &str, so: &str, place: Place<'_>, flaws: &mut Vec<Flaw>) -> Option<Block> {
    let Some(block) = Block::parse_lax(text) else {
        let place = place();
        flaws.push(Flaw {
            reason: "UnreadableCIDR",
            message: format!("{place}: {text:?} is not a block such as 10.0.0.0/8, and {so}"),
        });
        return None;
    };
    let (single, meant) = (block.address.to_canonical(), block.masked());
    if single != meant.address {
        let width = if single.is_ipv4() { 32 } else { 128 };
        flaws.push(Flaw {
            reason: "AmbiguousCIDR",
            message: format!("Interpreting {text} as {meant} rather than {single}/{width}"),
        });
    }
    Some(block)
}
