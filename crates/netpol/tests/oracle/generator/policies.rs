//! Generates policies that use all features, including invalid values.

use rhumb_netpol::NamespacedName;
use serde_json::{Value, json};

use super::{RandomObjectGenerator, VERSIONS};

const BLOCKS: [&str; 24] = [
    "0.0.0.0/0",
    "::/0",
    "10.0.0.0/8",
    "10.0.0.0/24",
    "10.0.0.0/29",
    "10.0.0.0/30",
    "10.0.0.4/30",
    "10.0.0.2/31",
    "10.0.0.3/32",
    "10.0.0.5/30",
    "010.000.0.06/31",
    "::ffff:10.0.0.0/126",
    "192.168.0.0/16",
    "192.168.0.2/31",
    "203.0.113.0/24",
    "203.0.113.77/25",
    "fd00::/8",
    "fd00::/126",
    "fd00::4/126",
    "fd00::3/128",
    "fd00::7/127",
    "fd01::/64",
    "10.0.0.1",
    "none",
];

impl RandomObjectGenerator<'_> {
    pub(super) fn policy(&mut self, name: &NamespacedName) -> Value {
        let mut policy = json!({
            "kind": "NetworkPolicy",
            "metadata": {"namespace": name.namespace, "name": name.name, "uid": self.uid(), "generation": 1},
            "spec": {},
        });
        for part in 0..5 {
            self.change_spec(&mut policy["spec"], part);
        }
        policy
    }

    /// Changes one part of a policy.
    pub(super) fn changed_policy(&mut self, mut policy: Value) -> Value {
        let part = self.rng.below(5);
        self.change_spec(&mut policy["spec"], part);
        let generation = policy["metadata"]["generation"]
            .as_i64()
            .unwrap_or_default();
        policy["metadata"]["generation"] = json!(generation + 1);
        policy
    }

    fn change_spec(&mut self, spec: &mut Value, part: usize) {
        match part {
            0 => {
                spec["podSelector"] = match self.rng.below(10) {
                    0 => Value::Null,
                    1..4 => json!({}),
                    _ => self.selector(false),
                };
            }
            1 => {
                spec["policyTypes"] = match self.rng.below(10) {
                    0 | 1 => Value::Null,
                    2 => json!([]),
                    3..5 => json!(["Ingress"]),
                    5..7 => json!(["Egress"]),
                    _ => json!(["Ingress", "Egress"]),
                };
            }
            2 => spec["ingress"] = self.rules("from"),
            3 => spec["egress"] = self.rules("to"),
            _ => {
                spec["minVersion"] = match self.rng.below(20) {
                    0 => json!("1.37-alpha.1"),
                    1 => json!(self.rng.pick(&VERSIONS)),
                    _ => Value::Null,
                };
            }
        }
    }

    fn rules(&mut self, peers: &str) -> Value {
        match self.rng.below(10) {
            0 => Value::Null,
            1 => json!([]),
            _ => (0..self.rng.between(1, 2))
                .map(|_| self.rule(peers))
                .collect(),
        }
    }

    fn rule(&mut self, peers: &str) -> Value {
        let mut rule = json!({});
        match self.rng.below(12) {
            0 => {}
            1 => rule[peers] = json!([]),
            _ => rule[peers] = (0..self.rng.between(1, 3)).map(|_| self.peer()).collect(),
        }
        match self.rng.below(10) {
            0..3 => {}
            3 => rule["ports"] = json!([]),
            _ => rule["ports"] = (0..self.rng.between(1, 3)).map(|_| self.port()).collect(),
        }
        rule
    }

    fn peer(&mut self) -> Value {
        match self.rng.below(20) {
            0 => json!({}),
            1 => json!({"ipBlock": {"cidr": "0.0.0.0/0"}, "podSelector": {}}),
            2..8 => json!({"podSelector": self.selector(false)}),
            8..11 => json!({"namespaceSelector": self.selector(true)}),
            11..14 => {
                json!({"podSelector": self.selector(false), "namespaceSelector": self.selector(true)})
            }
            _ => self.block(),
        }
    }

    fn block(&mut self) -> Value {
        let mut block = json!({"cidr": self.rng.pick(&BLOCKS)});
        if self.rng.percent(60) {
            let count = self.rng.between(1, 3);
            block["except"] = (0..count)
                .map(|_| json!(self.rng.pick(&BLOCKS[2..])))
                .collect();
        }
        json!({"ipBlock": block})
    }

    pub(super) fn selector(&mut self, of_namespaces: bool) -> Value {
        let mut selector = json!({});
        match self.rng.below(10) {
            0..2 => return selector,
            2..5 => {
                let (key, value) = self.label(of_namespaces);
                selector["matchLabels"] = json!({key: value});
            }
            _ => {
                let count = self.rng.between(1, 2);
                selector["matchExpressions"] =
                    (0..count).map(|_| self.expression(of_namespaces)).collect();
                if self.rng.percent(20) {
                    let (key, value) = self.label(of_namespaces);
                    selector["matchLabels"] = json!({key: value});
                }
            }
        }
        selector
    }

    fn label(&mut self, of_namespaces: bool) -> (&'static str, &'static str) {
        *match of_namespaces {
            true => self.rng.pick(&[
                ("team", "red"),
                ("team", "blue"),
                ("app", "x"),
                ("kubernetes.io/metadata.name", "a"),
                ("kubernetes.io/metadata.name", "b"),
                ("kubernetes.io/metadata.name", "c"),
            ]),
            false => self.rng.pick(&[
                ("app", "x"),
                ("app", "y"),
                ("app", "z"),
                ("tier", "front"),
                ("tier", "back"),
                ("team", "red"),
            ]),
        }
    }

    fn expression(&mut self, of_namespaces: bool) -> Value {
        let (key, value) = self.label(of_namespaces);
        let (_, other) = self.label(of_namespaces);
        let values = if self.rng.percent(50) {
            json!([value, other])
        } else {
            json!([value])
        };
        match self.rng.below(24) {
            0..9 => json!({"key": key, "operator": "In", "values": values}),
            9..15 => json!({"key": key, "operator": "NotIn", "values": values}),
            15..19 => json!({"key": key, "operator": "Exists"}),
            19..22 => json!({"key": key, "operator": "DoesNotExist", "values": []}),
            22 => json!({"key": key, "operator": self.rng.pick(&["In", "NotIn"])}),
            _ => {
                json!({"key": key, "operator": self.rng.pick(&["Exists", "in", "DoesNotExist"]), "values": values})
            }
        }
    }

    fn port(&mut self) -> Value {
        let mut port = match self.rng.below(20) {
            0..2 => json!({}),
            2..9 => json!({"port": self.rng.pick(&[80, 81, 443])}),
            9..14 => json!({"port": self.rng.pick(&["web", "api"])}),
            14..18 => {
                json!({"port": self.rng.pick(&[79, 80, 81]), "endPort": self.rng.pick(&[80, 81, 443, 65535])})
            }
            18 => json!({"port": self.rng.pick(&[0, -80, 65536, 65616])}),
            _ => self
                .rng
                .pick(&[
                    json!({"endPort": 443}),
                    json!({"port": "web", "endPort": 443}),
                    json!({"port": 80, "endPort": 65536}),
                    json!({"port": 0, "endPort": 443}),
                ])
                .clone(),
        };
        match self
            .rng
            .weighted(&[(8, ""), (5, "TCP"), (4, "UDP"), (2, "SCTP"), (1, "ICMP")])
        {
            "" => {}
            protocol => port["protocol"] = json!(protocol),
        }
        port
    }
}
