//! Limits that hold on every backend, so that what works on one works on the other.

/// The longest key. Upstream's longest is about 600 bytes: a group, a resource, a namespace and a name.
pub const KEY_BYTES_MAX: usize = 1024;

/// The largest value: the API server's own limit on a request body, 3 MiB. An etcd server with its default
/// settings refuses more than 1.5 MiB, and that refusal is [`crate::Error::TooLarge`] as well.
pub const VALUE_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The most operations in one transaction: one less than etcd's default, which leaves room for the
/// operation by which a server recognises its own transactions.
pub const OPERATIONS_MAX: usize = 127;
