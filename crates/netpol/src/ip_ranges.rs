//! IP blocks (`cidr` minus `except`) as sorted address ranges.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rhumb_api::ip_addresses::CidrBlock;

use crate::IpFamily;
use crate::objects::IpBlock;

/// Disjoint, sorted, inclusive address ranges of one IP family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IpRanges {
    pub(crate) family: IpFamily,
    ranges: Box<[NumericIpRange]>,
}

/// First and last address of a range as numbers, inclusive.
type NumericIpRange = (u128, u128);

impl IpRanges {
    /// The ranges of an `ipBlock`; `None` if its `cidr` is invalid. Invalid entries of `except` are ignored.
    pub(crate) fn from_ip_block(block: &IpBlock) -> Option<IpRanges> {
        let whole = CidrBlock::parse_lax(block.cidr.as_deref()?)?;
        let excepts = block.except.iter().flatten();
        let excepts = excepts.filter_map(|except| CidrBlock::parse_lax(except));
        Some(IpRanges::from_cidr_except(whole, excepts))
    }

    /// All addresses of `whole` that are in none of `excepts`.
    pub(crate) fn from_cidr_except(
        whole: CidrBlock,
        excepts: impl Iterator<Item = CidrBlock>,
    ) -> IpRanges {
        let family = family_of(whole);
        let excepts = excepts.filter(|except| family_of(*except) == family);
        let excepts = merge(excepts.map(cidr_bounds).collect());
        IpRanges {
            family,
            ranges: subtract(cidr_bounds(whole), &excepts).into(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let (family, number) = to_number(address);
        let following = self.ranges.partition_point(|(_, last)| *last < number);
        let range = self.ranges.get(following);
        family == self.family && range.is_some_and(|(first, _)| *first <= number)
    }

    /// The union of those of `several` that are of `family`, as inclusive ranges.
    pub(crate) fn union<'a>(
        several: impl IntoIterator<Item = &'a IpRanges>,
        family: IpFamily,
    ) -> Vec<(IpAddr, IpAddr)> {
        let several = several.into_iter();
        let ours = several.filter(|ranges| ranges.family == family);
        let numeric_ranges = ours.flat_map(|ranges| &*ranges.ranges).copied();
        let merged = merge(numeric_ranges.collect());
        let addresses = merged.into_iter();
        addresses
            .map(|(first, last)| (from_number(family, first), from_number(family, last)))
            .collect()
    }
}

/// Sorts the ranges and merges those that overlap or are adjacent.
fn merge(mut numeric_ranges: Vec<NumericIpRange>) -> Vec<NumericIpRange> {
    numeric_ranges.sort_unstable();
    let mut merged: Vec<NumericIpRange> = Vec::with_capacity(numeric_ranges.len());
    for (first, last) in numeric_ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// Subtracts `others`, which must be sorted and disjoint, from a range.
fn subtract((first, last): NumericIpRange, others: &[NumericIpRange]) -> Vec<NumericIpRange> {
    let mut left = Vec::with_capacity(1);
    let mut next = Some(first);
    for other in others {
        let Some(from) = next.filter(|from| *from <= last) else {
            break;
        };
        if from < other.0 {
            left.push((from, last.min(other.0 - 1)));
        }
        next = other.1.checked_add(1).map(|after| after.max(from));
    }
    if let Some(from) = next.filter(|from| *from <= last) {
        left.push((from, last));
    }
    left
}

pub(crate) fn family_of(block: CidrBlock) -> IpFamily {
    IpFamily::of(block.masked().address)
}

fn cidr_bounds(block: CidrBlock) -> NumericIpRange {
    let block = block.masked();
    let (family, first) = to_number(block.address);
    let width = match family {
        IpFamily::V4 => 32,
        IpFamily::V6 => 128,
    };
    let free = width - u32::from(block.prefix);
    let rest = u128::MAX.checked_shr(128 - free).unwrap_or(0);
    (first, first | rest)
}

fn to_number(address: IpAddr) -> (IpFamily, u128) {
    match address {
        IpAddr::V4(v4) => (IpFamily::V4, v4.to_bits().into()),
        IpAddr::V6(v6) => (IpFamily::V6, v6.to_bits()),
    }
}

fn from_number(family: IpFamily, number: u128) -> IpAddr {
    match family {
        IpFamily::V4 => IpAddr::V4(Ipv4Addr::from_bits(number as u32)),
        IpFamily::V6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cidr: &str, except: &[&str]) -> IpRanges {
        let except = except.iter().map(|text| (*text).to_owned()).collect();
        IpRanges::from_ip_block(&IpBlock {
            cidr: Some(cidr.to_owned()),
            except: Some(except),
        })
        .expect(cidr)
    }

    fn check(blocks: &[(&str, &[&str])], family: IpFamily, want: &[(&str, &str)]) {
        let blocks: Vec<IpRanges> = blocks
            .iter()
            .map(|(cidr, except)| read(cidr, except))
            .collect();
        let got: Vec<(String, String)> = IpRanges::union(&blocks, family)
            .into_iter()
            .map(|(first, last)| (first.to_string(), last.to_string()))
            .collect();
        let want: Vec<(String, String)> = want
            .iter()
            .map(|(first, last)| ((*first).to_owned(), (*last).to_owned()))
            .collect();
        assert_eq!(got, want, "{blocks:?}");
    }

    #[test]
    fn ip_blocks_become_ranges_without_their_excepts() {
        let (v4, v6) = (IpFamily::V4, IpFamily::V6);
        check(
            &[("10.0.0.0/8", &[])],
            v4,
            &[("10.0.0.0", "10.255.255.255")],
        );
        check(
            &[("0.0.0.0/0", &["0.0.0.0/1", "255.255.255.255/32"])],
            v4,
            &[("128.0.0.0", "255.255.255.254")],
        );
        check(
            &[("10.0.0.0/24", &["10.0.0.7/32", "10.0.0.5/30", "x", "::/0"])],
            v4,
            &[("10.0.0.0", "10.0.0.3"), ("10.0.0.8", "10.0.0.255")],
        );
        check(&[("10.0.0.0/24", &["10.0.0.0/8"])], v4, &[]);
        check(
            &[("::/0", &["::/1"])],
            v6,
            &[("8000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")],
        );
        check(
            &[("::ffff:10.0.0.9/120", &[])],
            v4,
            &[("10.0.0.0", "10.0.0.255")],
        );
    }

    #[test]
    fn adjacent_ranges_are_merged() {
        check(
            &[
                ("10.0.1.0/24", &[]),
                ("10.0.0.0/24", &["10.0.0.128/25"]),
                ("10.0.0.128/25", &[]),
                ("::/0", &[]),
                ("10.0.4.0/24", &[]),
            ],
            IpFamily::V4,
            &[("10.0.0.0", "10.0.1.255"), ("10.0.4.0", "10.0.4.255")],
        );
    }
}
