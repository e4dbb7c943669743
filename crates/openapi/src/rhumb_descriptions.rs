//! Descriptions of the types and fields that only rhumb has.

const EXCLUSION_RULE: &str = "io.k8s.api.admissionregistration.v1.ExclusionRule";
const MUTATING_WEBHOOK: &str = "io.k8s.api.admissionregistration.v1.MutatingWebhook";
const VALIDATING_WEBHOOK: &str = "io.k8s.api.admissionregistration.v1.ValidatingWebhook";

const NETWORK_POLICY: &str = "io.k8s.api.networking.v1.NetworkPolicy";
const NETWORK_POLICY_SPEC: &str = "io.k8s.api.networking.v1.NetworkPolicySpec";
const NETWORK_POLICY_STATUS: &str = "io.k8s.api.networking.v1.NetworkPolicyStatus";
const CONDITION: &str = "io.k8s.api.networking.v1.NetworkPolicyStatusCondition";
const NODE: &str = "dev.rhumb.networking.v1alpha1.NetworkPolicyNode";
const APPLIED: &str = "dev.rhumb.networking.v1alpha1.AppliedPolicy";
const PROBLEM: &str = "dev.rhumb.networking.v1alpha1.PolicyProblem";
const UNIMPLEMENTED: &str = "dev.rhumb.networking.v1alpha1.UnimplementedFeature";

const TYPES: &[(&str, &str)] = &[
    (
        EXCLUSION_RULE,
        "A rule that excludes requests. A request is excluded if it matches all fields of the rule; an empty field \
         matches every request. A rule that matches all requests is rejected.",
    ),
    (
        NETWORK_POLICY_STATUS,
        "The observed state of a network policy, as reported by the implementations that enforce it.",
    ),
    (CONDITION, "A condition of a network policy."),
    (
        NODE,
        "The report of the agent that enforces network policies on a node: the versions it supports, the policies it \
         has programmed, and errors. It has the same name as the node.",
    ),
    (APPLIED, "A network policy that is programmed on a node."),
    (
        PROBLEM,
        "What an implementation found wrong with a network policy.",
    ),
    (
        UNIMPLEMENTED,
        "A feature of network policies that the agent supports but cannot implement on the node.",
    ),
];

const EXCLUDE_RESOURCE_RULES: &str = "Requests that the webhook is not called for. A request that matches one of \
     these rules is excluded, even if it also matches one of `rules`. `exclusionRules` and `excludeRules` are accepted \
     as aliases.";

const FIELDS: &[(&str, &str, &str)] = &[
    (
        MUTATING_WEBHOOK,
        "excludeResourceRules",
        EXCLUDE_RESOURCE_RULES,
    ),
    (
        VALIDATING_WEBHOOK,
        "excludeResourceRules",
        EXCLUDE_RESOURCE_RULES,
    ),
    (
        EXCLUSION_RULE,
        "apiGroups",
        "The API groups of excluded resources. '*' or an empty list matches all groups. If '*' is present, it must \
         be the only item.",
    ),
    (
        EXCLUSION_RULE,
        "apiVersions",
        "The API versions of excluded resources. '*' or an empty list matches all versions. If '*' is present, it \
         must be the only item.",
    ),
    (
        EXCLUSION_RULE,
        "namespaceSelector",
        "Selects the namespaces whose objects are excluded, by their labels. An empty selector selects all of them. \
         With `namespaces`, both must match. May not be set if the scope is `Cluster`.",
    ),
    (
        EXCLUSION_RULE,
        "namespaces",
        "The names of the namespaces whose objects are excluded. An empty list matches all of them, and objects \
         without a namespace. May not be set if the scope is `Cluster`. `Namespaces` is accepted as an alias.",
    ),
    (
        EXCLUSION_RULE,
        "operations",
        "The operations that are excluded: CREATE, UPDATE, DELETE or CONNECT. '*' or an empty list matches all \
         operations. If '*' is present, it must be the only item.",
    ),
    (
        EXCLUSION_RULE,
        "resourceNames",
        "The names of the objects that are excluded. An empty list matches all of them. Requests without a name are \
         not excluded by a rule with names. `objectNames` is accepted as an alias.",
    ),
    (
        EXCLUSION_RULE,
        "resources",
        "The resources that are excluded: 'pods' matches pods, 'pods/log' the log of pods, 'pods/*' all subresources \
         of pods, '*/scale' all scale subresources, '*' or an empty list all resources but not their subresources, \
         '*/*' all resources and subresources.",
    ),
    (
        EXCLUSION_RULE,
        "scope",
        "Whether only `Cluster` resources, which have no namespace (Namespace objects included), or only `Namespaced` \
         ones are excluded. '*', the default, matches both.",
    ),
    (
        NETWORK_POLICY,
        "status",
        "The observed state of the policy. It is written through the status subresource by the implementations that \
         enforce the policy, and absent until then.",
    ),
    (
        NETWORK_POLICY_SPEC,
        "minVersion",
        "The Kubernetes release whose network policy features an implementation must support to enforce this policy, \
         such as 1.8 for egress rules. If unset, the server sets it from the features that the policy uses and keeps \
         it up to date. If set, it must be a known version, and the policy must not use features of a later one.",
    ),
    (
        NETWORK_POLICY_STATUS,
        "conditions",
        "The conditions of the policy, by type. `Supported`: all features of the policy can be enforced. `Problem`: \
         the policy has an error. `Programmed`: the policy is in effect on all nodes with selected pods. \
         `TargetMatch`: the policy selects pods. `TrafficMatch`: its rules match traffic of these pods.",
    ),
    (
        CONDITION,
        "lastTransitionTime",
        "When the status of the condition last changed.",
    ),
    (CONDITION, "message", "A human-readable message."),
    (
        CONDITION,
        "observedGeneration",
        "The metadata.generation of the policy that the condition is about. If it is lower than the policy's, the \
         condition is about an earlier state of the policy.",
    ),
    (
        CONDITION,
        "reason",
        "The reason for the status, as a machine-readable word.",
    ),
    (CONDITION, "status", "True, False or Unknown."),
    (CONDITION, "type", "The type of the condition."),
    (
        NODE,
        "agent",
        "The name and version of the agent that enforces policies on the node.",
    ),
    (
        NODE,
        "applied",
        "The policies that select pods of the node, with the generation that is programmed.",
    ),
    (
        NODE,
        "bootID",
        "The boot ID of the kernel that has the rules, as in status.nodeInfo.bootID of the node. If the node has a \
         different one, it was rebooted and this report is void.",
    ),
    (
        NODE,
        "heartbeatSeconds",
        "How often the agent renews lastHeartbeatTime. If it does not for four times as long, and for longer than the \
         grace period of the status controller, policies do not count as programmed on the node.",
    ),
    (
        NODE,
        "lastHeartbeatTime",
        "When the agent last wrote this report. It writes it when something changed, and every heartbeatSeconds.",
    ),
    (
        NODE,
        "podsResourceVersion",
        "The greatest resourceVersion of any pod that the agent has observed when it programmed the policies. A \
         selected pod that changed later does not count as covered.",
    ),
    (
        NODE,
        "policyProblems",
        "What the agent found wrong with policies, independently of the node, such as a value that it interprets in \
         an unexpected way. It becomes part of their Problem condition.",
    ),
    (
        NODE,
        "problem",
        "Why the programmed policies are not up to date; absent if they are.",
    ),
    (
        NODE,
        "unimplemented",
        "Features of the supported versions that cannot be implemented on the node.",
    ),
    (
        NODE,
        "versions",
        "The network policy versions that the agent supports. A policy with another minVersion is ignored on the \
         node.",
    ),
    (
        APPLIED,
        "generation",
        "The metadata.generation of the policy that is programmed.",
    ),
    (APPLIED, "name", "The name of the policy."),
    (APPLIED, "namespace", "The namespace of the policy."),
    (
        APPLIED,
        "uid",
        "The UID of the policy, which distinguishes it from earlier policies of the same name.",
    ),
    (
        PROBLEM,
        "generation",
        "The metadata.generation of the policy that has the problem. It is ignored for other generations.",
    ),
    (
        PROBLEM,
        "message",
        "What is wrong, as a human-readable message.",
    ),
    (PROBLEM, "name", "The name of the policy."),
    (PROBLEM, "namespace", "The namespace of the policy."),
    (
        PROBLEM,
        "reason",
        "What is wrong, as a machine-readable word.",
    ),
    (PROBLEM, "uid", "The UID of the policy."),
    (UNIMPLEMENTED, "feature", "The feature, such as SCTP."),
    (
        UNIMPLEMENTED,
        "message",
        "Why it cannot be implemented, as a human-readable message.",
    ),
];

pub(crate) fn of_type(name: &str) -> Option<&'static str> {
    let found = TYPES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

pub(crate) fn of_field(owner: &str, field: &str) -> Option<&'static str> {
    let found = FIELDS
        .iter()
        .find(|(known, name, _)| (*known, *name) == (owner, field));
    found.map(|(_, _, text)| *text)
}
