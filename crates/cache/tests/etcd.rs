//! The cache guarantees on a real etcd server.

mod guarantees;
mod support;

use rhumb_store_conformance::EtcdBackend;

guarantees!(EtcdBackend);
