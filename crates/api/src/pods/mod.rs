//! What is right and wrong with pods, and with the templates they are made from.

mod affinity;
mod annotations;
pub(crate) mod checks;
mod containers;
mod env;
mod ephemeral;
pub(crate) mod equality;
mod mounts;
mod options;
pub mod outline;
mod prepare;
mod probes;
mod qos;
mod resize;
pub(crate) mod resources;
pub(crate) mod scheduling;
mod security;
mod spec;
mod status;
mod template;
mod unserved;
mod update;
mod volumes;
mod warnings;
mod windows;

use rhumb_meta::field::ErrorList;

use crate::View;
use options::Options;

pub use affinity::validate_node_selector;
pub use ephemeral::{prepare_ephemeral_containers, validate_ephemeral_containers};
pub use prepare::{mend_grace, mirror_pod_ip, prepare_create, prepare_status_update};
pub use resize::{prepare_resize, validate_resize};
pub use status::validate_status_update;
pub(crate) use unserved::drop_from_template;
pub use unserved::drop_unserved_fields;
pub use update::{validate_binding, validate_create, validate_update};
pub use warnings::{pod_warnings, template_warnings};

/// Checks a new pod template: its labels and annotations, and the spec of the pods made from it.
pub fn validate_template(template: &View<'_>, errors: &mut ErrorList) {
    template::validate(template, &Options::default(), errors);
}

/// Checks a template that takes the place of `old`, which may have kept what is refused by now.
pub fn validate_template_update(template: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    let metadata = old.field("metadata");
    let options = Options::keeping(&old.field("spec"), &metadata.field("annotations"));
    template::validate(template, &options, errors);
}

/// The containers of a pod: those that run before, those that run, and those added later.
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Shows each container of a pod.
pub(crate) fn each_container(spec: &View<'_>, mut visit: impl FnMut(&View<'_>)) {
    for list in CONTAINER_LISTS {
        for container in spec.field(list).items() {
            visit(&container);
        }
    }
}
