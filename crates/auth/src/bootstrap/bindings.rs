//! Default bindings, and the default roles of `kube-system` and `kube-public`.

use super::role_declaration::{
    EVENTS, READ, RoleDeclaration, SubjectDeclaration, account, group, named, on, role, user,
};

/// ClusterRoleBindings to the ClusterRole of the same name. `system:node` has no subjects, because permissions of a
/// kubelet depend on its node (upstream: Node authorizer).
pub(super) const CLUSTER_BINDINGS: &[(&str, &[SubjectDeclaration])] = &[
    ("cluster-admin", &[group("system:masters")]),
    ("system:basic-user", &[group("system:authenticated")]),
    ("system:discovery", &[group("system:authenticated")]),
    (
        "system:kube-controller-manager",
        &[user("system:kube-controller-manager")],
    ),
    ("system:kube-dns", &[account("kube-system", "kube-dns")]),
    ("system:kube-scheduler", &[user("system:kube-scheduler")]),
    ("system:monitoring", &[group("system:monitoring")]),
    ("system:node", &[]),
    ("system:node-proxier", &[user("system:kube-proxy")]),
    (
        "system:public-info-viewer",
        &[
            group("system:authenticated"),
            group("system:unauthenticated"),
        ],
    ),
    (
        "system:service-account-issuer-discovery",
        &[group("system:serviceaccounts")],
    ),
    ("system:volume-scheduler", &[user("system:kube-scheduler")]),
];

/// Roles by namespace.
pub(super) const NAMESPACE_ROLES: &[(&str, RoleDeclaration)] = &[
    (
        "kube-public",
        role(
            "system:controller:bootstrap-signer",
            &[
                on(READ, "core", "configmaps"),
                named("update", "core", "configmaps", "cluster-info"),
                EVENTS,
            ],
        ),
    ),
    (
        "kube-system",
        role(
            "extension-apiserver-authentication-reader",
            &[named(
                READ,
                "core",
                "configmaps",
                "extension-apiserver-authentication",
            )],
        ),
    ),
    (
        "kube-system",
        role(
            "system::leader-locking-kube-controller-manager",
            &[
                on(
                    "create get list update watch",
                    "coordination.k8s.io",
                    "leases",
                ),
                on(
                    "create get list update watch",
                    "coordination.k8s.io",
                    "leasecandidates",
                ),
            ],
        ),
    ),
    (
        "kube-system",
        role(
            "system::leader-locking-kube-scheduler",
            &[
                on(
                    "create get list update watch",
                    "coordination.k8s.io",
                    "leases",
                ),
                on(
                    "create get list update watch",
                    "coordination.k8s.io",
                    "leasecandidates",
                ),
            ],
        ),
    ),
    (
        "kube-system",
        role(
            "system:controller:bootstrap-signer",
            &[on(READ, "core", "secrets")],
        ),
    ),
    (
        "kube-system",
        role(
            "system:controller:cloud-provider",
            &[on("create get list watch", "core", "configmaps")],
        ),
    ),
    (
        "kube-system",
        role(
            "system:controller:token-cleaner",
            &[on("delete get list watch", "core", "secrets"), EVENTS],
        ),
    ),
];

/// RoleBindings: namespace, name, role, subjects.
pub(super) const NAMESPACE_BINDINGS: &[(&str, &str, &str, &[SubjectDeclaration])] = &[
    (
        "kube-public",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &[account("kube-system", "bootstrap-signer")],
    ),
    (
        "kube-system",
        "system::extension-apiserver-authentication-reader",
        "extension-apiserver-authentication-reader",
        &[
            user("system:kube-controller-manager"),
            user("system:kube-scheduler"),
        ],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        "system::leader-locking-kube-controller-manager",
        &[
            user("system:kube-controller-manager"),
            account("kube-system", "kube-controller-manager"),
            account("kube-system", "leader-election-controller"),
        ],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        &[
            user("system:kube-scheduler"),
            account("kube-system", "kube-scheduler"),
        ],
    ),
    (
        "kube-system",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &[account("kube-system", "bootstrap-signer")],
    ),
    (
        "kube-system",
        "system:controller:cloud-provider",
        "system:controller:cloud-provider",
        &[account("kube-system", "cloud-provider")],
    ),
    (
        "kube-system",
        "system:controller:token-cleaner",
        "system:controller:token-cleaner",
        &[account("kube-system", "token-cleaner")],
    ),
];
