//! Generates pods that compete for addresses, finish and are re-created.

use rhumb_netpol::NamespacedName;
use serde_json::{Value, json};

use super::{NODES, RandomObjectGenerator};

/// The number of pod addresses per family: too few for all pods, so that they conflict.
const ADDRESSES: usize = 7;

impl RandomObjectGenerator<'_> {
    pub(super) fn pod(&mut self, name: &NamespacedName) -> Value {
        let mut pod = json!({
            "kind": "Pod",
            "metadata": {
                "namespace": name.namespace, "name": name.name, "uid": self.uid(),
                "creationTimestamp": self.time(), "labels": self.pod_labels(),
            },
            "spec": {"containers": [self.container(false)]},
            "status": {"phase": self.phase()},
        });
        if self.rng.percent(25) {
            pod["spec"]["containers"] = json!([self.container(false), self.container(false)]);
        }
        if self.rng.percent(20) {
            pod["spec"]["initContainers"] = json!([self.container(true), self.container(true)]);
        }
        if self.rng.percent(92) {
            pod["spec"]["nodeName"] = json!(self.rng.pick(&NODES));
        }
        if self.rng.percent(12) {
            pod["spec"]["hostNetwork"] = json!(true);
        }
        if self.rng.percent(8) {
            pod["metadata"]["deletionTimestamp"] = json!(self.time());
        }
        self.field_path(&mut pod);
        pod
    }

    /// Changes one attribute of a pod.
    pub(super) fn changed_pod(&mut self, mut pod: Value) -> Value {
        match self.rng.below(9) {
            0 | 1 => pod["metadata"]["labels"] = self.pod_labels(),
            2 => pod["status"]["phase"] = self.phase(),
            3 => pod["status"]["phase"] = json!(self.rng.pick(&["Succeeded", "Failed"])),
            4 | 5 => self.field_path(&mut pod),
            6 => pod["metadata"]["deletionTimestamp"] = json!(self.time()),
            7 => pod["spec"]["containers"] = json!([self.container(false)]),
            _ => {
                pod["metadata"]["uid"] = json!(self.uid());
                pod["metadata"]["creationTimestamp"] = self.time();
                pod["spec"]["nodeName"] = json!(self.rng.pick(&NODES));
                pod["status"] = json!({"phase": "Pending"});
            }
        }
        pod
    }

    /// Sets the pod's and its node's addresses.
    fn field_path(&mut self, pod: &mut Value) {
        let node = pod["spec"]["nodeName"]
            .as_str()
            .and_then(|name| name.chars().last());
        let node = node.and_then(|digit| digit.to_digit(10)).unwrap_or(9) as usize;
        let number = self.rng.between(1, ADDRESSES);
        let (v4, v6) = if pod["spec"]["hostNetwork"] == true && self.rng.percent(80) {
            node_addresses(node)
        } else {
            (format!("10.0.0.{number}"), format!("fd00::{number}"))
        };
        let both = json!([{"ip": v4}, {"ip": v6}]);
        let status = &mut pod["status"];
        for field in ["podIP", "podIPs", "hostIP", "hostIPs"] {
            status[field] = Value::Null;
        }
        match self.rng.below(20) {
            0 => {}
            1 => status["podIP"] = json!(v4),
            2 | 3 => status["podIPs"] = json!([{"ip": v4}]),
            4 | 5 => status["podIPs"] = json!([{"ip": v6}]),
            6 => status["podIPs"] = json!([{"ip": ""}, {"ip": "none"}, {"ip": v6}]),
            _ => {
                status["podIP"] = json!(v4);
                status["podIPs"] = both;
            }
        }
        let (v4, v6) = node_addresses(node);
        match self.rng.below(20) {
            0..4 => {}
            // A node address that a pod also has, or the address of another node.
            4 => status["hostIP"] = json!(format!("10.0.0.{}", self.rng.between(1, ADDRESSES))),
            5 => status["hostIP"] = json!("192.168.0.2"),
            6..12 => status["hostIP"] = json!(v4),
            _ => status["hostIPs"] = json!([{"ip": v4}, {"ip": v6}]),
        }
    }

    fn phase(&mut self) -> Value {
        let phases = [
            (76, Some("Running")),
            (10, Some("Pending")),
            (4, Some("Unknown")),
            (4, Some("Succeeded")),
            (4, Some("Failed")),
            (2, None),
        ];
        json!(self.rng.weighted(&phases))
    }

    fn time(&mut self) -> Value {
        json!(format!("2026-01-0{}T00:00:00Z", self.rng.between(1, 5)))
    }

    fn container(&mut self, is_init: bool) -> Value {
        let ports: Vec<Value> = (0..self.rng.below(4))
            .map(|_| self.container_port())
            .collect();
        let mut container = json!({"ports": ports});
        if is_init && self.rng.percent(50) {
            container["restartPolicy"] = json!("Always");
        }
        container
    }

    fn container_port(&mut self) -> Value {
        let mut port = json!({"containerPort": self.rng.pick(&[80, 81, 443])});
        if self.rng.percent(90) {
            port["name"] = json!(self.rng.pick(&["web", "api", "web"]));
        }
        match self
            .rng
            .weighted(&[(4, ""), (3, "TCP"), (2, "UDP"), (1, "SCTP")])
        {
            "" => {}
            protocol => port["protocol"] = json!(protocol),
        }
        port
    }
}

fn node_addresses(node: usize) -> (String, String) {
    (format!("192.168.0.{node}"), format!("fd01::{node}"))
}
