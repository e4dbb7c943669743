//! Compares node rulesets, maintained by deltas, with the reference evaluator.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rhumb_netpol::ruleset::{AllowRule, NodeRuleset, PacketTuple, PeerMatch, PortMatch};
use rhumb_netpol::{Direction, EngineScope, NamespacedName, PolicyEngine};

use crate::compare_verdicts::{PORTS, PROTOCOLS, all_addresses};
use crate::event_script::{
    EventScript, ObjectEvent, ObjectStore, apply_event, engine_after_events, kind_of, name_of,
};
use crate::generator::{NODES, random_history};
use crate::reference_evaluator::{
    PortIndependentVerdict, ProtocolAndPort, ReferenceEvaluator, ReferenceVerdict, node_of,
};
use crate::seeds::check_seeds;
use crate::strict_ruleset_model::{apply_strictly, check_no_unused_objects};
use rhumb_seeded_rng::SeededRng;

/// A node: its engine, and a ruleset that is only changed by deltas.
struct NodeUnderTest {
    name: &'static str,
    engine: PolicyEngine,
    ruleset: NodeRuleset,
}

impl NodeUnderTest {
    fn new(name: &'static str, script: &EventScript) -> NodeUnderTest {
        NodeUnderTest {
            name,
            engine: engine_after_events(
                EngineScope::Node(name.to_owned()),
                &script.capabilities,
                &[],
            ),
            ruleset: NodeRuleset::default(),
        }
    }

    /// Applies the engine's delta, and checks it.
    fn sync(&mut self) -> Result<(), String> {
        let changes = self.engine.take_ruleset_delta();
        let mut applied = self.ruleset.clone();
        applied.apply(&changes);
        apply_strictly(&mut self.ruleset, &changes)
            .map_err(|problem| format!("{}: {problem}: {changes:#?}", self.name))?;
        check_no_unused_objects(&self.ruleset)?;
        let mut from_empty = NodeRuleset::default();
        apply_strictly(&mut from_empty, &self.ruleset.delta_from_empty())?;
        let all = [&applied, &from_empty, self.engine.ruleset()];
        let is_same = all.iter().all(|ruleset| **ruleset == self.ruleset);
        match is_same {
            true => Ok(()),
            false => Err(format!(
                "{}: {changes:#?} result in {:#?}",
                self.name, self.ruleset
            )),
        }
    }

    fn compare(&self, oracle: &ReferenceEvaluator<'_>) -> Result<(), String> {
        compare(self.name, &self.ruleset, oracle)?;
        let applied: BTreeSet<_> = self
            .engine
            .applied_policies()
            .map(|(name, uid, generation)| (name.clone(), uid.to_owned(), generation))
            .collect();
        let expected = applied_on(self.name, oracle);
        match applied == expected {
            true => Ok(()),
            false => Err(format!(
                "{}: applied {applied:?}, expected {expected:?}",
                self.name
            )),
        }
    }
}

fn applied_on(
    node: &str,
    oracle: &ReferenceEvaluator<'_>,
) -> BTreeSet<(NamespacedName, String, i64)> {
    let policies = oracle.objects.policies.iter();
    let here = policies.filter(|(_, policy)| {
        let mut pods = oracle.objects.pods.values();
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

fn is_local(node: &str, oracle: &ReferenceEvaluator<'_>, address: IpAddr) -> bool {
    oracle
        .owner(address)
        .is_some_and(|pod| node_of(pod) == node)
}

/// Checks every packet: it must pass exactly if all local endpoints allow it.
fn compare(
    node: &str,
    ruleset: &NodeRuleset,
    oracle: &ReferenceEvaluator<'_>,
) -> Result<(), String> {
    let all = all_addresses(oracle.objects);
    let local: BTreeSet<IpAddr> = all
        .iter()
        .copied()
        .filter(|address| is_local(node, oracle, *address))
        .collect();
    if ruleset.known_addresses != local {
        return Err(format!(
            "{node}: known addresses are {:?}, expected {local:?}",
            ruleset.known_addresses
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
            compare_pair(node, ruleset, (*source, *destination), &views)?;
        }
    }
    Ok(())
}

fn compare_pair(
    node: &str,
    ruleset: &NodeRuleset,
    (source, destination): (IpAddr, IpAddr),
    views: &[PortIndependentVerdict<'_>],
) -> Result<(), String> {
    // Traffic of a pod with itself or its own node is not forwarded.
    let is_apart = |view: &PortIndependentVerdict<'_>| {
        matches!(
            view,
            PortIndependentVerdict::Decided(ReferenceVerdict::Itself | ReferenceVerdict::OwnNode)
        )
    };
    if views.iter().any(is_apart) {
        return Ok(());
    }
    for port in ports_to_check(views.is_empty()) {
        let packet = PacketTuple {
            source,
            destination,
            port,
        };
        let wanted = views
            .iter()
            .all(|view| view.verdict_for_port(port).is_allowed());
        if ruleset.allows(&packet) != wanted {
            let expected: Vec<ReferenceVerdict> = views
                .iter()
                .map(|view| view.verdict_for_port(port))
                .collect();
            return Err(format!(
                "{node}: {packet:?} should be {expected:?}: {ruleset:#?}"
            ));
        }
    }
    Ok(())
}

/// All ports; without a local endpoint, only a packet without port.
fn ports_to_check(is_passing: bool) -> Vec<ProtocolAndPort> {
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
fn node_rulesets_agree_with_the_oracle_after_every_change() {
    let check = |script: &EventScript| {
        let mut store = ObjectStore::default();
        let mut nodes = NODES.map(|name| NodeUnderTest::new(name, script));
        for (index, event) in script.events.iter().enumerate() {
            store.apply(event);
            for node in &mut nodes {
                apply_event(&mut node.engine, event);
                node.sync()?;
            }
            if index % 7 == 6 {
                let oracle = ReferenceEvaluator::new(&store, &script.capabilities);
                nodes.iter().try_for_each(|node| node.compare(&oracle))?;
            }
        }
        let oracle = ReferenceEvaluator::new(&store, &script.capabilities);
        nodes.iter().try_for_each(|node| node.compare(&oracle))
    };
    check_seeds(60, |rng| random_history(rng, 50), check);
}

#[test]
fn node_rulesets_agree_with_the_oracle_after_batched_changes() {
    let check = |script: &EventScript| {
        let mut store = ObjectStore::default();
        let mut nodes = NODES.map(|name| NodeUnderTest::new(name, script));
        for events in script.events.chunks(12) {
            for event in events {
                store.apply(event);
                nodes
                    .iter_mut()
                    .for_each(|node| apply_event(&mut node.engine, event));
            }
            let oracle = ReferenceEvaluator::new(&store, &script.capabilities);
            for node in &mut nodes {
                node.sync()?;
                node.compare(&oracle)?;
            }
        }
        Ok(())
    };
    check_seeds(40, |rng| random_history(rng, 60), check);
}

#[test]
fn a_restarted_node_has_the_ruleset_of_a_long_running_one() {
    let check = |script: &EventScript| {
        let store = ObjectStore::of(&script.events);
        let mut events: Vec<ObjectEvent> = store.objects().cloned().map(ObjectEvent::Set).collect();
        SeededRng::new(events.len() as u64).shuffle(&mut events);
        for name in NODES {
            let mut old = NodeUnderTest::new(name, script);
            for event in &script.events {
                apply_event(&mut old.engine, event);
                old.sync()?;
            }
            let mut new = NodeUnderTest::new(name, script);
            events
                .iter()
                .for_each(|event| apply_event(&mut new.engine, event));
            new.sync()?;
            let (old, new) = (ruleset_outline(&old.ruleset), ruleset_outline(&new.ruleset));
            if old != new {
                return Err(format!("{name}: {old:#?} should be {new:#?}"));
            }
        }
        Ok(())
    };
    check_seeds(40, |rng| random_history(rng, 120), check);
}

/// A ruleset without ids: the rules of each policy, and the policies of each address.
fn ruleset_outline(ruleset: &NodeRuleset) -> BTreeMap<String, Vec<String>> {
    let mut outline = BTreeMap::new();
    for (id, chain) in &ruleset.chains {
        let mut rules: Vec<String> = chain
            .rules
            .iter()
            .map(|rule| rule_outline(ruleset, rule))
            .collect();
        rules.sort();
        let before = outline.insert(format!("{} {:?}", chain.policy, id.direction), rules);
        assert_eq!(before, None, "two chains of one policy");
    }
    for ((direction, address), group) in &ruleset.dispatch {
        let chains = ruleset.groups[group].iter();
        let mut policies: Vec<String> = chains
            .map(|chain| ruleset.chains[chain].policy.to_string())
            .collect();
        policies.sort();
        outline.insert(format!("{address} {direction:?}"), policies);
    }
    let counts = [ruleset.sets.len(), ruleset.groups.len()];
    outline.insert(
        "counts".to_owned(),
        counts.iter().map(ToString::to_string).collect(),
    );
    outline
}

fn rule_outline(ruleset: &NodeRuleset, rule: &AllowRule) -> String {
    let peer = match &rule.peer {
        PeerMatch::InSet(set) => format!("{:?}", ruleset.sets[set]),
        other => format!("{other:?}"),
    };
    let ports = match &rule.ports {
        PortMatch::InSet(set) => format!("{:?}", ruleset.sets[set]),
        other => format!("{other:?}"),
    };
    format!("{:?} {peer} {ports}", rule.family)
}

#[test]
fn repeated_events_yield_no_ruleset_delta() {
    let check = |script: &EventScript| {
        let store = ObjectStore::of(&script.events);
        for name in NODES {
            let mut node = NodeUnderTest::new(name, script);
            script
                .events
                .iter()
                .for_each(|event| apply_event(&mut node.engine, event));
            node.sync()?;
            for object in store.objects() {
                apply_event(&mut node.engine, &ObjectEvent::Set(object.clone()));
            }
            let changes = node.engine.take_ruleset_delta();
            if !changes.is_empty() {
                return Err(format!("{name}: {changes:#?}"));
            }
        }
        Ok(())
    };
    check_seeds(100, |rng| random_history(rng, 30), check);
}

#[test]
fn the_ruleset_is_empty_after_removing_all_objects() {
    let check = |script: &EventScript| {
        let store = ObjectStore::of(&script.events);
        let mut gone: Vec<ObjectEvent> = store
            .objects()
            .map(|object| ObjectEvent::Remove(kind_of(object), name_of(object)))
            .collect();
        SeededRng::new(gone.len() as u64).shuffle(&mut gone);
        for name in NODES {
            let mut node = NodeUnderTest::new(name, script);
            script
                .events
                .iter()
                .for_each(|event| apply_event(&mut node.engine, event));
            node.sync()?;
            for event in &gone {
                apply_event(&mut node.engine, event);
                node.sync()?;
            }
            if node.ruleset != NodeRuleset::default() {
                return Err(format!("{name}: {:#?}", node.ruleset));
            }
        }
        Ok(())
    };
    check_seeds(100, |rng| random_history(rng, 30), check);
}
