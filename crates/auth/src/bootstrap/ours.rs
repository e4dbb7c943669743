//! Roles that upstream does not have.

use super::declare::{READ, Role, on, role};

pub(super) const CLUSTER_ROLES: &[Role] = &[
    role(
        "system:aggregate-network-policy-status-to-view",
        &[
            on(READ, "networking.k8s.io", "networkpolicies/status"),
            on(READ, "networking.rhumb.dev", "networkpolicynodes"),
        ],
    )
    .part_of("view"),
    // Whoever enforces network policies on nodes; nobody has it from the beginning.
    role(
        "system:network-policy-agent",
        &[
            on(READ, "core", "namespaces nodes pods"),
            on(READ, "networking.k8s.io", "networkpolicies"),
            on(
                "create delete get list patch update watch",
                "networking.rhumb.dev",
                "networkpolicynodes",
            ),
        ],
    ),
];

/// As those of `controllers.rs`.
pub(super) const CONTROLLER_ROLES: &[Role] = &[role(
    "networkpolicy-status-controller",
    &[
        on(READ, "core", "namespaces nodes pods"),
        on(READ, "networking.k8s.io", "networkpolicies"),
        on(
            "get patch update",
            "networking.k8s.io",
            "networkpolicies/status",
        ),
        on(
            "delete get list watch",
            "networking.rhumb.dev",
            "networkpolicynodes",
        ),
    ],
)];
