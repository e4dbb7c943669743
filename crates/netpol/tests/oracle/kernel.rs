//! A kernel that refuses what a real one does, and what nobody could have meant.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rhumb_netpol::Family;
use rhumb_netpol::program::{
    Chain, Changes, Element, Peer, Ports, Program, Rule, Set, SetId, SetKind,
};

type Checked = Result<(), String>;

fn require(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

/// Does the changes one after the other, in the order in which they are written down.
pub(crate) fn transact(program: &mut Program, changes: &Changes) -> Checked {
    change_sets(program, changes)?;
    for (id, chain) in &changes.chains {
        check_chain(program, chain)?;
        let before = program.chains.insert(*id, chain.clone());
        require(before.as_ref() != Some(chain), || {
            format!("{id:?} is as it was")
        })?;
    }
    for (id, chains) in &changes.groups {
        for chain in chains {
            let is_there = program.chains.contains_key(chain) && chain.direction == id.direction;
            require(is_there, || format!("{id:?} jumps to {chain:?}"))?;
        }
        let before = program.groups.insert(*id, chains.clone());
        require(before.is_none(), || format!("{id:?} is there already"))?;
    }
    redirect(program, changes)?;
    remove(program, changes)
}

fn change_sets(program: &mut Program, changes: &Changes) -> Checked {
    for (id, kind) in &changes.new_sets {
        let set = Set {
            kind: *kind,
            elements: BTreeSet::new(),
        };
        let before = program.sets.insert(*id, set);
        require(before.is_none(), || format!("{id:?} is there already"))?;
    }
    for (id, elements) in &changes.removed_elements {
        let set = program
            .sets
            .get_mut(id)
            .ok_or_else(|| format!("{id:?} is no set"))?;
        for element in elements {
            require(set.elements.remove(element), || {
                format!("{element:?} is not in {id:?}")
            })?;
        }
    }
    for (id, elements) in &changes.added_elements {
        let set = program
            .sets
            .get_mut(id)
            .ok_or_else(|| format!("{id:?} is no set"))?;
        for element in elements {
            check_element(*id, set.kind, element)?;
            require(set.elements.insert(*element), || {
                format!("{element:?} is in {id:?} already")
            })?;
        }
    }
    Ok(())
}

fn check_element(id: SetId, kind: SetKind, element: &Element) -> Checked {
    let is_of_kind = (kind == SetKind::Ports) == element.port.is_some();
    let is_of_family = (id.family == Family::V4) == element.address.is_ipv4();
    require(is_of_kind && is_of_family, || {
        format!("{element:?} cannot be in {id:?}")
    })
}

fn check_chain(program: &Program, chain: &Chain) -> Checked {
    chain.rules.iter().try_for_each(|rule| {
        let sets = sets_of(rule);
        for (id, kind) in &sets {
            let set = program
                .sets
                .get(id)
                .ok_or_else(|| format!("{rule:?} needs {id:?}"))?;
            let fits = set.kind == *kind && rule.family.is_none_or(|family| family == id.family);
            require(fits && rule.family.is_some(), || {
                format!("{rule:?} cannot use {id:?}")
            })?;
        }
        check_ranges(rule)
    })
}

fn sets_of(rule: &Rule) -> Vec<(SetId, SetKind)> {
    let mut sets = Vec::new();
    if let Peer::In(id) = rule.peer {
        sets.push((id, SetKind::Addresses));
    }
    if let Ports::In(id) = rule.ports {
        sets.push((id, SetKind::Ports));
    }
    sets
}

/// Ranges are in order, apart from each other, and of the rule's family.
fn check_ranges(rule: &Rule) -> Checked {
    if let Peer::Ranges(ranges) = &rule.peer {
        let is_of_family = |(first, last): &(IpAddr, IpAddr)| {
            let family = if first.is_ipv4() {
                Family::V4
            } else {
                Family::V6
            };
            rule.family == Some(family) && first.is_ipv4() == last.is_ipv4() && first <= last
        };
        let are_apart = ranges.windows(2).all(|two| two[0].1 < two[1].0);
        let is_right = !ranges.is_empty() && are_apart && ranges.iter().all(is_of_family);
        require(is_right, || format!("{rule:?} has wrong ranges"))?;
    }
    if let Ports::Ranges(_, ranges) = &rule.ports {
        let are_apart = ranges.windows(2).all(|two| two[0].1 < two[1].0);
        let is_right = !ranges.is_empty()
            && are_apart
            && ranges
                .iter()
                .all(|(first, last)| 0 < *first && first <= last);
        require(is_right, || format!("{rule:?} has wrong ports"))?;
    }
    Ok(())
}

fn redirect(program: &mut Program, changes: &Changes) -> Checked {
    for (key, redirection) in &changes.dispatch {
        let before = program.dispatch.get(key).copied();
        let is_true = before == redirection.before && before != redirection.after;
        require(is_true, || {
            format!("{key:?} goes to {before:?}, not {redirection:?}")
        })?;
        match redirection.after {
            Some(group) => {
                let is_there = program.groups.contains_key(&group) && group.direction == key.0;
                require(is_there, || format!("{key:?} goes to {group:?}"))?;
                program.dispatch.insert(*key, group);
            }
            None => {
                program.dispatch.remove(key);
            }
        }
    }
    for address in &changes.known_removed {
        require(program.known.remove(address), || {
            format!("{address} is not local")
        })?;
    }
    for address in &changes.known_added {
        require(program.known.insert(*address), || {
            format!("{address} is local already")
        })?;
    }
    Ok(())
}

/// What goes is there, and nobody needs it any more.
fn remove(program: &mut Program, changes: &Changes) -> Checked {
    for id in &changes.removed_groups {
        let is_needed = program.dispatch.values().any(|group| group == id);
        let removed = program.groups.remove(id);
        require(removed.is_some() && !is_needed, || {
            format!("{id:?} cannot be removed")
        })?;
    }
    for id in &changes.removed_chains {
        let is_needed = program.groups.values().any(|chains| chains.contains(id));
        let removed = program.chains.remove(id);
        require(removed.is_some() && !is_needed, || {
            format!("{id:?} cannot be removed")
        })?;
    }
    for id in &changes.removed_sets {
        let mut rules = program.chains.values().flat_map(|chain| &chain.rules);
        let is_needed = rules.any(|rule| sets_of(rule).iter().any(|(set, _)| set == id));
        let removed = program.sets.remove(id);
        require(removed.is_some() && !is_needed, || {
            format!("{id:?} cannot be removed")
        })?;
    }
    Ok(())
}

/// There is nothing that nothing leads to.
pub(crate) fn check_needed(program: &Program) -> Checked {
    for id in program.groups.keys() {
        let is_needed = program.dispatch.values().any(|group| group == id);
        require(is_needed, || format!("nobody needs {id:?}"))?;
    }
    for id in program.chains.keys() {
        let is_needed = program.groups.values().any(|chains| chains.contains(id));
        require(is_needed, || format!("nobody needs {id:?}"))?;
    }
    for id in program.sets.keys() {
        let mut rules = program.chains.values().flat_map(|chain| &chain.rules);
        let is_needed = rules.any(|rule| sets_of(rule).iter().any(|(set, _)| set == id));
        require(is_needed, || format!("nobody needs {id:?}"))?;
    }
    Ok(())
}
