//! The kinds of this group.

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod names;
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
