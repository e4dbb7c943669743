//! Built-in kinds of API group `storage.k8s.io`, one module each.

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod driver_names;
mod storage_class;
#[cfg(test)]
mod tests;
mod volume_attachment;
mod volume_attributes_class;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        csi_driver::kind(),
        csi_node::kind(),
        csi_storage_capacity::kind(),
        storage_class::kind(),
        volume_attachment::kind(),
        volume_attributes_class::kind(),
    ]
}
