//! Programs and their changes as commands for the kernel.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use rhumb_netpol::program::{self, Chain, ChainId, Changes, GroupId, Program, SetKind};
use rhumb_netpol::{Direction, Family};

use super::base;
use super::command::{Command, Script};
use super::elements::{Element, Kind, SetType};
use super::expressions::{Match, Rule, Verdict};
use super::held::Held;
use super::marker::Marker;
use super::names::{self, ChainName, DIRECTIONS, FAMILIES, SetName, WAYS, Way};
use super::rules::{family, matches};

/// What tables may be called at most.
const NAME_CHARACTERS_MAX: usize = 64;

/// The table that holds all rules of an agent, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table(String);

/// A name that no table can have.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is no name for a table: it begins with a letter, and has at most {NAME_CHARACTERS_MAX} letters, digits, - and _"
)]
pub struct NotAName(String);

impl Table {
    pub fn new(name: &str) -> Result<Table, NotAName> {
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match begins && name.len() <= NAME_CHARACTERS_MAX && name.chars().all(is_fine) {
            true => Ok(Table(name.to_owned())),
            false => Err(NotAName(name.to_owned())),
        }
    }

    /// Without the family.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Makes the kernel have this program and nothing else in the table, whatever was there, at one moment. The marker
    /// is one that follows that of the table which is there. What refers to something comes after it.
    pub fn whole(&self, program: &Program, held: &Held, marker: Marker) -> Script {
        let mut script = Script::new(self);
        // So that there is one to delete.
        for command in [Command::AddTable, Command::DeleteTable, Command::AddTable] {
            script.push(command);
        }
        add_policies(&mut script, program.chains.iter());
        add_groups(&mut script, program.groups.keys());
        base::add_chains(&mut script, marker.step());
        fixed_sets(&mut script, program, held, marker);
        for (id, set) in &program.sets {
            let name = SetName::Shared(*id);
            script.push(Command::AddSet(name, element_type(id.family, set.kind)));
            script.add_elements(name, set.elements.iter().map(element));
        }
        for (id, chain) in &program.chains {
            fill_policy(&mut script, *id, chain, false);
        }
        for (id, chains) in &program.groups {
            fill_group(&mut script, *id, chains);
        }
        base::add_rules(&mut script);
        script
    }

    /// Brings the kernel from the program as it was to `program`, which it is after the changes. `held` is there if it
    /// has changed. Nothing is changed if the table is not the one with that marker: in another's, the same names mean
    /// something else.
    pub fn update(
        &self,
        marker: Marker,
        changes: &Changes,
        program: &Program,
        held: Option<&Held>,
    ) -> Script {
        let mut script = Script::new(self);
        script.delete_elements(SetName::Marker, [marker.element()].into_iter());
        script.add_elements(SetName::Marker, [marker.element()].into_iter());
        change_sets(&mut script, changes);
        change_chains(&mut script, changes);
        change_dispatch(&mut script, changes, program);
        change_addresses(&mut script, changes, held);
        remove(&mut script, changes);
        script
    }

    /// Removes all that [`Table::whole`] made; fails if there is no such table.
    pub(super) fn removal(&self) -> Script {
        let mut script = Script::new(self);
        script.push(Command::DeleteTable);
        script
    }

    /// Looks, without changing anything, whether the table is still the one with that marker, and whether its chains
    /// still have their rules. Of these commands the first can be carried out. The others cannot, since rules use what
    /// they would delete: maps first, as a chain that cannot be deleted loses its rules in trying.
    pub(super) fn inspection(&self, marker: Marker) -> Script {
        let mut script = Script::new(self);
        script.delete_elements(SetName::Marker, [marker.element()].into_iter());
        for direction in DIRECTIONS {
            let map = SetName::Dispatch(direction, Family::V4);
            script.push(Command::DeleteMap(map));
        }
        for direction in DIRECTIONS {
            script.push(Command::DeleteChain(ChainName::Judge(direction)));
        }
        script
    }
}

/// As nft has it, with the family.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inet {}", self.0)
    }
}

/// The sets and maps that every table has.
fn fixed_sets(script: &mut Script, program: &Program, held: &Held, marker: Marker) {
    script.push(Command::AddSet(SetName::Marker, SetType::of(&[Kind::Mark])));
    script.add_elements(SetName::Marker, [marker.element()].into_iter());
    for (set, of, elements) in base::nobodys() {
        script.push(Command::AddSet(set, of));
        if !program.dispatch.is_empty() {
            script.push(Command::AddElements(set, elements));
        }
    }
    let isolated: BTreeSet<IpAddr> = program
        .dispatch
        .keys()
        .map(|(_, address)| *address)
        .collect();
    for of in FAMILIES {
        let kind = Kind::of_address(of);
        let set = SetName::Held(of);
        script.push(Command::AddSet(set, SetType::of_ranges(&[kind])));
        script.add_elements(set, held_elements(held, of));
        let set = SetName::Known(of);
        script.push(Command::AddSet(set, SetType::of(&[kind])));
        script.add_elements(set, of_family(&program.known, of).map(Element::Address));
        let set = SetName::Oneself(of);
        script.push(Command::AddSet(set, SetType::of(&[kind, kind])));
        script.add_elements(set, of_family(&isolated, of).map(Element::Oneself));
        for direction in DIRECTIONS {
            let map = SetName::Dispatch(direction, of);
            script.push(Command::AddSet(map, SetType::to_verdicts(&[kind])));
            script.add_elements(map, dispatch(program, direction, of));
        }
    }
}

fn held_elements(held: &Held, of: Family) -> impl Iterator<Item = Element> {
    let ranges = held.of_family(of);
    ranges.map(|(first, last)| Element::Range(first, last))
}

fn dispatch(program: &Program, direction: Direction, of: Family) -> impl Iterator<Item = Element> {
    let all = program.dispatch.iter();
    let here = all.filter(move |((to, address), _)| *to == direction && family(*address) == of);
    here.map(|((_, address), group)| goto(*address, *group))
}

fn goto(address: IpAddr, group: GroupId) -> Element {
    Element::Goto(address, ChainName::Group(group, Way::There))
}

fn of_family(addresses: &BTreeSet<IpAddr>, of: Family) -> impl Iterator<Item = IpAddr> {
    let addresses = addresses.iter().copied();
    addresses.filter(move |address| family(*address) == of)
}

fn element_type(family: Family, kind: SetKind) -> SetType {
    let address = Kind::of_address(family);
    match kind {
        SetKind::Addresses => SetType::of(&[address]),
        SetKind::Ports => SetType::of(&[address, Kind::Protocol, Kind::Port]),
    }
}

fn element(of: &program::Element) -> Element {
    match of.port {
        None => Element::Address(of.address),
        Some((protocol, port)) => Element::Port(of.address, protocol, port),
    }
}

fn add_policies<'a>(script: &mut Script, chains: impl Iterator<Item = (&'a ChainId, &'a Chain)>) {
    for (id, chain) in chains {
        for way in WAYS {
            script.push(Command::AddChain {
                chain: ChainName::Policy(*id, way),
                comment: names::comment(&chain.policy),
            });
        }
    }
}

fn add_groups<'a>(script: &mut Script, groups: impl Iterator<Item = &'a GroupId>) {
    for id in groups {
        for way in WAYS {
            script.push(Command::AddChain {
                chain: ChainName::Group(*id, way),
                comment: None,
            });
        }
    }
}

fn fill_policy(script: &mut Script, id: ChainId, chain: &Chain, may_have_rules: bool) {
    for way in WAYS {
        let name = ChainName::Policy(id, way);
        if may_have_rules {
            script.push(Command::FlushChain(name));
        }
        for rule in &chain.rules {
            for row in matches(rule, id.direction, way) {
                script.push(Command::AddRule(name, Rule::new(row, Verdict::Accept)));
            }
        }
    }
}

fn fill_group(script: &mut Script, id: GroupId, chains: &[ChainId]) {
    for way in WAYS {
        let name = ChainName::Group(id, way);
        if way == Way::There {
            let replies = Verdict::Goto(ChainName::Group(id, Way::Back));
            script.push(Command::AddRule(name, Rule::new([Match::Reply], replies)));
        }
        for chain in chains {
            let jump = Verdict::Jump(ChainName::Policy(*chain, way));
            script.push(Command::AddRule(name, jump.into()));
        }
        script.push(Command::AddRule(name, Verdict::Drop.into()));
    }
}

fn change_sets(script: &mut Script, changes: &Changes) {
    for (id, kind) in &changes.new_sets {
        let of = element_type(id.family, *kind);
        script.push(Command::AddSet(SetName::Shared(*id), of));
    }
    for (id, elements) in &changes.removed_elements {
        script.delete_elements(SetName::Shared(*id), elements.iter().map(element));
    }
    for (id, elements) in &changes.added_elements {
        script.add_elements(SetName::Shared(*id), elements.iter().map(element));
    }
}

fn change_chains(script: &mut Script, changes: &Changes) {
    add_policies(script, changes.chains.iter());
    for (id, chain) in &changes.chains {
        fill_policy(script, *id, chain, true);
    }
    add_groups(script, changes.groups.keys());
    for (id, chains) in &changes.groups {
        fill_group(script, *id, chains);
    }
}

fn change_dispatch(script: &mut Script, changes: &Changes, program: &Program) {
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
                gone.map(|((_, address), _)| Element::Address(*address)),
            );
            let come = redirected()
                .filter_map(|((_, address), moved)| moved.after.map(|group| goto(*address, group)));
            script.add_elements(map, come);
        }
    }
    let is_isolating = !program.dispatch.is_empty();
    match (was_isolating(changes, program), is_isolating) {
        (false, true) => {
            for (set, _, elements) in base::nobodys() {
                script.push(Command::AddElements(set, elements));
            }
        }
        (true, false) => {
            for (set, _, _) in base::nobodys() {
                script.push(Command::FlushSet(set));
            }
        }
        (true, true) | (false, false) => {}
    }
    let (gone, come) = isolated_changes(changes, program);
    for of in FAMILIES {
        let set = SetName::Oneself(of);
        script.delete_elements(set, of_family(&gone, of).map(Element::Oneself));
        script.add_elements(set, of_family(&come, of).map(Element::Oneself));
    }
}

fn change_addresses(script: &mut Script, changes: &Changes, held: Option<&Held>) {
    for of in FAMILIES {
        let known = SetName::Known(of);
        let gone = of_family(&changes.known_removed, of);
        script.delete_elements(known, gone.map(Element::Address));
        let come = of_family(&changes.known_added, of);
        script.add_elements(known, come.map(Element::Address));
        if let Some(held) = held {
            let set = SetName::Held(of);
            script.push(Command::FlushSet(set));
            script.add_elements(set, held_elements(held, of));
        }
    }
}

/// What nothing refers to any more: groups to chains, chains to sets.
fn remove(script: &mut Script, changes: &Changes) {
    for id in &changes.removed_groups {
        for way in WAYS {
            script.push(Command::DeleteChain(ChainName::Group(*id, way)));
        }
    }
    for id in &changes.removed_chains {
        for way in WAYS {
            script.push(Command::DeleteChain(ChainName::Policy(*id, way)));
        }
    }
    for id in &changes.removed_sets {
        script.push(Command::DeleteSet(SetName::Shared(*id)));
    }
}

/// Whether anybody was isolated before the changes.
fn was_isolating(changes: &Changes, program: &Program) -> bool {
    let mut moved = changes.dispatch.values();
    let mut now = program.dispatch.keys();
    moved.any(|moved| moved.before.is_some()) || now.any(|key| !changes.dispatch.contains_key(key))
}

/// Addresses that are isolated in no direction any more, and those that are in some for the first time.
fn isolated_changes(changes: &Changes, program: &Program) -> (BTreeSet<IpAddr>, BTreeSet<IpAddr>) {
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
