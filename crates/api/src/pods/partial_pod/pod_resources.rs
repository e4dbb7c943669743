//! Total requests and limits of a pod. Upstream: `PodRequests` and `PodLimits` of `component-helpers/resource`.

use std::borrow::Cow;

use rhumb_meta::Quantity;
use rhumb_meta::quantity::QuantityFormat;

use super::{PartialContainer, PartialContainerStatus, PartialPod, PartialResourceRequirements};
use crate::partial_decode::ResourceList;
use crate::pods::resources::{is_huge_page, is_pod_level};

/// Which parts of a pod count (upstream's `PodResourcesOptions`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodResourcesOptions {
    /// Include actual and allocated resources of the container statuses, where they exceed the spec.
    pub use_status_resources: bool,
    /// Include the pod overhead.
    pub include_overhead: bool,
    /// Include pod-level huge pages; pod-level CPU and memory always count.
    pub include_pod_level_huge_pages: bool,
    /// Assume a default for containers that request no CPU or no memory.
    pub default_missing_requests: bool,
}

/// Default requests for scoring (upstream's `DefaultMilliCPURequest` and `DefaultMemoryRequest`).
static DEFAULT_NON_ZERO_REQUESTS: [(&str, Quantity); 2] = [
    ("cpu", Quantity::from_milli(100, QuantityFormat::DecimalSi)),
    ("memory", Quantity::new(200 << 20, QuantityFormat::BinarySi)),
];

impl PodResourcesOptions {
    /// For resource quotas.
    pub const QUOTA: PodResourcesOptions = PodResourcesOptions {
        use_status_resources: true,
        include_overhead: true,
        include_pod_level_huge_pages: true,
        default_missing_requests: false,
    };

    /// For filtering: what must fit on a node.
    pub const SCHEDULING: PodResourcesOptions = PodResourcesOptions::QUOTA;

    /// For scoring nodes.
    pub const SCHEDULING_SCORE: PodResourcesOptions = PodResourcesOptions {
        default_missing_requests: true,
        ..PodResourcesOptions::SCHEDULING
    };

    /// For limit ranges: only what the spec states.
    pub const LIMIT_RANGE: PodResourcesOptions = PodResourcesOptions {
        use_status_resources: false,
        include_overhead: false,
        include_pod_level_huge_pages: false,
        default_missing_requests: false,
    };
}

/// Adds the default requests for resources that are missing.
fn add_default_requests(amounts: &mut ResourceList<'_>) {
    for (name, amount) in &DEFAULT_NON_ZERO_REQUESTS {
        if amounts.get(name).is_none() {
            amounts.set(Cow::Borrowed(name), amount.clone());
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestsOrLimits {
    Requests,
    Limits,
}

impl RequestsOrLimits {
    fn list_of<'r, 'a>(
        self,
        requirements: &'r PartialResourceRequirements<'a>,
    ) -> &'r ResourceList<'a> {
        match self {
            RequestsOrLimits::Requests => &requirements.requests,
            RequestsOrLimits::Limits => &requirements.limits,
        }
    }
}

impl<'a> PartialPod<'a> {
    /// Total requests of the pod.
    pub fn requests(&self, options: PodResourcesOptions) -> ResourceList<'a> {
        let mut sum = self.total(RequestsOrLimits::Requests, options);
        if options.include_overhead {
            sum.add_all(&self.spec.overhead);
        }
        sum
    }

    /// Total limits of the pod. Overhead is added to existing limits only.
    pub fn limits(&self, options: PodResourcesOptions) -> ResourceList<'a> {
        let mut sum = self.total(RequestsOrLimits::Limits, options);
        if options.include_overhead {
            for (name, amount) in self.spec.overhead.iter() {
                if let Some(limit) = sum.get_mut(name).filter(|limit| !limit.is_zero()) {
                    limit.add(amount);
                }
            }
        }
        sum
    }

    /// Total of all containers; pod-level values take precedence.
    fn total(&self, list: RequestsOrLimits, options: PodResourcesOptions) -> ResourceList<'a> {
        let mut sum = self.total_of_containers(list, options);
        let of_pod = self
            .spec
            .resources
            .iter()
            .map(|resources| list.list_of(resources));
        for (name, amount) in of_pod.flat_map(ResourceList::iter) {
            if is_pod_level(name) && (options.include_pod_level_huge_pages || !is_huge_page(name)) {
                sum.set(name.clone(), amount.clone());
            }
        }
        sum
    }

    /// Maximum, per resource, over the phases of the pod: each init container with the sidecars started before it, then
    /// all containers with all sidecars.
    fn total_of_containers(
        &self,
        list: RequestsOrLimits,
        options: PodResourcesOptions,
    ) -> ResourceList<'a> {
        let is_infeasible = options.use_status_resources && self.is_resize_infeasible();
        let of = |container| {
            let mut amounts = self.effective_resources(container, list, options, is_infeasible);
            if options.default_missing_requests {
                add_default_requests(amounts.to_mut());
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
                starting.max_with(&sidecars);
            } else {
                let mut amounts = list.list_of(&container.resources).clone();
                if options.default_missing_requests {
                    add_default_requests(&mut amounts);
                }
                amounts.add_all(&sidecars);
                starting.max_with(&amounts);
            }
        }
        running.max_with(&starting);
        running
    }

    /// Resources of a container: during a resize, the maximum of the desired, actual and allocated ones. The desired
    /// ones of an infeasible resize are ignored.
    fn effective_resources<'s>(
        &'s self,
        container: &'s PartialContainer<'a>,
        list: RequestsOrLimits,
        options: PodResourcesOptions,
        is_infeasible: bool,
    ) -> Cow<'s, ResourceList<'a>> {
        let wanted = list.list_of(&container.resources);
        let status = options
            .use_status_resources
            .then(|| self.status_of(&container.name));
        let Some((status, actual)) = status.flatten() else {
            return Cow::Borrowed(wanted);
        };
        let actual = list.list_of(actual);
        let mut most = if is_infeasible { actual } else { wanted }.clone();
        most.max_with(actual);
        if list == RequestsOrLimits::Requests {
            most.max_with(&status.allocated_resources);
        }
        Cow::Owned(most)
    }

    /// The status of a container and its actual resources, if reported.
    fn status_of(
        &self,
        name: &str,
    ) -> Option<(
        &PartialContainerStatus<'a>,
        &PartialResourceRequirements<'a>,
    )> {
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
