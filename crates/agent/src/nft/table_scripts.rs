//! Translates rulesets and deltas to nftables scripts for the agent's table.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use rhumb_netpol::ruleset::{
    self, IpSetElementType, NodeRuleset, PolicyChain, PolicyChainId, PolicyGroupId, RulesetDelta,
};
use rhumb_netpol::{Direction, IpFamily};

use super::base_chains;
use super::command::{NftCommand, NftScript};
use super::names::{
    self, CONNTRACK_DIRECTIONS, ChainName, ConntrackDirection, DIRECTIONS, FAMILIES, SetName,
};
use super::pod_cidr_ranges::PodCidrRanges;
use super::policy_rule_matches::{family, rule_matches};
use super::rule_expressions::{NftRule, NftVerdict, PacketMatch};
use super::set_elements::{NftDataType, NftSetElement, NftSetType};
use super::table_marker::TableMarker;

/// Limit for table names.
const NAME_CHARACTERS_MAX: usize = 64;

/// The name of the table that holds all rules of an agent; creates the scripts that change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NftTable(String);

/// A rejected table name.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is not a valid table name: it must begin with a letter and have at most {NAME_CHARACTERS_MAX} letters, digits, - and _"
)]
pub struct InvalidTableName(String);

impl NftTable {
    pub fn new(name: &str) -> Result<NftTable, InvalidTableName> {
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match begins && name.len() <= NAME_CHARACTERS_MAX && name.chars().all(is_fine) {
            true => Ok(NftTable(name.to_owned())),
            false => Err(InvalidTableName(name.to_owned())),
        }
    }

    /// Without the family.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Replaces the table, whether it exists or not, with this ruleset. `marker` must follow the marker of the existing
    /// table. Objects are added before others refer to them.
    pub fn replacement_script(
        &self,
        program: &NodeRuleset,
        held: &PodCidrRanges,
        marker: TableMarker,
    ) -> NftScript {
        let mut script = NftScript::new(self);
        // The first command makes sure that there is a table to delete.
        for command in [
            NftCommand::AddTable,
            NftCommand::DeleteTable,
            NftCommand::AddTable,
        ] {
            script.push(command);
        }
        add_policies(&mut script, program.chains.iter());
        add_groups(&mut script, program.groups.keys());
        base_chains::add_chains(&mut script, marker.generation());
        add_fixed_sets(&mut script, program, held, marker);
        for (id, set) in &program.sets {
            let name = SetName::Shared(*id);
            script.push(NftCommand::AddSet(name, element_type(id.family, set.kind)));
            script.add_elements(name, set.elements.iter().map(element));
        }
        for (id, chain) in &program.chains {
            fill_policy(&mut script, *id, chain, false);
        }
        for (id, chains) in &program.groups {
            fill_group(&mut script, *id, chains);
        }
        base_chains::add_rules(&mut script);
        script
    }

    /// Updates the table to `program`, which is the previous ruleset with `changes` applied. `held` is given if it
    /// changed. The script fails if the table does not have this marker: in another table, the same names mean
    /// something else.
    pub fn update_script(
        &self,
        marker: TableMarker,
        changes: &RulesetDelta,
        program: &NodeRuleset,
        held: Option<&PodCidrRanges>,
    ) -> NftScript {
        let mut script = NftScript::new(self);
        script.delete_elements(SetName::Marker, [marker.element()].into_iter());
        script.add_elements(SetName::Marker, [marker.element()].into_iter());
        change_sets(&mut script, changes);
        change_chains(&mut script, changes);
        change_dispatch(&mut script, changes, program);
        change_addresses(&mut script, changes, held);
        remove_unreferenced(&mut script, changes);
        script
    }

    /// Deletes the table; fails if it does not exist.
    pub(super) fn deletion_script(&self) -> NftScript {
        let mut script = NftScript::new(self);
        script.push(NftCommand::DeleteTable);
        script
    }

    /// A dry-run script that checks whether the table still has this marker and its rules. The first command must
    /// succeed. The others must fail with EBUSY, since rules refer to what they delete. Maps come first, because a
    /// failed chain deletion removes the chain's rules within the transaction.
    pub(super) fn inspection_script(&self, marker: TableMarker) -> NftScript {
        let mut script = NftScript::new(self);
        script.delete_elements(SetName::Marker, [marker.element()].into_iter());
        for direction in DIRECTIONS {
            let map = SetName::Dispatch(direction, IpFamily::V4);
            script.push(NftCommand::DeleteMap(map));
        }
        for direction in DIRECTIONS {
            script.push(NftCommand::DeleteChain(ChainName::Filter(direction)));
        }
        script
    }
}

/// In nft syntax, with the family.
impl fmt::Display for NftTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inet {}", self.0)
    }
}

/// Adds the sets and maps that every table has.
fn add_fixed_sets(
    script: &mut NftScript,
    program: &NodeRuleset,
    held: &PodCidrRanges,
    marker: TableMarker,
) {
    script.push(NftCommand::AddSet(
        SetName::Marker,
        NftSetType::of(&[NftDataType::Mark]),
    ));
    script.add_elements(SetName::Marker, [marker.element()].into_iter());
    for (set, of, elements) in base_chains::non_pod_addresses() {
        script.push(NftCommand::AddSet(set, of));
        if !program.dispatch.is_empty() {
            script.push(NftCommand::AddElements(set, elements));
        }
    }
    let isolated: BTreeSet<IpAddr> = program
        .dispatch
        .keys()
        .map(|(_, address)| *address)
        .collect();
    for of in FAMILIES {
        let kind = NftDataType::of_address(of);
        let set = SetName::PodCidrs(of);
        script.push(NftCommand::AddSet(set, NftSetType::of_ranges(&[kind])));
        script.add_elements(set, held_elements(held, of));
        let set = SetName::KnownPods(of);
        script.push(NftCommand::AddSet(set, NftSetType::of(&[kind])));
        script.add_elements(
            set,
            of_family(&program.known_addresses, of).map(NftSetElement::Address),
        );
        let set = SetName::SelfPairs(of);
        script.push(NftCommand::AddSet(set, NftSetType::of(&[kind, kind])));
        script.add_elements(set, of_family(&isolated, of).map(NftSetElement::SelfPair));
        for direction in DIRECTIONS {
            let map = SetName::Dispatch(direction, of);
            script.push(NftCommand::AddSet(map, NftSetType::verdict_map(&[kind])));
            script.add_elements(map, dispatch(program, direction, of));
        }
    }
}

fn held_elements(held: &PodCidrRanges, of: IpFamily) -> impl Iterator<Item = NftSetElement> {
    let ranges = held.of_family(of);
    ranges.map(|(first, last)| NftSetElement::Range(first, last))
}

fn dispatch(
    program: &NodeRuleset,
    direction: Direction,
    of: IpFamily,
) -> impl Iterator<Item = NftSetElement> {
    let all = program.dispatch.iter();
    let here = all.filter(move |((to, address), _)| *to == direction && family(*address) == of);
    here.map(|((_, address), group)| goto(*address, *group))
}

fn goto(address: IpAddr, group: PolicyGroupId) -> NftSetElement {
    NftSetElement::Goto(
        address,
        ChainName::Group(group, ConntrackDirection::Original),
    )
}

fn of_family(addresses: &BTreeSet<IpAddr>, of: IpFamily) -> impl Iterator<Item = IpAddr> {
    let addresses = addresses.iter().copied();
    addresses.filter(move |address| family(*address) == of)
}

fn element_type(family: IpFamily, kind: IpSetElementType) -> NftSetType {
    let address = NftDataType::of_address(family);
    match kind {
        IpSetElementType::Addresses => NftSetType::of(&[address]),
        IpSetElementType::AddressPorts => {
            NftSetType::of(&[address, NftDataType::Protocol, NftDataType::Port])
        }
    }
}

fn element(of: &ruleset::IpSetElement) -> NftSetElement {
    match of.port {
        None => NftSetElement::Address(of.address),
        Some((protocol, port)) => NftSetElement::Port(of.address, protocol, port),
    }
}

fn add_policies<'a>(
    script: &mut NftScript,
    chains: impl Iterator<Item = (&'a PolicyChainId, &'a PolicyChain)>,
) {
    for (id, chain) in chains {
        for conntrack_direction in CONNTRACK_DIRECTIONS {
            script.push(NftCommand::AddChain {
                chain: ChainName::Policy(*id, conntrack_direction),
                comment: names::comment(&chain.policy),
            });
        }
    }
}

fn add_groups<'a>(script: &mut NftScript, groups: impl Iterator<Item = &'a PolicyGroupId>) {
    for id in groups {
        for conntrack_direction in CONNTRACK_DIRECTIONS {
            script.push(NftCommand::AddChain {
                chain: ChainName::Group(*id, conntrack_direction),
                comment: None,
            });
        }
    }
}

fn fill_policy(
    script: &mut NftScript,
    id: PolicyChainId,
    chain: &PolicyChain,
    may_have_rules: bool,
) {
    for conntrack_direction in CONNTRACK_DIRECTIONS {
        let name = ChainName::Policy(id, conntrack_direction);
        if may_have_rules {
            script.push(NftCommand::FlushChain(name));
        }
        for rule in &chain.rules {
            for row in rule_matches(rule, id.direction, conntrack_direction) {
                script.push(NftCommand::AddRule(
                    name,
                    NftRule::new(row, NftVerdict::Accept),
                ));
            }
        }
    }
}

fn fill_group(script: &mut NftScript, id: PolicyGroupId, chains: &[PolicyChainId]) {
    for conntrack_direction in CONNTRACK_DIRECTIONS {
        let name = ChainName::Group(id, conntrack_direction);
        if conntrack_direction == ConntrackDirection::Original {
            let replies = NftVerdict::Goto(ChainName::Group(id, ConntrackDirection::Reply));
            script.push(NftCommand::AddRule(
                name,
                NftRule::new([PacketMatch::Reply], replies),
            ));
        }
        for chain in chains {
            let jump = NftVerdict::Jump(ChainName::Policy(*chain, conntrack_direction));
            script.push(NftCommand::AddRule(name, jump.into()));
        }
        script.push(NftCommand::AddRule(name, NftVerdict::Drop.into()));
    }
}

fn change_sets(script: &mut NftScript, changes: &RulesetDelta) {
    for (id, kind) in &changes.new_sets {
        let of = element_type(id.family, *kind);
        script.push(NftCommand::AddSet(SetName::Shared(*id), of));
    }
    for (id, elements) in &changes.removed_elements {
        script.delete_elements(SetName::Shared(*id), elements.iter().map(element));
    }
    for (id, elements) in &changes.added_elements {
        script.add_elements(SetName::Shared(*id), elements.iter().map(element));
    }
}

fn change_chains(script: &mut NftScript, changes: &RulesetDelta) {
    add_policies(script, changes.chains.iter());
    for (id, chain) in &changes.chains {
        fill_policy(script, *id, chain, true);
    }
    add_groups(script, changes.groups.keys());
    for (id, chains) in &changes.groups {
        fill_group(script, *id, chains);
    }
}

fn change_dispatch(script: &mut NftScript, changes: &RulesetDelta, program: &NodeRuleset) {
    for direction in DIRECTIONS {
        for of in FAMILIES {
            let redirected = || {
                let all = changes.dispatch.iter();
                all.filter(move |((to, address), _)| *to == direction && family(*address) == of)
            };
            let map = SetName::Dispatch(direction, of);
            let gone = redirected().filter(|(_, moved)| moved.before.is_some());
            script.delete_elements(
                map,
                gone.map(|((_, address), _)| NftSetElement::Address(*address)),
            );
            let come = redirected()
                .filter_map(|((_, address), moved)| moved.after.map(|group| goto(*address, group)));
            script.add_elements(map, come);
        }
    }
    let is_isolating = !program.dispatch.is_empty();
    match (was_any_pod_isolated(changes, program), is_isolating) {
        (false, true) => {
            for (set, _, elements) in base_chains::non_pod_addresses() {
                script.push(NftCommand::AddElements(set, elements));
            }
        }
        (true, false) => {
            for (set, _, _) in base_chains::non_pod_addresses() {
                script.push(NftCommand::FlushSet(set));
            }
        }
        (true, true) | (false, false) => {}
    }
    let (gone, come) = isolated_addresses_changed(changes, program);
    for of in FAMILIES {
        let set = SetName::SelfPairs(of);
        script.delete_elements(set, of_family(&gone, of).map(NftSetElement::SelfPair));
        script.add_elements(set, of_family(&come, of).map(NftSetElement::SelfPair));
    }
}

fn change_addresses(script: &mut NftScript, changes: &RulesetDelta, held: Option<&PodCidrRanges>) {
    for of in FAMILIES {
        let known = SetName::KnownPods(of);
        let gone = of_family(&changes.known_addresses_removed, of);
        script.delete_elements(known, gone.map(NftSetElement::Address));
        let come = of_family(&changes.known_addresses_added, of);
        script.add_elements(known, come.map(NftSetElement::Address));
        if let Some(held) = held {
            let set = SetName::PodCidrs(of);
            script.push(NftCommand::FlushSet(set));
            script.add_elements(set, held_elements(held, of));
        }
    }
}

/// Deletes objects without references: groups before their chains, chains before their sets.
fn remove_unreferenced(script: &mut NftScript, changes: &RulesetDelta) {
    for id in &changes.removed_groups {
        for conntrack_direction in CONNTRACK_DIRECTIONS {
            script.push(NftCommand::DeleteChain(ChainName::Group(
                *id,
                conntrack_direction,
            )));
        }
    }
    for id in &changes.removed_chains {
        for conntrack_direction in CONNTRACK_DIRECTIONS {
            script.push(NftCommand::DeleteChain(ChainName::Policy(
                *id,
                conntrack_direction,
            )));
        }
    }
    for id in &changes.removed_sets {
        script.push(NftCommand::DeleteSet(SetName::Shared(*id)));
    }
}

/// Whether any pod was isolated before the changes.
fn was_any_pod_isolated(changes: &RulesetDelta, program: &NodeRuleset) -> bool {
    let mut moved = changes.dispatch.values();
    let mut now = program.dispatch.keys();
    moved.any(|moved| moved.before.is_some()) || now.any(|key| !changes.dispatch.contains_key(key))
}

/// Addresses that are no longer isolated in any direction, and those that are newly isolated.
fn isolated_addresses_changed(
    changes: &RulesetDelta,
    program: &NodeRuleset,
) -> (BTreeSet<IpAddr>, BTreeSet<IpAddr>) {
    let (mut gone, mut come) = (BTreeSet::new(), BTreeSet::new());
    for (_, address) in changes.dispatch.keys() {
        let is = |key: &(Direction, IpAddr)| program.dispatch.contains_key(key);
        let was = |key: &(Direction, IpAddr)| match changes.dispatch.get(key) {
            Some(moved) => moved.before.is_some(),
            None => is(key),
        };
        let keys = DIRECTIONS.map(|direction| (direction, *address));
        match (keys.iter().any(was), keys.iter().any(is)) {
            (true, false) => gone.insert(*address),
            (false, true) => come.insert(*address),
            (true, true) | (false, false) => false,
        };
    }
    (gone, come)
}
