//! Objects as the server handles them: their metadata, and their bytes.

mod as_stored;
mod encode;
mod forms;
mod metadata;
mod projection;
mod trees;

pub use as_stored::AsStored;
pub use encode::{Encoder, with_revision};
pub use forms::{Form, Forms};
pub use metadata::{Metadata, MetadataMut};
pub use projection::Projection;
pub use trees::Trees;
