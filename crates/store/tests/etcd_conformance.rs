//! Runs the store conformance suite on the etcd backend with a real etcd server.

rhumb_store_conformance::suite!(rhumb_store_conformance::EtcdBackend);
