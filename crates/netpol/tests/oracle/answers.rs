//! Compares what the engine says with what the evaluator does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rhumb_netpol::judge::{End, Opinion, Question};
use rhumb_netpol::summary::Summary;
use rhumb_netpol::{Direction, Engine, Name, Protocol};

use crate::evaluator::{Facts, Oracle, Said, View, addresses, host_addresses};
use crate::script::World;

pub(crate) const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// Those that random policies are about, and their neighbours.
pub(crate) const PORTS: [u16; 5] = [79, 80, 81, 443, 444];

/// Nobody's, but inside of blocks.
const OUTSIDE: [&str; 4] = ["203.0.113.9", "10.0.0.200", "2001:db8::9", "fd00::200"];

/// Everybody who is written of anywhere, and some from outside.
pub(crate) fn all_addresses(world: &World) -> BTreeSet<IpAddr> {
    let pods = world.pods.values();
    let mut all: BTreeSet<IpAddr> = pods
        .flat_map(|pod| [addresses(pod), host_addresses(pod)].concat())
        .collect();
    all.extend(
        OUTSIDE
            .iter()
            .filter_map(|address| address.parse::<IpAddr>().ok()),
    );
    all
}

/// All that can be asked is answered alike.
pub(crate) fn compare(engine: &Engine, oracle: &Oracle<'_>) -> Result<(), String> {
    let all = all_addresses(oracle.world);
    for from in &all {
        for to in all.iter().filter(|to| to.is_ipv4() == from.is_ipv4()) {
            compare_pair(engine, oracle, *from, *to)?;
        }
    }
    compare_pods(engine, oracle)?;
    compare_summaries(engine, oracle)
}

fn compare_pair(
    engine: &Engine,
    oracle: &Oracle<'_>,
    from: IpAddr,
    to: IpAddr,
) -> Result<(), String> {
    let egress = oracle.view(Direction::Egress, from, to);
    let ingress = oracle.view(Direction::Ingress, to, from);
    let is_nobody = |view: &View<'_>| matches!(view, View::Clear(Said::NoPod));
    let ports: &[u16] = match is_nobody(&egress) && is_nobody(&ingress) {
        true => &PORTS[..1],
        false => &PORTS,
    };
    for protocol in PROTOCOLS {
        for port in ports {
            let question = Question {
                from: End::Address(from),
                to: End::Address(to),
                protocol,
                port: *port,
            };
            let verdict = engine.judge(&question);
            let Some([pair]) = verdict.as_ref().map(|verdict| &verdict.pairs[..]) else {
                return Err(format!("{question:?}: {verdict:?}"));
            };
            let asked = Some((protocol, *port));
            agree(&question, "egress", &pair.egress, &egress.at(asked))?;
            agree(&question, "ingress", &pair.ingress, &ingress.at(asked))?;
        }
    }
    Ok(())
}

fn agree(question: &Question, end: &str, opinion: &Opinion, said: &Said) -> Result<(), String> {
    let is_same = match (opinion, said) {
        (Opinion::NoPod, Said::NoPod)
        | (Opinion::NotIsolated, Said::NotIsolated)
        | (Opinion::Itself, Said::Itself)
        | (Opinion::OwnNode, Said::OwnNode) => true,
        (Opinion::Allowed { grants }, Said::Allowed(wanted)) => grants == wanted,
        (Opinion::Denied { policies }, Said::Denied(wanted)) => {
            let named = policies
                .iter()
                .map(|refusal| (&refusal.policy, refusal.rules.len()));
            named.eq(wanted.iter().map(|(policy, rules)| (policy, *rules)))
                && policies
                    .iter()
                    .all(|refusal| are_places(&refusal.rules, end))
        }
        _ => false,
    };
    match is_same {
        true => Ok(()),
        false => Err(format!(
            "{question:?}: {end} is {opinion:#?} and should be {said:#?}"
        )),
    }
}

/// Each rule says where it is, in order.
fn are_places(rules: &[String], end: &str) -> bool {
    let mut numbered = rules.iter().enumerate();
    numbered.all(|(index, rule)| rule.starts_with(&format!("spec.{end}[{index}]: ")))
}

/// A pod is asked by its addresses.
fn compare_pods(engine: &Engine, oracle: &Oracle<'_>) -> Result<(), String> {
    for (from, from_pod) in &oracle.world.pods {
        for (to, to_pod) in &oracle.world.pods {
            let question = Question {
                from: End::Pod(from.clone()),
                to: End::Pod(to.clone()),
                protocol: Protocol::Tcp,
                port: PORTS[1],
            };
            let pairs = pairs(&oracle.asked_by(from_pod), &oracle.asked_by(to_pod));
            let got = engine.judge(&question).map(|verdict| verdict.pairs);
            let got = got.unwrap_or_default();
            let addresses: BTreeSet<_> = got.iter().map(|pair| (pair.from, pair.to)).collect();
            if addresses != pairs || got.len() != pairs.len() {
                return Err(format!("{question:?}: {got:#?} should be about {pairs:?}"));
            }
            for pair in got {
                let asked = Some((Protocol::Tcp, PORTS[1]));
                let egress = oracle.view(Direction::Egress, pair.from, pair.to);
                let ingress = oracle.view(Direction::Ingress, pair.to, pair.from);
                agree(&question, "egress", &pair.egress, &egress.at(asked))?;
                agree(&question, "ingress", &pair.ingress, &ingress.at(asked))?;
            }
        }
    }
    Ok(())
}

fn pairs(from: &[IpAddr], to: &[IpAddr]) -> BTreeSet<(IpAddr, IpAddr)> {
    let all = from
        .iter()
        .flat_map(|from| to.iter().map(move |to| (*from, *to)));
    all.filter(|(from, to)| from.is_ipv4() == to.is_ipv4())
        .collect()
}

fn compare_summaries(engine: &Engine, oracle: &Oracle<'_>) -> Result<(), String> {
    for (name, policy) in &oracle.world.policies {
        let summary = engine.summary(name).map(facts_of);
        let wanted = oracle.facts(name, policy);
        if summary.as_ref() != Some(&wanted) {
            return Err(format!("{name}: {summary:#?} should be {wanted:#?}"));
        }
    }
    Ok(())
}

fn facts_of(summary: Summary) -> Facts {
    Facts {
        uid: summary.uid,
        generation: summary.generation,
        min_version: summary.min_version,
        nodes: summary.nodes,
        unplaced: summary.unplaced,
        traffic: summary.traffic,
    }
}

pub(crate) fn summaries(engine: &Engine) -> BTreeMap<Name, Summary> {
    let names = engine.policies();
    let summaries = names.filter_map(|name| Some((name.clone(), engine.summary(name)?)));
    summaries.collect()
}
