//! Containers: amounts, variables and ports.

use rhumb_meta::gotext;

use super::{WARNINGS_MAX, whole_bytes};
use crate::View;
use crate::pods::CONTAINER_LISTS;
use crate::small::{SmallMap, SmallSet};

/// With how many ports of the same number another one is compared.
const PORTS_COMPARED_MAX: usize = 64;

pub(super) fn warn(spec: &View<'_>, warnings: &mut Vec<String>) {
    // All views are kept, so that what is said of one port can name another.
    let [before, running, later] = CONTAINER_LISTS;
    let lists = [spec.field(before), spec.field(running), spec.field(later)];
    let containers = all_items(&lists);
    for container in &containers {
        let resources = container.field("resources");
        let (limits, requests) = (resources.field("limits"), resources.field("requests"));
        for resource in ["memory", "ephemeral-storage"] {
            for list in [&limits, &requests] {
                whole_bytes(&list.key(resource), warnings);
            }
        }
        hidden_variables(&container.field("env"), warnings);
    }
    let lists = containers.iter().map(|container| container.field("ports"));
    let lists: Vec<View<'_>> = lists.collect();
    let ports = all_items(&lists);
    let mut known = Ports::new();
    for port in &ports {
        compare(port, &mut known, warnings);
    }
    let mut names = SmallMap::new();
    for port in &ports {
        repeated_name(port, &mut names, warnings);
    }
}

fn all_items<'a>(lists: &'a [View<'a>]) -> Vec<View<'a>> {
    let mut items = Vec::new();
    for list in lists {
        items.extend(list.items());
    }
    items
}

/// A variable that is set again hides the first, unless it is made from it.
fn hidden_variables(variables: &View<'_>, warnings: &mut Vec<String>) {
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

/// A port, and what of the host's it takes.
#[derive(Debug)]
struct Port<'a> {
    view: &'a View<'a>,
    host_ip: &'a str,
    host_port: i64,
}

/// The ports seen so far, by number and protocol.
type Ports<'a> = SmallMap<(i64, &'a str), Vec<Port<'a>>>;

/// Compares a port with those before it.
fn compare<'a>(view: &'a View<'a>, known: &mut Ports<'a>, warnings: &mut Vec<String>) {
    let port = Port {
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
        if let Some(relation) = port.relation(other) {
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

impl Port<'_> {
    fn relation(&self, other: &Port<'_>) -> Option<&'static str> {
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

fn repeated_name<'a>(
    port: &'a View<'a>,
    names: &mut SmallMap<&'a str, &'a View<'a>>,
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
