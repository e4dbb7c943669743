//! Default roles for rhumb's own components; upstream does not have them.

use super::role_declaration::{READ, RoleDeclaration, on, role};

pub(super) const CLUSTER_ROLES: &[RoleDeclaration] = &[
    role(
        "system:aggregate-network-policy-status-to-view",
        &[
            on(READ, "networking.k8s.io", "networkpolicies/status"),
            on(READ, "networking.rhumb.dev", "networkpolicynodes"),
        ],
    )
    .part_of("view"),
    // For agents that enforce network policies on nodes; not bound to any subject by default.
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

/// Controller roles, as in `controllers.rs`.
pub(super) const CONTROLLER_ROLES: &[RoleDeclaration] = &[role(
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
