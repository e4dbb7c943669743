//! What is right and wrong with pods, and with the templates they are made from.

mod affinity;
mod annotations;
pub(crate) mod checks;
mod containers;
mod env;
mod mounts;
mod options;
mod probes;
pub(crate) mod resources;
pub(crate) mod scheduling;
mod security;
mod spec;
mod template;
mod volumes;
mod windows;

use rhumb_meta::field::ErrorList;

use crate::View;

pub use affinity::validate_node_selector;
pub use options::Options;

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

/// Shows each container of a pod: those that run before, those that run, and those added later.
pub(crate) fn each_container(spec: &View<'_>, mut visit: impl FnMut(&View<'_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.field(list).items() {
            visit(&container);
        }
    }
}
