//! A cluster that can be asked who reaches whom.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_netpol::judge::{End, Opinion, Pair, Question, Verdict};
use rhumb_netpol::program::{Packet, Program};
use rhumb_netpol::{Engine, Knowledge, Name, Protocol, Scope};
use serde_json::{Value, json};

use crate::objects::{namespace, pod};

pub(crate) use Answer::{Allowed, Denied};

const NODES: [&str; 2] = ["node-1", "node-2"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Allowed,
    Denied,
}

/// The engine that knows all, and one for each node.
pub(crate) struct Cluster {
    pub(crate) all: Engine,
    pub(crate) nodes: BTreeMap<&'static str, Engine>,
}

pub(crate) fn all_versions() -> Knowledge {
    let versions = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];
    Knowledge {
        versions: versions.map(str::to_owned).into(),
        sctp: true,
    }
}

/// Two namespaces with two pods each, one of which is on either node.
///
/// | pod | addresses              | node   |
/// |-----|------------------------|--------|
/// | a/x | 10.0.1.1, fd00:0:0:1::1 | node-1 |
/// | a/y | 10.0.1.2, fd00:0:0:1::2 | node-2 |
/// | b/x | 10.0.2.1, fd00:0:0:2::1 | node-1 |
/// | b/y | 10.0.2.2, fd00:0:0:2::2 | node-2 |
pub(crate) fn two_by_two() -> Cluster {
    let on =
        |node: &str| json!({"spec": {"nodeName": node}, "status": {"hostIP": address_of(node)}});
    Cluster::knowing(all_versions())
        .with(namespace("a", json!({"team": "red"})))
        .with(namespace("b", json!({"team": "blue"})))
        .with(pod("a/x", "10.0.1.1 fd00:0:0:1::1", on("node-1")))
        .with(pod("a/y", "10.0.1.2 fd00:0:0:1::2", on("node-2")))
        .with(pod("b/x", "10.0.2.1 fd00:0:0:2::1", on("node-1")))
        .with(pod("b/y", "10.0.2.2 fd00:0:0:2::2", on("node-2")))
}

/// Of a node of [`two_by_two`].
fn address_of(node: &str) -> &'static str {
    match node {
        "node-1" => "192.168.0.1",
        _ => "192.168.0.2",
    }
}

impl Cluster {
    pub(crate) fn knowing(knowledge: Knowledge) -> Cluster {
        let of_node = |node| Engine::new(Scope::Node(String::from(node)), knowledge.clone());
        Cluster {
            nodes: NODES.map(|node| (node, of_node(node))).into(),
            all: Engine::new(Scope::Cluster, knowledge),
        }
    }

    pub(crate) fn empty() -> Cluster {
        Cluster::knowing(all_versions())
    }

    pub(crate) fn with(mut self, object: Value) -> Cluster {
        self.set(object);
        self
    }

    pub(crate) fn set(&mut self, object: Value) {
        for engine in self.engines() {
            set(engine, &object);
        }
    }

    pub(crate) fn remove_pod(&mut self, pod: &str) {
        for engine in self.engines() {
            engine.remove_pod(&name(pod));
        }
    }

    pub(crate) fn remove_policy(&mut self, policy: &str) {
        for engine in self.engines() {
            engine.remove_policy(&name(policy));
        }
    }

    pub(crate) fn remove_namespace(&mut self, namespace: &str) {
        for engine in self.engines() {
            engine.remove_namespace(namespace);
        }
    }

    fn engines(&mut self) -> impl Iterator<Item = &mut Engine> {
        self.nodes.values_mut().chain([&mut self.all])
    }

    #[track_caller]
    pub(crate) fn allows(&mut self, questions: &[&str]) {
        for question in questions {
            self.check(question, Allowed);
        }
    }

    #[track_caller]
    pub(crate) fn denies(&mut self, questions: &[&str]) {
        for question in questions {
            self.check(question, Denied);
        }
    }

    /// All pairs of addresses of both ends get that answer, and nodes do what is said.
    #[track_caller]
    pub(crate) fn check(&mut self, question: &str, want: Answer) {
        let verdict = self.ask(question);
        let verdict = verdict.unwrap_or_else(|| panic!("{question}: no verdict"));
        assert!(!verdict.pairs.is_empty(), "{question}: about no addresses");
        let asked = parse(question);
        for pair in &verdict.pairs {
            let got = if pair.is_allowed() { Allowed } else { Denied };
            assert_eq!(got, want, "{question}: {pair:#?}");
            self.check_nodes(question, pair, (asked.protocol, asked.port));
        }
    }

    pub(crate) fn ask(&self, question: &str) -> Option<Verdict> {
        self.all.judge(&parse(question))
    }

    /// The opinions of both ends, egress first, of the first pair of addresses.
    #[track_caller]
    pub(crate) fn opinions(&self, question: &str) -> (Opinion, Opinion) {
        let verdict = self.ask(question);
        let pairs = verdict.map(|verdict| verdict.pairs).unwrap_or_default();
        let first = pairs.into_iter().next();
        let first = first.unwrap_or_else(|| panic!("{question}: no verdict"));
        (first.egress, first.ingress)
    }

    /// What comes by is judged where an end is at home. A pod and itself or its own node never come by.
    #[track_caller]
    fn check_nodes(&mut self, question: &str, pair: &Pair, port: (Protocol, u16)) {
        let packet = Packet {
            source: pair.from,
            destination: pair.to,
            port: Some(port),
        };
        for (node, engine) in &mut self.nodes {
            engine.take_changes();
            let program = engine.program();
            let mut want = true;
            for (end, opinion) in [(pair.from, &pair.egress), (pair.to, &pair.ingress)] {
                if program.known.contains(&end) {
                    if matches!(opinion, Opinion::Itself | Opinion::OwnNode) {
                        return;
                    }
                    want &= opinion.is_allowed();
                }
            }
            assert_eq!(program.allows(&packet), want, "{question} on {node}");
        }
    }

    pub(crate) fn program(&mut self, node: &str) -> &Program {
        let engine = self.nodes.get_mut(node).expect("a node");
        engine.take_changes();
        engine.program()
    }

    pub(crate) fn local(&mut self, node: &str) -> BTreeSet<String> {
        let local = &self.program(node).known;
        local.iter().map(ToString::to_string).collect()
    }
}

fn set(engine: &mut Engine, object: &Value) {
    let read = "an object that can be read";
    match object["kind"].as_str() {
        Some("Namespace") => {
            engine.set_namespace(&serde_json::from_value(object.clone()).expect(read));
        }
        Some("Pod") => engine.set_pod(&serde_json::from_value(object.clone()).expect(read)),
        _ => engine.set_policy(&serde_json::from_value(object.clone()).expect(read)),
    }
}

pub(crate) fn name(text: &str) -> Name {
    let (namespace, name) = text.split_once('/').expect("namespace/name");
    Name::new(namespace, name)
}

/// `a/x -> b/y:80/TCP`; an end is a pod or an address.
fn parse(question: &str) -> Question {
    let (from, rest) = question.split_once(" -> ").expect("from -> to");
    let (to, port) = rest.rsplit_once(':').expect("to:port");
    let (port, protocol) = port.split_once('/').expect("port/protocol");
    Question {
        from: end(from),
        to: end(to),
        protocol: match protocol {
            "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            other => panic!("{other} is no protocol"),
        },
        port: port.parse().expect("a port"),
    }
}

fn end(text: &str) -> End {
    match text.parse() {
        Ok(address) => End::Address(address),
        Err(_) => End::Pod(name(text)),
    }
}
