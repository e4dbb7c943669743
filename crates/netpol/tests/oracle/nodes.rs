//! The rules of each node, as they are kept by changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rhumb_netpol::program::{Packet, Peer, Ports, Program, Rule};
use rhumb_netpol::{Direction, Engine, Name, Scope};

use crate::answers::{PORTS, PROTOCOLS, all_addresses};
use crate::dice::Dice;
use crate::evaluator::{Oracle, PortOf, Said, View, node_of};
use crate::generator::{NODES, history};
use crate::kernel::{check_needed, transact};
use crate::script::{Event, Script, World, engine, kind_of, name_of, tell};
use crate::seeds::try_seeds;

/// A node: its engine, and a kernel that hears only of changes.
struct Node {
    name: &'static str,
    engine: Engine,
    kernel: Program,
}

impl Node {
    fn new(name: &'static str, script: &Script) -> Node {
        Node {
            name,
            engine: engine(Scope::Node(name.to_owned()), &script.knowledge, &[]),
            kernel: Program::default(),
        }
    }

    /// Brings the kernel up to date.
    fn sync(&mut self) -> Result<(), String> {
        let changes = self.engine.take_changes();
        let mut applied = self.kernel.clone();
        applied.apply(&changes);
        transact(&mut self.kernel, &changes)
            .map_err(|problem| format!("{}: {problem}: {changes:#?}", self.name))?;
        check_needed(&self.kernel)?;
        let mut told_everything = Program::default();
        transact(&mut told_everything, &self.kernel.everything())?;
        let all = [&applied, &told_everything, self.engine.program()];
        let is_same = all.iter().all(|program| **program == self.kernel);
        match is_same {
            true => Ok(()),
            false => Err(format!(
                "{}: {changes:#?} make {:#?} of it",
                self.name, self.kernel
            )),
        }
    }

    fn compare(&self, oracle: &Oracle<'_>) -> Result<(), String> {
        compare(self.name, &self.kernel, oracle)?;
        let applied: BTreeSet<_> = self
            .engine
            .applied()
            .map(|(name, uid, generation)| (name.clone(), uid.to_owned(), generation))
            .collect();
        let wanted = applied_on(self.name, oracle);
        match applied == wanted {
            true => Ok(()),
            false => Err(format!(
                "{}: applied {applied:?}, not {wanted:?}",
                self.name
            )),
        }
    }
}

fn applied_on(node: &str, oracle: &Oracle<'_>) -> BTreeSet<(Name, String, i64)> {
    let policies = oracle.world.policies.iter();
    let here = policies.filter(|(_, policy)| {
        let mut pods = oracle.world.pods.values();
        pods.any(|pod| node_of(pod) == node && oracle.selects(policy, pod))
    });
    let described = here.map(|(name, policy)| {
        let metadata = &policy["metadata"];
        let uid = metadata["uid"].as_str().unwrap_or_default();
        (
            name.clone(),
            uid.to_owned(),
            metadata["generation"].as_i64().unwrap_or_default(),
        )
    });
    described.collect()
}

fn is_local(node: &str, oracle: &Oracle<'_>, address: IpAddr) -> bool {
    oracle
        .owner(address)
        .is_some_and(|pod| node_of(pod) == node)
}

/// Every packet gets what the ends of it that are here say.
fn compare(node: &str, program: &Program, oracle: &Oracle<'_>) -> Result<(), String> {
    let all = all_addresses(oracle.world);
    let local: BTreeSet<IpAddr> = all
        .iter()
        .copied()
        .filter(|address| is_local(node, oracle, *address))
        .collect();
    if program.known != local {
        return Err(format!(
            "{node}: {:?} are local, not {local:?}",
            program.known
        ));
    }
    for source in &all {
        for destination in all.iter().filter(|to| to.is_ipv4() == source.is_ipv4()) {
            let mut views = Vec::new();
            if local.contains(source) {
                views.push(oracle.view(Direction::Egress, *source, *destination));
            }
            if local.contains(destination) {
                views.push(oracle.view(Direction::Ingress, *destination, *source));
            }
            compare_pair(node, program, (*source, *destination), &views)?;
        }
    }
    Ok(())
}

fn compare_pair(
    node: &str,
    program: &Program,
    (source, destination): (IpAddr, IpAddr),
    views: &[View<'_>],
) -> Result<(), String> {
    // A pod and itself or its node never come by.
    let is_apart = |view: &View<'_>| matches!(view, View::Clear(Said::Itself | Said::OwnNode));
    if views.iter().any(is_apart) {
        return Ok(());
    }
    for port in asked_ports(views.is_empty()) {
        let packet = Packet {
            source,
            destination,
            port,
        };
        let wanted = views.iter().all(|view| view.at(port).is_allowed());
        if program.allows(&packet) != wanted {
            let said: Vec<Said> = views.iter().map(|view| view.at(port)).collect();
            return Err(format!(
                "{node}: {packet:?} should be {said:?}: {program:#?}"
            ));
        }
    }
    Ok(())
}

/// All, or none where nobody is at home.
fn asked_ports(is_passing: bool) -> Vec<PortOf> {
    let mut ports = vec![None];
    if !is_passing {
        let all = PROTOCOLS
            .iter()
            .flat_map(|protocol| PORTS.iter().map(|port| Some((*protocol, *port))));
        ports.extend(all);
    }
    ports
}

#[test]
fn every_kernel_does_what_policies_mean_through_all_changes() {
    let check = |script: &Script| {
        let mut world = World::default();
        let mut nodes = NODES.map(|name| Node::new(name, script));
        for (index, event) in script.events.iter().enumerate() {
            world.apply(event);
            for node in &mut nodes {
                tell(&mut node.engine, event);
                node.sync()?;
            }
            if index % 7 == 6 {
                let oracle = Oracle::new(&world, &script.knowledge);
                nodes.iter().try_for_each(|node| node.compare(&oracle))?;
            }
        }
        let oracle = Oracle::new(&world, &script.knowledge);
        nodes.iter().try_for_each(|node| node.compare(&oracle))
    };
    try_seeds(60, |dice| history(dice, 50), check);
}

#[test]
fn a_kernel_that_is_told_of_many_changes_at_once_does_what_policies_mean() {
    let check = |script: &Script| {
        let mut world = World::default();
        let mut nodes = NODES.map(|name| Node::new(name, script));
        for events in script.events.chunks(12) {
            for event in events {
                world.apply(event);
                nodes
                    .iter_mut()
                    .for_each(|node| tell(&mut node.engine, event));
            }
            let oracle = Oracle::new(&world, &script.knowledge);
            for node in &mut nodes {
                node.sync()?;
                node.compare(&oracle)?;
            }
        }
        Ok(())
    };
    try_seeds(40, |dice| history(dice, 60), check);
}

#[test]
fn a_node_that_starts_now_is_like_one_that_saw_it_all() {
    let check = |script: &Script| {
        let world = World::of(&script.events);
        let mut events: Vec<Event> = world.objects().cloned().map(Event::Set).collect();
        Dice::new(events.len() as u64).shuffle(&mut events);
        for name in NODES {
            let mut old = Node::new(name, script);
            for event in &script.events {
                tell(&mut old.engine, event);
                old.sync()?;
            }
            let mut new = Node::new(name, script);
            events.iter().for_each(|event| tell(&mut new.engine, event));
            new.sync()?;
            let (old, new) = (outline(&old.kernel), outline(&new.kernel));
            if old != new {
                return Err(format!("{name}: {old:#?} should be {new:#?}"));
            }
        }
        Ok(())
    };
    try_seeds(40, |dice| history(dice, 120), check);
}

/// A program without the numbers of its parts: the rules of each policy, and the policies of each address.
fn outline(program: &Program) -> BTreeMap<String, Vec<String>> {
    let mut outline = BTreeMap::new();
    for (id, chain) in &program.chains {
        let mut rules: Vec<String> = chain
            .rules
            .iter()
            .map(|rule| outline_of_rule(program, rule))
            .collect();
        rules.sort();
        let before = outline.insert(format!("{} {:?}", chain.policy, id.direction), rules);
        assert_eq!(before, None, "two chains of one policy");
    }
    for ((direction, address), group) in &program.dispatch {
        let chains = program.groups[group].iter();
        let mut policies: Vec<String> = chains
            .map(|chain| program.chains[chain].policy.to_string())
            .collect();
        policies.sort();
        outline.insert(format!("{address} {direction:?}"), policies);
    }
    let counts = [program.sets.len(), program.groups.len()];
    outline.insert(
        "counts".to_owned(),
        counts.iter().map(ToString::to_string).collect(),
    );
    outline
}

fn outline_of_rule(program: &Program, rule: &Rule) -> String {
    let peer = match &rule.peer {
        Peer::In(set) => format!("{:?}", program.sets[set]),
        other => format!("{other:?}"),
    };
    let ports = match &rule.ports {
        Ports::In(set) => format!("{:?}", program.sets[set]),
        other => format!("{other:?}"),
    };
    format!("{:?} {peer} {ports}", rule.family)
}

#[test]
fn what_is_said_again_changes_nothing_in_the_kernel() {
    let check = |script: &Script| {
        let world = World::of(&script.events);
        for name in NODES {
            let mut node = Node::new(name, script);
            script
                .events
                .iter()
                .for_each(|event| tell(&mut node.engine, event));
            node.sync()?;
            for object in world.objects() {
                tell(&mut node.engine, &Event::Set(object.clone()));
            }
            let changes = node.engine.take_changes();
            if !changes.is_empty() {
                return Err(format!("{name}: {changes:#?}"));
            }
        }
        Ok(())
    };
    try_seeds(100, |dice| history(dice, 30), check);
}

#[test]
fn nothing_is_left_in_the_kernel_when_all_is_gone() {
    let check = |script: &Script| {
        let world = World::of(&script.events);
        let mut gone: Vec<Event> = world
            .objects()
            .map(|object| Event::Remove(kind_of(object), name_of(object)))
            .collect();
        Dice::new(gone.len() as u64).shuffle(&mut gone);
        for name in NODES {
            let mut node = Node::new(name, script);
            script
                .events
                .iter()
                .for_each(|event| tell(&mut node.engine, event));
            node.sync()?;
            for event in &gone {
                tell(&mut node.engine, event);
                node.sync()?;
            }
            if node.kernel != Program::default() {
                return Err(format!("{name}: {:#?}", node.kernel));
            }
        }
        Ok(())
    };
    try_seeds(100, |dice| history(dice, 30), check);
}
