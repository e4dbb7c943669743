//! Objects as the server handles them: their metadata, and their bytes.

mod encode;
mod forms;
mod metadata;
mod outline;
mod projection;

pub use encode::{Encoder, with_revision};
pub use forms::{Form, Forms};
pub use metadata::{Metadata, MetadataMut};
pub use projection::Projection;
