//! Programs and their changes as scripts for nft.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use rhumb_netpol::program::{Chain, ChainId, Changes, Element, GroupId, Program, SetKind};
use rhumb_netpol::{Direction, Family};

use super::held::Held;
use super::marker::Marker;
use super::names::{self, DIRECTIONS, FAMILIES, WAYS, Way};
use super::rules::{family, matches};
use super::script::Script;
use super::{base, names::Dispatch};

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
    /// is one that follows that of the table which is there.
    pub fn whole(&self, program: &Program, held: &Held, marker: Marker) -> String {
        let mut script = Script::default();
        script.line(format_args!("add table {self}"));
        script.line(format_args!("delete table {self}"));
        script.line(format_args!("table {self} {{"));
        fixed_sets(&mut script, program, held, marker);
        for (id, set) in &program.sets {
            script.line(format_args!("set {} {{", names::Set(*id)));
            script.line(format_args!("type {}", element_type(id.family, set.kind)));
            let elements = set.elements.iter().map(Shown);
            script.elements(format_args!("elements ="), elements);
            script.line(format_args!("}}"));
        }
        for (id, chain) in &program.chains {
            for way in WAYS {
                script.line(format_args!("chain {} {{", names::Policy(*id, way)));
                if let Some(comment) = names::comment(&chain.policy) {
                    script.line(format_args!("comment \"{comment}\""));
                }
                for row in policy_rules(*id, chain, way) {
                    script.line(format_args!("{row}"));
                }
                script.line(format_args!("}}"));
            }
        }
        for (id, chains) in &program.groups {
            for way in WAYS {
                script.line(format_args!("chain {} {{", names::Group(*id, way)));
                for row in group_rules(*id, chains, way) {
                    script.line(format_args!("{row}"));
                }
                script.line(format_args!("}}"));
            }
        }
        base::chains(&mut script, marker.step());
        script.line(format_args!("}}"));
        script.text()
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
    ) -> String {
        let mut script = Script::default();
        for verb in ["delete", "add"] {
            script.line(format_args!("{verb} element {self} marker {{ {marker} }}"));
        }
        self.change_sets(&mut script, changes);
        self.change_chains(&mut script, changes);
        self.change_dispatch(&mut script, changes, program);
        self.change_addresses(&mut script, changes, held);
        self.remove(&mut script, changes);
        script.text()
    }

    fn change_sets(&self, script: &mut Script, changes: &Changes) {
        for (id, kind) in &changes.new_sets {
            let set = names::Set(*id);
            let of = element_type(id.family, *kind);
            script.line(format_args!("add set {self} {set} {{ type {of}; }}"));
        }
        for (verb, of_sets) in [
            ("delete", &changes.removed_elements),
            ("add", &changes.added_elements),
        ] {
            for (id, elements) in of_sets {
                let set = names::Set(*id);
                script.elements(
                    format_args!("{verb} element {self} {set}"),
                    elements.iter().map(Shown),
                );
            }
        }
    }

    fn change_chains(&self, script: &mut Script, changes: &Changes) {
        for (id, chain) in &changes.chains {
            for way in WAYS {
                let name = names::Policy(*id, way);
                match names::comment(&chain.policy) {
                    Some(comment) => script.line(format_args!(
                        "add chain {self} {name} {{ comment \"{comment}\"; }}"
                    )),
                    None => script.line(format_args!("add chain {self} {name}")),
                }
                script.line(format_args!("flush chain {self} {name}"));
                for row in policy_rules(*id, chain, way) {
                    script.line(format_args!("add rule {self} {name} {row}"));
                }
            }
        }
        for id in changes.groups.keys() {
            for way in WAYS {
                script.line(format_args!("add chain {self} {}", names::Group(*id, way)));
            }
        }
        for (id, chains) in &changes.groups {
            for way in WAYS {
                let name = names::Group(*id, way);
                for row in group_rules(*id, chains, way) {
                    script.line(format_args!("add rule {self} {name} {row}"));
                }
            }
        }
    }

    fn change_dispatch(&self, script: &mut Script, changes: &Changes, program: &Program) {
        for direction in DIRECTIONS {
            for of in FAMILIES {
                let redirected = || {
                    let all = changes.dispatch.iter();
                    all.filter(move |((to, address), _)| *to == direction && family(*address) == of)
                };
                let map = Dispatch(direction, of);
                let gone = redirected().filter(|(_, moved)| moved.before.is_some());
                script.elements(
                    format_args!("delete element {self} {map}"),
                    gone.map(|((_, address), _)| address),
                );
                let come = redirected().filter_map(|((_, address), moved)| {
                    moved.after.map(|group| goto(*address, group))
                });
                script.elements(format_args!("add element {self} {map}"), come);
            }
        }
        let verb = match (
            was_isolating(changes, program),
            !program.dispatch.is_empty(),
        ) {
            (false, true) => Some("add"),
            (true, false) => Some("delete"),
            (true, true) | (false, false) => None,
        };
        for (set, _, elements) in base::NOBODYS.iter().filter(|_| verb.is_some()) {
            let verb = verb.unwrap_or_default();
            script.line(format_args!("{verb} element {self} {set} {{ {elements} }}"));
        }
        let (gone, come) = isolated_changes(changes, program);
        for of in FAMILIES {
            let digit = names::digit(of);
            for (verb, addresses) in [("delete", &gone), ("add", &come)] {
                script.elements(
                    format_args!("{verb} element {self} self{digit}"),
                    pairs(addresses, of),
                );
            }
        }
    }

    fn change_addresses(&self, script: &mut Script, changes: &Changes, held: Option<&Held>) {
        for of in FAMILIES {
            let digit = names::digit(of);
            for (verb, addresses) in [
                ("delete", &changes.known_removed),
                ("add", &changes.known_added),
            ] {
                script.elements(
                    format_args!("{verb} element {self} known{digit}"),
                    of_family(addresses, of),
                );
            }
            if let Some(held) = held {
                script.line(format_args!("flush set {self} held{digit}"));
                script.elements(
                    format_args!("add element {self} held{digit}"),
                    held.of_family(of),
                );
            }
        }
    }

    /// What nothing refers to any more: groups to chains, chains to sets.
    fn remove(&self, script: &mut Script, changes: &Changes) {
        for id in &changes.removed_groups {
            for way in WAYS {
                script.line(format_args!(
                    "delete chain {self} {}",
                    names::Group(*id, way)
                ));
            }
        }
        for id in &changes.removed_chains {
            for way in WAYS {
                script.line(format_args!(
                    "delete chain {self} {}",
                    names::Policy(*id, way)
                ));
            }
        }
        for id in &changes.removed_sets {
            script.line(format_args!("delete set {self} {}", names::Set(*id)));
        }
    }

    /// Removes all that [`Table::whole`] made; fails if there is no such table.
    pub fn removal(&self) -> String {
        format!("delete table {self}\n")
    }

    /// Shows the marker, if there is one.
    pub(super) fn question(&self) -> String {
        format!("list set {self} marker\n")
    }

    /// Looks, without changing anything, whether the table is still the one with that marker, and whether its chains
    /// still have their rules. Of these commands the first can be carried out. The others cannot, since rules use what
    /// they would delete: maps first, as a chain that cannot be deleted loses its rules in trying.
    pub(super) fn inspection(&self, marker: Marker) -> Vec<String> {
        let mut lines = vec![format!("delete element {self} marker {{ {marker} }}")];
        let maps = DIRECTIONS.map(|direction| Dispatch(direction, Family::V4));
        lines.extend(maps.map(|map| format!("delete map {self} {map}")));
        let chains = DIRECTIONS.map(names::judge);
        lines.extend(chains.map(|chain| format!("delete chain {self} {chain}")));
        lines
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
    script.line(format_args!(
        "set marker {{ type mark; elements = {{ {marker} }}; }}"
    ));
    for (set, of, elements) in base::NOBODYS {
        script.line(format_args!("set {set} {{"));
        script.line(format_args!("type {of}"));
        if !program.dispatch.is_empty() {
            script.line(format_args!("elements = {{ {elements} }}"));
        }
        script.line(format_args!("}}"));
    }
    let isolated: BTreeSet<IpAddr> = program
        .dispatch
        .keys()
        .map(|(_, address)| *address)
        .collect();
    for of in FAMILIES {
        let (digit, address) = (names::digit(of), names::address(of));
        script.line(format_args!("set held{digit} {{"));
        script.line(format_args!("type {address}; flags interval;"));
        script.elements(format_args!("elements ="), held.of_family(of));
        script.line(format_args!("}}"));
        script.line(format_args!("set known{digit} {{"));
        script.line(format_args!("type {address}"));
        script.elements(format_args!("elements ="), of_family(&program.known, of));
        script.line(format_args!("}}"));
        script.line(format_args!("set self{digit} {{"));
        script.line(format_args!("type {address} . {address}"));
        script.elements(format_args!("elements ="), pairs(&isolated, of));
        script.line(format_args!("}}"));
        for direction in DIRECTIONS {
            script.line(format_args!("map {} {{", Dispatch(direction, of)));
            script.line(format_args!("type {address} : verdict"));
            script.elements(format_args!("elements ="), dispatch(program, direction, of));
            script.line(format_args!("}}"));
        }
    }
}

fn dispatch(program: &Program, direction: Direction, of: Family) -> impl Iterator<Item = String> {
    let all = program.dispatch.iter();
    let here = all.filter(move |((to, address), _)| *to == direction && family(*address) == of);
    here.map(|((_, address), group)| goto(*address, *group))
}

fn goto(address: IpAddr, group: GroupId) -> String {
    format!("{address} : goto {}", names::Group(group, Way::There))
}

fn of_family(addresses: &BTreeSet<IpAddr>, of: Family) -> impl Iterator<Item = &IpAddr> {
    addresses
        .iter()
        .filter(move |address| family(**address) == of)
}

fn pairs(addresses: &BTreeSet<IpAddr>, of: Family) -> impl Iterator<Item = String> {
    of_family(addresses, of).map(|address| format!("{address} . {address}"))
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

fn element_type(family: Family, kind: SetKind) -> String {
    let address = names::address(family);
    match kind {
        SetKind::Addresses => address.to_owned(),
        SetKind::Ports => format!("{address} . inet_proto . inet_service"),
    }
}

/// An element as nft has it.
struct Shown<'a>(&'a Element);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.port {
            None => write!(f, "{}", self.0.address),
            Some((protocol, port)) => {
                let protocol = names::protocol(protocol);
                write!(f, "{} . {protocol} . {port}", self.0.address)
            }
        }
    }
}

fn policy_rules(id: ChainId, chain: &Chain, way: Way) -> Vec<String> {
    let rows = chain
        .rules
        .iter()
        .flat_map(|rule| matches(rule, id.direction, way));
    rows.map(|row| format!("{row}accept")).collect()
}

fn group_rules(id: GroupId, chains: &[ChainId], way: Way) -> Vec<String> {
    let replies = match way {
        Way::There => Some(format!(
            "ct direction reply goto {}",
            names::Group(id, Way::Back)
        )),
        Way::Back => None,
    };
    let jumps = chains
        .iter()
        .map(|chain| format!("jump {}", names::Policy(*chain, way)));
    let all = replies.into_iter().chain(jumps);
    all.chain(["drop".to_owned()]).collect()
}
