//! Containers: amounts, variables and ports.

use std::collections::{HashMap, HashSet};

use rhumb_meta::gotext;

use super::{WARNINGS_MAX, shown, whole_bytes};
use crate::View;
use crate::pods::each_container;

/// With how many ports of the same number another one is compared.
const PORTS_COMPARED_MAX: usize = 64;

pub(super) fn warn(spec: &View<'_>, warnings: &mut Vec<String>) {
    each_container(spec, |container| {
        let resources = container.field("resources");
        for resource in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                whole_bytes(&resources.field(list).key(resource), warnings);
            }
        }
        hidden_variables(&container.field("env"), warnings);
    });
    let mut known = Ports::default();
    each_container(spec, |container| {
        for port in container.field("ports").items() {
            known.add(&port, warnings);
        }
    });
    let mut names: HashMap<String, String> = HashMap::new();
    each_container(spec, |container| {
        for port in container.field("ports").items() {
            repeated_name(&port, &mut names, warnings);
        }
    });
}

/// A variable that is set again hides the first, unless it is made from it.
fn hidden_variables(variables: &View<'_>, warnings: &mut Vec<String>) {
    let mut known = HashSet::new();
    for variable in variables.items() {
        let (name, value) = (variable.text("name"), variable.text("value"));
        if known.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        let is_made_from_it = value.contains(&reference) && value != reference;
        if variable.has("valueFrom") || !is_made_from_it {
            warnings.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                variable.path(),
                gotext::quote(name)
            ));
        }
    }
}

#[derive(Debug)]
struct Port {
    path: String,
    host_ip: String,
    host_port: i64,
}

/// The ports seen so far, by number and protocol.
#[derive(Debug, Default)]
struct Ports(HashMap<(i64, String), Vec<Port>>);

impl Ports {
    fn add(&mut self, view: &View<'_>, warnings: &mut Vec<String>) {
        let port = Port {
            path: shown(view.path()),
            host_ip: view.text("hostIP").to_owned(),
            host_port: view.number("hostPort"),
        };
        let (number, protocol) = (view.number("containerPort"), view.text("protocol"));
        if !port.host_ip.is_empty() && port.host_port == 0 {
            warnings.push(format!(
                "{}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{}}}",
                port.path,
                view.text("name"),
                port.host_ip
            ));
        }
        let others = self.0.entry((number, protocol.to_owned())).or_default();
        for other in others.iter() {
            if warnings.len() >= WARNINGS_MAX {
                return;
            }
            if let Some(relation) = port.relation(other) {
                warnings.push(format!(
                    "{}: {relation} port definition with {}",
                    port.path, other.path
                ));
            }
        }
        if others.len() < PORTS_COMPARED_MAX {
            others.push(port);
        }
    }
}

impl Port {
    fn relation(&self, other: &Port) -> Option<&'static str> {
        let same_port = self.host_port == other.host_port;
        if same_port && self.host_ip == other.host_ip {
            Some("duplicate")
        } else if self.host_port == 0 || other.host_port == 0 {
            Some("overlapping")
        } else if same_port && self.host_ip.is_empty() != other.host_ip.is_empty() {
            Some("dangerously ambiguous")
        } else {
            None
        }
    }
}

fn repeated_name(port: &View<'_>, names: &mut HashMap<String, String>, warnings: &mut Vec<String>) {
    let name = port.text("name");
    if name.is_empty() {
        return;
    }
    match names.get(name) {
        Some(other) => warnings.push(format!(
            "{}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
            port.path(),
            gotext::quote(name)
        )),
        None => {
            names.insert(name.to_owned(), shown(port.path()));
        }
    }
}
