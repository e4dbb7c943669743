//! Services, and where they lead.

use std::collections::BTreeSet;

use serde_json::json;

use crate::printers::part::Part;
use crate::printers::{AGE, NAME, age, first_few, labels, name, none};
use crate::table::{Column, Printer};

pub(super) const SERVICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Type", "How the service is reached."),
        Column::text("Cluster-IP", "Its address inside of the cluster."),
        Column::text("External-IP", "Its addresses for the rest of the world."),
        Column::text("Port(s)", "The ports it listens on."),
        AGE,
        Column::text("Selector", "Which pods it leads to.").wide(),
    ],
    |object, now| {
        let service = Part::Root(object);
        let cluster_ip = service
            .at("spec.clusterIPs")
            .items()
            .next()
            .map_or("<none>", Part::str);
        vec![
            name(service),
            json!(service.at("spec.type").str()),
            json!(cluster_ip),
            external_ip(service).into(),
            ports(service.at("spec.ports")).into(),
            age(service, now),
            labels(service.at("spec.selector")).into(),
        ]
    },
);

pub(super) const ENDPOINTS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Endpoints", "The addresses and ports that are ready."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        vec![name(object), endpoints(object).into(), age(object, now)]
    },
);

/// The addresses that a load balancer gave, each once.
pub(in crate::printers) fn load_balancer(status: Part<'_>) -> String {
    let addresses: BTreeSet<&str> = status
        .key("ingress")
        .items()
        .map(|point| point.key("ip").str_or(point.key("hostname").str()))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn external_ip(service: Part<'_>) -> String {
    let declared = service.at("spec.externalIPs").join(None, ",");
    match service.at("spec.type").str() {
        "ClusterIP" | "NodePort" if declared.is_empty() => none(),
        "ClusterIP" | "NodePort" => declared,
        "LoadBalancer" => {
            let given = load_balancer(service.at("status.loadBalancer"));
            match (given.is_empty(), declared.is_empty()) {
                (true, true) => "<pending>".to_string(),
                (true, false) => declared,
                (false, true) => given,
                (false, false) => format!("{given},{declared}"),
            }
        }
        "ExternalName" => service.at("spec.externalName").str().to_string(),
        _ => "<unknown>".to_string(),
    }
}

fn ports(ports: Part<'_>) -> String {
    if ports.len() == 0 {
        return none();
    }
    ports
        .items()
        .map(|port| {
            let number = port.key("port").int();
            let protocol = port.key("protocol").str();
            match port.key("nodePort").int() {
                node_port @ 1.. => format!("{number}:{node_port}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect::<Vec<_>>()
        .join(",")
}

fn endpoints(object: Part<'_>) -> String {
    const SHOWN_MAX: usize = 3;
    let subsets = object.key("subsets");
    if subsets.len() == 0 {
        return none();
    }
    let mut all = Vec::new();
    for subset in subsets.items() {
        let addresses = || {
            let addresses = subset.key("addresses").items();
            addresses.map(|address| address.key("ip").str())
        };
        if subset.key("ports").len() == 0 {
            all.extend(addresses().map(str::to_string));
        }
        for port in subset.key("ports").items() {
            let port = port.key("port").int();
            all.extend(addresses().map(|ip| host_and_port(ip, port)));
        }
    }
    first_few(SHOWN_MAX, &all)
}

fn host_and_port(host: &str, port: i64) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
