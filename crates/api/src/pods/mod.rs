//! Preparation, validation and warnings of pods and pod templates, as in upstream's `pkg/apis/core/validation`,
//! `pkg/api/pod` and `pkg/registry/core/pod/strategy.go`.

mod affinity;
mod annotations;
pub(crate) mod checks;
mod containers;
mod disabled_fields;
mod env;
mod ephemeral;
mod mounts;
pub mod partial_pod;
mod prepare;
mod probes;
mod qos;
mod resize;
pub(crate) mod resources;
pub(crate) mod scheduling;
mod security;
pub(crate) mod semantic_equality;
mod spec;
mod status;
mod template;
mod update;
mod validation_options;
mod volumes;
mod warnings;
mod windows;

use rhumb_meta::field::ErrorList;

use crate::FieldView;
use validation_options::PodValidationOptions;

pub use affinity::validate_node_selector;
pub use disabled_fields::drop_disabled_fields;
pub(crate) use disabled_fields::drop_disabled_template_fields;
pub use ephemeral::{prepare_ephemeral_containers, validate_ephemeral_containers};
pub use prepare::{
    fix_negative_grace_period, mirror_pod_ip, prepare_create, prepare_status_update,
};
pub use resize::{prepare_resize, validate_resize};
pub use status::validate_status_update;
pub use update::{validate_binding, validate_create, validate_update};
pub use warnings::{pod_warnings, template_warnings};

/// The path of the pod template in objects of a resource; `None` if they have none.
pub fn pod_template_path(group: &str, plural: &str) -> Option<&'static [&'static str]> {
    match (group, plural) {
        ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("batch", "jobs")
        | ("", "replicationcontrollers") => Some(&["spec", "template"]),
        ("batch", "cronjobs") => Some(&["spec", "jobTemplate", "spec", "template"]),
        ("", "podtemplates") => Some(&["template"]),
        _ => None,
    }
}

/// Validates a new pod template: its labels, annotations and pod spec.
pub fn validate_template(template: &FieldView<'_>, errors: &mut ErrorList) {
    template::validate(template, &PodValidationOptions::default(), errors);
}

/// Validates an update of a template. Invalid values that `old` has may be kept (ratcheting).
pub fn validate_template_update(
    template: &FieldView<'_>,
    old: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    let metadata = old.field("metadata");
    let options =
        PodValidationOptions::for_update_of(&old.field("spec"), &metadata.field("annotations"));
    template::validate(template, &options, errors);
}

/// The fields of a pod spec that list containers.
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Calls `visit` for each container of a pod, of all three lists.
pub(crate) fn for_each_container(spec: &FieldView<'_>, mut visit: impl FnMut(&FieldView<'_>)) {
    for list in CONTAINER_LISTS {
        for container in spec.field(list).items() {
            visit(&container);
        }
    }
}
