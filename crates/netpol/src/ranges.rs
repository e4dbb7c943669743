//! Blocks of addresses as ranges, with what is taken out of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rhumb_api::addresses::Block;

use crate::Family;
use crate::objects::IpBlock;

/// Disjoint ranges of addresses of one family, in order, first and last included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ranges {
    pub(crate) family: Family,
    spans: Box<[Span]>,
}

/// The first and the last of addresses, as numbers.
type Span = (u128, u128);

impl Ranges {
    /// What a block of a policy means; `None` if it cannot be read. What cannot be read in `except` takes nothing away.
    pub(crate) fn read(block: &IpBlock) -> Option<Ranges> {
        let whole = Block::parse_lax(block.cidr.as_deref()?)?;
        let excepts = block.except.iter().flatten();
        let excepts = excepts.filter_map(|except| Block::parse_lax(except));
        Some(Ranges::of(whole, excepts))
    }

    /// A block without others.
    pub(crate) fn of(whole: Block, excepts: impl Iterator<Item = Block>) -> Ranges {
        let family = family_of(whole);
        let excepts = excepts.filter(|except| family_of(*except) == family);
        let excepts = merge(excepts.map(span).collect());
        Ranges {
            family,
            spans: without(span(whole), &excepts).into(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let (family, number) = number(address);
        let following = self.spans.partition_point(|(_, last)| *last < number);
        let span = self.spans.get(following);
        family == self.family && span.is_some_and(|(first, _)| *first <= number)
    }

    /// All that is in one of several, those of one family.
    pub(crate) fn union<'a>(
        several: impl IntoIterator<Item = &'a Ranges>,
        family: Family,
    ) -> Vec<(IpAddr, IpAddr)> {
        let several = several.into_iter();
        let ours = several.filter(|ranges| ranges.family == family);
        let spans = ours.flat_map(|ranges| &*ranges.spans).copied();
        let merged = merge(spans.collect());
        let addresses = merged.into_iter();
        addresses
            .map(|(first, last)| (address(family, first), address(family, last)))
            .collect()
    }
}

/// In order, with those as one that overlap or follow each other.
fn merge(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for (first, last) in spans {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// What is left of a range without others, which are merged.
fn without((first, last): Span, others: &[Span]) -> Vec<Span> {
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

pub(crate) fn family_of(block: Block) -> Family {
    Family::of(block.masked().address)
}

fn span(block: Block) -> Span {
    let block = block.masked();
    let (family, first) = number(block.address);
    let width = match family {
        Family::V4 => 32,
        Family::V6 => 128,
    };
    let free = width - u32::from(block.prefix);
    let rest = u128::MAX.checked_shr(128 - free).unwrap_or(0);
    (first, first | rest)
}

fn number(address: IpAddr) -> (Family, u128) {
    match address {
        IpAddr::V4(v4) => (Family::V4, v4.to_bits().into()),
        IpAddr::V6(v6) => (Family::V6, v6.to_bits()),
    }
}

fn address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::from_bits(number as u32)),
        Family::V6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cidr: &str, except: &[&str]) -> Ranges {
        let except = except.iter().map(|text| (*text).to_owned()).collect();
        Ranges::read(&IpBlock {
            cidr: Some(cidr.to_owned()),
            except: Some(except),
        })
        .expect(cidr)
    }

    fn check(blocks: &[(&str, &[&str])], family: Family, want: &[(&str, &str)]) {
        let blocks: Vec<Ranges> = blocks
            .iter()
            .map(|(cidr, except)| read(cidr, except))
            .collect();
        let got: Vec<(String, String)> = Ranges::union(&blocks, family)
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
    fn blocks_become_ranges_without_what_is_taken_out() {
        let (v4, v6) = (Family::V4, Family::V6);
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
    fn ranges_that_touch_become_one() {
        check(
            &[
                ("10.0.1.0/24", &[]),
                ("10.0.0.0/24", &["10.0.0.128/25"]),
                ("10.0.0.128/25", &[]),
                ("::/0", &[]),
                ("10.0.4.0/24", &[]),
            ],
            Family::V4,
            &[("10.0.0.0", "10.0.1.255"), ("10.0.4.0", "10.0.4.255")],
        );
    }
}
