//! Tests of the whole server in one process, without connections.

mod admission;
mod quota;
mod resources;
mod service_allocation;
