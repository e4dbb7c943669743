//! Warnings about containers: fractional bytes, hidden variables and conflicting ports.

use rhumb_meta::gotext;

use super::{WARNINGS_MAX, warn_of_fractional_bytes};
use crate::FieldView;
use crate::pods::CONTAINER_LISTS;
use crate::small_map::{SmallMap, SmallSet};

/// Maximum number of ports with the same number that a port is compared with.
const PORTS_COMPARED_MAX: usize = 64;

pub(super) fn warn(spec: &FieldView<'_>, warnings: &mut Vec<String>) {
    // All views stay alive, because a warning about a port names another port.
    let [before, running, later] = CONTAINER_LISTS;
    let lists = [spec.field(before), spec.field(running), spec.field(later)];
    let containers = all_items(&lists);
    for container in &containers {
        let resources = container.field("resources");
        let (limits, requests) = (resources.field("limits"), resources.field("requests"));
        for resource in ["memory", "ephemeral-storage"] {
            for list in [&limits, &requests] {
                warn_of_fractional_bytes(&list.key(resource), warnings);
            }
        }
        warn_of_hidden_variables(&container.field("env"), warnings);
    }
    let lists = containers.iter().map(|container| container.field("ports"));
    let lists: Vec<FieldView<'_>> = lists.collect();
    let ports = all_items(&lists);
    let mut known = ContainerPortsByNumber::new();
    for port in &ports {
        warn_of_port_conflicts(port, &mut known, warnings);
    }
    let mut names = SmallMap::new();
    for port in &ports {
        warn_of_duplicate_name(port, &mut names, warnings);
    }
}

fn all_items<'a>(lists: &'a [FieldView<'a>]) -> Vec<FieldView<'a>> {
    let mut items = Vec::new();
    for list in lists {
        items.extend(list.items());
    }
    items
}

/// Warns of a variable that hides an earlier one without referring to it.
fn warn_of_hidden_variables(variables: &FieldView<'_>, warnings: &mut Vec<String>) {
    let mut known = SmallSet::with_capacity(variables.len());
    for variable in variables.items() {
        let name = variable.text("name");
        if known.insert(name) {
            continue;
        }
        let value = variable.text("value");
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

/// A container port and its host port.
#[derive(Debug)]
struct ContainerPortRef<'a> {
    view: &'a FieldView<'a>,
    host_ip: &'a str,
    host_port: i64,
}

/// Ports checked so far, by number and protocol.
type ContainerPortsByNumber<'a> = SmallMap<(i64, &'a str), Vec<ContainerPortRef<'a>>>;

/// Compares a port with the earlier ones.
fn warn_of_port_conflicts<'a>(
    view: &'a FieldView<'a>,
    known: &mut ContainerPortsByNumber<'a>,
    warnings: &mut Vec<String>,
) {
    let port = ContainerPortRef {
        view,
        host_ip: view.text("hostIP"),
        host_port: view.number("hostPort"),
    };
    let (number, protocol) = (view.number("containerPort"), view.text("protocol"));
    if !port.host_ip.is_empty() && port.host_port == 0 {
        warnings.push(format!(
            "{}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{}}}",
            view.path(),
            view.text("name"),
            port.host_ip
        ));
    }
    let others = known.get_or_default((number, protocol));
    for other in others.iter() {
        if warnings.len() >= WARNINGS_MAX {
            return;
        }
        if let Some(relation) = port.conflict_with(other) {
            warnings.push(format!(
                "{}: {relation} port definition with {}",
                view.path(),
                other.view.path()
            ));
        }
    }
    if others.len() < PORTS_COMPARED_MAX {
        others.push(port);
    }
}

impl ContainerPortRef<'_> {
    fn conflict_with(&self, other: &ContainerPortRef<'_>) -> Option<&'static str> {
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

fn warn_of_duplicate_name<'a>(
    port: &'a FieldView<'a>,
    names: &mut SmallMap<&'a str, &'a FieldView<'a>>,
    warnings: &mut Vec<String>,
) {
    let name = port.text("name");
    if name.is_empty() {
        return;
    }
    let Some(other) = names.get(&name) else {
        names.insert(name, port);
        return;
    };
    let other = other.path();
    warnings.push(format!(
        "{}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
        port.path(),
        gotext::quote(name)
    ));
}
