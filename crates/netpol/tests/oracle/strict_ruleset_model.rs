//! A strict model of a kernel: applies deltas like `NodeRuleset::apply`, but rejects what a real kernel rejects, and
//! pointless changes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rhumb_netpol::IpFamily;
use rhumb_netpol::ruleset::{
    AllowRule, IpSet, IpSetElement, IpSetElementType, IpSetId, NodeRuleset, PeerMatch, PolicyChain,
    PortMatch, RulesetDelta,
};

type CheckResult = Result<(), String>;

fn require(holds: bool, what: impl FnOnce() -> String) -> CheckResult {
    if holds { Ok(()) } else { Err(what()) }
}

/// Applies the changes in the order of the fields of `RulesetDelta`, and checks each.
pub(crate) fn apply_strictly(ruleset: &mut NodeRuleset, changes: &RulesetDelta) -> CheckResult {
    change_sets(ruleset, changes)?;
    for (id, chain) in &changes.chains {
        check_chain(ruleset, chain)?;
        let before = ruleset.chains.insert(*id, chain.clone());
        require(before.as_ref() != Some(chain), || {
            format!("{id:?} is unchanged")
        })?;
    }
    for (id, chains) in &changes.groups {
        for chain in chains {
            let exists = ruleset.chains.contains_key(chain) && chain.direction == id.direction;
            require(exists, || format!("{id:?} jumps to {chain:?}"))?;
        }
        let before = ruleset.groups.insert(*id, chains.clone());
        require(before.is_none(), || format!("{id:?} exists already"))?;
    }
    redirect(ruleset, changes)?;
    remove(ruleset, changes)
}

fn change_sets(ruleset: &mut NodeRuleset, changes: &RulesetDelta) -> CheckResult {
    for (id, kind) in &changes.new_sets {
        let set = IpSet {
            kind: *kind,
            elements: BTreeSet::new(),
        };
        let before = ruleset.sets.insert(*id, set);
        require(before.is_none(), || format!("{id:?} exists already"))?;
    }
    for (id, elements) in &changes.removed_elements {
        let set = ruleset
            .sets
            .get_mut(id)
            .ok_or_else(|| format!("{id:?} does not exist"))?;
        for element in elements {
            require(set.elements.remove(element), || {
                format!("{element:?} is not in {id:?}")
            })?;
        }
    }
    for (id, elements) in &changes.added_elements {
        let set = ruleset
            .sets
            .get_mut(id)
            .ok_or_else(|| format!("{id:?} does not exist"))?;
        for element in elements {
            check_element(*id, set.kind, element)?;
            require(set.elements.insert(*element), || {
                format!("{element:?} is in {id:?} already")
            })?;
        }
    }
    Ok(())
}

fn check_element(id: IpSetId, kind: IpSetElementType, element: &IpSetElement) -> CheckResult {
    let is_of_kind = (kind == IpSetElementType::AddressPorts) == element.port.is_some();
    let is_of_family = (id.family == IpFamily::V4) == element.address.is_ipv4();
    require(is_of_kind && is_of_family, || {
        format!("{element:?} cannot be in {id:?}")
    })
}

fn check_chain(ruleset: &NodeRuleset, chain: &PolicyChain) -> CheckResult {
    chain.rules.iter().try_for_each(|rule| {
        let sets = referenced_sets(rule);
        for (id, kind) in &sets {
            let set = ruleset
                .sets
                .get(id)
                .ok_or_else(|| format!("{rule:?} refers to missing {id:?}"))?;
            let fits = set.kind == *kind && rule.family.is_none_or(|family| family == id.family);
            require(fits && rule.family.is_some(), || {
                format!("{rule:?} cannot use {id:?}")
            })?;
        }
        check_ranges(rule)
    })
}

fn referenced_sets(rule: &AllowRule) -> Vec<(IpSetId, IpSetElementType)> {
    let mut sets = Vec::new();
    if let PeerMatch::InSet(id) = rule.peer {
        sets.push((id, IpSetElementType::Addresses));
    }
    if let PortMatch::InSet(id) = rule.ports {
        sets.push((id, IpSetElementType::AddressPorts));
    }
    sets
}

/// Checks that ranges are sorted, disjoint and of the rule's family.
fn check_ranges(rule: &AllowRule) -> CheckResult {
    if let PeerMatch::Ranges(ranges) = &rule.peer {
        let is_of_family = |(first, last): &(IpAddr, IpAddr)| {
            let family = if first.is_ipv4() {
                IpFamily::V4
            } else {
                IpFamily::V6
            };
            rule.family == Some(family) && first.is_ipv4() == last.is_ipv4() && first <= last
        };
        let are_apart = ranges.windows(2).all(|two| two[0].1 < two[1].0);
        let is_right = !ranges.is_empty() && are_apart && ranges.iter().all(is_of_family);
        require(is_right, || format!("{rule:?} has invalid ranges"))?;
    }
    if let PortMatch::Ranges(_, ranges) = &rule.ports {
        let are_apart = ranges.windows(2).all(|two| two[0].1 < two[1].0);
        let is_right = !ranges.is_empty()
            && are_apart
            && ranges
                .iter()
                .all(|(first, last)| 0 < *first && first <= last);
        require(is_right, || format!("{rule:?} has invalid ports"))?;
    }
    Ok(())
}

fn redirect(ruleset: &mut NodeRuleset, changes: &RulesetDelta) -> CheckResult {
    for (key, redirection) in &changes.dispatch {
        let before = ruleset.dispatch.get(key).copied();
        let is_true = before == redirection.before && before != redirection.after;
        require(is_true, || {
            format!("{key:?} goes to {before:?}, not {redirection:?}")
        })?;
        match redirection.after {
            Some(group) => {
                let exists = ruleset.groups.contains_key(&group) && group.direction == key.0;
                require(exists, || format!("{key:?} goes to {group:?}"))?;
                ruleset.dispatch.insert(*key, group);
            }
            None => {
                ruleset.dispatch.remove(key);
            }
        }
    }
    for address in &changes.known_addresses_removed {
        require(ruleset.known_addresses.remove(address), || {
            format!("{address} is not known")
        })?;
    }
    for address in &changes.known_addresses_added {
        require(ruleset.known_addresses.insert(*address), || {
            format!("{address} is known already")
        })?;
    }
    Ok(())
}

/// Checks that removed objects exist and nothing refers to them.
fn remove(ruleset: &mut NodeRuleset, changes: &RulesetDelta) -> CheckResult {
    for id in &changes.removed_groups {
        let is_needed = ruleset.dispatch.values().any(|group| group == id);
        let removed = ruleset.groups.remove(id);
        require(removed.is_some() && !is_needed, || {
            format!("{id:?} cannot be removed")
        })?;
    }
    for id in &changes.removed_chains {
        let is_needed = ruleset.groups.values().any(|chains| chains.contains(id));
        let removed = ruleset.chains.remove(id);
        require(removed.is_some() && !is_needed, || {
            format!("{id:?} cannot be removed")
        })?;
    }
    for id in &changes.removed_sets {
        let mut rules = ruleset.chains.values().flat_map(|chain| &chain.rules);
        let is_needed = rules.any(|rule| referenced_sets(rule).iter().any(|(set, _)| set == id));
        let removed = ruleset.sets.remove(id);
        require(removed.is_some() && !is_needed, || {
            format!("{id:?} cannot be removed")
        })?;
    }
    Ok(())
}

/// Checks that all objects are referenced.
pub(crate) fn check_no_unused_objects(ruleset: &NodeRuleset) -> CheckResult {
    for id in ruleset.groups.keys() {
        let is_needed = ruleset.dispatch.values().any(|group| group == id);
        require(is_needed, || format!("{id:?} is not referenced"))?;
    }
    for id in ruleset.chains.keys() {
        let is_needed = ruleset.groups.values().any(|chains| chains.contains(id));
        require(is_needed, || format!("{id:?} is not referenced"))?;
    }
    for id in ruleset.sets.keys() {
        let mut rules = ruleset.chains.values().flat_map(|chain| &chain.rules);
        let is_needed = rules.any(|rule| referenced_sets(rule).iter().any(|(set, _)| set == id));
        require(is_needed, || format!("{id:?} is not referenced"))?;
    }
    Ok(())
}
