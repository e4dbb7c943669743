//! What a pod asks for in all, and what it is limited to.

use std::borrow::Cow;

use rhumb_meta::Quantity;
use rhumb_meta::quantity::Format;

use super::{Container, ContainerStatus, Outline, Requirements};
use crate::partial::ResourceList;
use crate::pods::resources::{is_huge_page, is_pod_level};

/// Which parts of a pod count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Basis {
    /// What containers run with and what is set aside for them, where that is more than they ask for.
    pub status: bool,
    /// What it costs to run the pod, beside its containers.
    pub overhead: bool,
    /// Huge pages that the pod as a whole asks for; processor and memory that it asks for always count.
    pub huge_pages_of_pod: bool,
    /// A container that asks for no processor, or no memory, counts as if it asked for a little.
    pub assumes_some: bool,
}

/// What a container takes that does not say so, as scores see it.
static ASSUMED: [(&str, Quantity); 2] = [
    ("cpu", Quantity::from_milli(100, Format::DecimalSi)),
    ("memory", Quantity::new(200 << 20, Format::BinarySi)),
];

impl Basis {
    /// As quotas count.
    pub const QUOTA: Basis = Basis {
        status: true,
        overhead: true,
        huge_pages_of_pod: true,
        assumes_some: false,
    };

    /// What must fit on a node.
    pub const SCHEDULING: Basis = Basis::QUOTA;

    /// What nodes are compared by.
    pub const SCHEDULING_SCORE: Basis = Basis {
        assumes_some: true,
        ..Basis::SCHEDULING
    };

    /// As limit ranges count: what is written in the spec.
    pub const LIMIT_RANGE: Basis = Basis {
        status: false,
        overhead: false,
        huge_pages_of_pod: false,
        assumes_some: false,
    };
}

/// Adds what is assumed where nothing is said.
fn fill_in(amounts: &mut ResourceList<'_>) {
    for (name, amount) in &ASSUMED {
        if amounts.get(name).is_none() {
            amounts.set(Cow::Borrowed(name), amount.clone());
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Requests,
    Limits,
}

impl Side {
    fn of<'r, 'a>(self, requirements: &'r Requirements<'a>) -> &'r ResourceList<'a> {
        match self {
            Side::Requests => &requirements.requests,
            Side::Limits => &requirements.limits,
        }
    }
}

impl<'a> Outline<'a> {
    /// What the pod asks for in all.
    pub fn requests(&self, basis: Basis) -> ResourceList<'a> {
        let mut sum = self.sum(Side::Requests, basis);
        if basis.overhead {
            sum.add_all(&self.spec.overhead);
        }
        sum
    }

    /// What the pod is limited to in all. Overhead raises limits and makes none.
    pub fn limits(&self, basis: Basis) -> ResourceList<'a> {
        let mut sum = self.sum(Side::Limits, basis);
        if basis.overhead {
            for (name, amount) in self.spec.overhead.iter() {
                if let Some(limit) = sum.get_mut(name).filter(|limit| !limit.is_zero()) {
                    limit.add(amount);
                }
            }
        }
        sum
    }

    /// That of all containers, or that of the pod as a whole where it says so.
    fn sum(&self, side: Side, basis: Basis) -> ResourceList<'a> {
        let mut sum = self.sum_of_containers(side, basis);
        let of_pod = self
            .spec
            .resources
            .iter()
            .map(|resources| side.of(resources));
        for (name, amount) in of_pod.flat_map(ResourceList::iter) {
            if is_pod_level(name) && (basis.huge_pages_of_pod || !is_huge_page(name)) {
                sum.set(name.clone(), amount.clone());
            }
        }
        sum
    }

    /// What runs at the same time adds up: first each init container with the sidecars started before it, then all
    /// containers with all sidecars. The larger of these counts, resource by resource.
    fn sum_of_containers(&self, side: Side, basis: Basis) -> ResourceList<'a> {
        let is_infeasible = basis.status && self.is_resize_infeasible();
        let of = |container| {
            let mut amounts = self.effective(container, side, basis, is_infeasible);
            if basis.assumes_some {
                fill_in(amounts.to_mut());
            }
            amounts
        };
        let mut running = ResourceList::default();
        for container in self.containers() {
            running.add_all(&of(container));
        }
        let (mut sidecars, mut starting) = (ResourceList::default(), ResourceList::default());
        for container in self.init_containers() {
            if container.is_sidecar() {
                let amounts = of(container);
                running.add_all(&amounts);
                sidecars.add_all(&amounts);
                starting.raise_to(&sidecars);
            } else {
                let mut amounts = side.of(&container.resources).clone();
                if basis.assumes_some {
                    fill_in(&mut amounts);
                }
                amounts.add_all(&sidecars);
                starting.raise_to(&amounts);
            }
        }
        running.raise_to(&starting);
        running
    }

    /// While a container is resized, it has what it had and what it is to have. A resize that can never happen adds
    /// nothing.
    fn effective<'s>(
        &'s self,
        container: &'s Container<'a>,
        side: Side,
        basis: Basis,
        is_infeasible: bool,
    ) -> Cow<'s, ResourceList<'a>> {
        let wanted = side.of(&container.resources);
        let status = basis.status.then(|| self.status_of(&container.name));
        let Some((status, actual)) = status.flatten() else {
            return Cow::Borrowed(wanted);
        };
        let actual = side.of(actual);
        let mut most = if is_infeasible { actual } else { wanted }.clone();
        most.raise_to(actual);
        if side == Side::Requests {
            most.raise_to(&status.allocated_resources);
        }
        Cow::Owned(most)
    }

    /// The status of a container and what it runs with, if that is known.
    fn status_of(&self, name: &str) -> Option<(&ContainerStatus<'a>, &Requirements<'a>)> {
        let statuses = self.status.container_statuses.iter();
        let status = statuses
            .chain(&self.status.init_container_statuses)
            .rfind(|status| &*status.name == name)?;
        Some((status, status.resources.as_ref()?))
    }

    fn is_resize_infeasible(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions
            .find(|condition| &*condition.kind == "PodResizePending")
            .is_some_and(|condition| &*condition.reason == "Infeasible")
    }
}
