//! Printers of services and endpoints.

use std::collections::BTreeSet;

use serde_json::json;

use crate::printers::json_view::JsonView;
use crate::printers::{AGE, NAME, age, first_and_count, labels, name, none};
use crate::table::{TableColumn, TablePrinter};

pub(super) const SERVICE: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Type", "The service type."),
        TableColumn::text("Cluster-IP", "Its cluster IP address."),
        TableColumn::text("External-IP", "Its external IP addresses."),
        TableColumn::text("Port(s)", "The ports it listens on."),
        AGE,
        TableColumn::text("Selector", "The label selector of its pods.").wide(),
    ],
    |object, now| {
        let service = JsonView::Root(object);
        let cluster_ip = service
            .at("spec.clusterIPs")
            .items()
            .next()
            .map_or("<none>", JsonView::str);
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

pub(super) const ENDPOINTS: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Endpoints", "The addresses and ports that are ready."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        vec![name(object), endpoints(object).into(), age(object, now)]
    },
);

/// The load balancer addresses without duplicates.
pub(in crate::printers) fn load_balancer(status: JsonView<'_>) -> String {
    let addresses: BTreeSet<&str> = status
        .key("ingress")
        .items()
        .map(|point| point.key("ip").str_or(point.key("hostname").str()))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn external_ip(service: JsonView<'_>) -> String {
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

fn ports(ports: JsonView<'_>) -> String {
    if ports.item_count() == 0 {
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

fn endpoints(object: JsonView<'_>) -> String {
    const SHOWN_MAX: usize = 3;
    let subsets = object.key("subsets");
    if subsets.item_count() == 0 {
        return none();
    }
    let mut all = Vec::new();
    for subset in subsets.items() {
        let addresses = || {
            let addresses = subset.key("addresses").items();
            addresses.map(|address| address.key("ip").str())
        };
        if subset.key("ports").item_count() == 0 {
            all.extend(addresses().map(str::to_string));
        }
        for port in subset.key("ports").items() {
            let port = port.key("port").int();
            all.extend(addresses().map(|ip| host_and_port(ip, port)));
        }
    }
    first_and_count(SHOWN_MAX, &all)
}

fn host_and_port(host: &str, port: i64) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
