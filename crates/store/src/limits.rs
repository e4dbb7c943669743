//! Limits that hold on every backend, so that a write accepted by one backend is accepted by the other.

/// The maximum key length. The longest keys of Kubernetes objects have about 600 bytes: group, resource, namespace,
/// name.
pub const KEY_BYTES_MAX: usize = 1024;

/// The maximum value size: the API server's limit on a request body, 3 MiB. An etcd server with default settings
/// rejects more than 1.5 MiB, which is reported as [`crate::Error::TooLarge`] as well.
pub const VALUE_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The maximum number of operations in one transaction: one less than etcd's default, because the etcd backend adds
/// a put to an outcome slot by which it recognises its own transactions.
pub const OPERATIONS_MAX: usize = 127;
