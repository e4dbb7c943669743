//! Objects as the server handles them: their metadata, and their bytes.

mod encode;
mod metadata;
mod projection;

pub use encode::{Encoder, with_revision};
pub use metadata::{Metadata, MetadataMut};
pub use projection::Projection;
