//! What there is to say about types and fields that only rhumb has.

const EXCLUSION_RULE: &str = "io.k8s.api.admissionregistration.v1.ExclusionRule";
const MUTATING_WEBHOOK: &str = "io.k8s.api.admissionregistration.v1.MutatingWebhook";
const VALIDATING_WEBHOOK: &str = "io.k8s.api.admissionregistration.v1.ValidatingWebhook";

const NETWORK_POLICY: &str = "io.k8s.api.networking.v1.NetworkPolicy";
const NETWORK_POLICY_SPEC: &str = "io.k8s.api.networking.v1.NetworkPolicySpec";
const NETWORK_POLICY_STATUS: &str = "io.k8s.api.networking.v1.NetworkPolicyStatus";
const CONDITION: &str = "io.k8s.api.networking.v1.NetworkPolicyStatusCondition";
const NODE: &str = "dev.rhumb.networking.v1alpha1.NetworkPolicyNode";
const APPLIED: &str = "dev.rhumb.networking.v1alpha1.AppliedPolicy";
const UNIMPLEMENTED: &str = "dev.rhumb.networking.v1alpha1.UnimplementedFeature";

const TYPES: &[(&str, &str)] = &[
    (
        EXCLUSION_RULE,
        "A rule that excludes requests. A request is excluded if it fits everything that the rule says; what is left \
         empty fits every request. A rule that fits all requests is refused.",
    ),
    (
        NETWORK_POLICY_STATUS,
        "What became of a network policy, as far as those who enforce it have told.",
    ),
    (
        CONDITION,
        "Something that is so with a network policy, or is not so.",
    ),
    (
        NODE,
        "What whoever enforces network policies on a node tells of it: what it understands, which policies are in \
         force, and what went wrong. Its name is that of the node.",
    ),
    (APPLIED, "A network policy that is in force on a node."),
    (
        UNIMPLEMENTED,
        "A feature of network policies that is understood but cannot be had on a node.",
    ),
];

const EXCLUDE_RESOURCE_RULES: &str = "Requests that the webhook is not to be called for. A request that fits one of \
     these rules is excluded, even if it fits one of `rules` as well. `exclusionRules` and `excludeRules` are accepted \
     as other spellings.";

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
        "The API groups of excluded resources. '*' is all groups, and so is an empty list. If '*' is present, it must \
         be the only item.",
    ),
    (
        EXCLUSION_RULE,
        "apiVersions",
        "The API versions of excluded resources. '*' is all versions, and so is an empty list. If '*' is present, it \
         must be the only item.",
    ),
    (
        EXCLUSION_RULE,
        "namespaceSelector",
        "Selects the namespaces whose objects are excluded, by their labels. An empty selector selects all of them. \
         With `namespaces`, both must fit. May not be set if the scope is `Cluster`.",
    ),
    (
        EXCLUSION_RULE,
        "namespaces",
        "The names of the namespaces whose objects are excluded. An empty list is all of them, and objects without a \
         namespace. May not be set if the scope is `Cluster`. `Namespaces` is accepted as another spelling.",
    ),
    (
        EXCLUSION_RULE,
        "operations",
        "The operations that are excluded: CREATE, UPDATE, DELETE or CONNECT. '*' is all operations, and so is an \
         empty list. If '*' is present, it must be the only item.",
    ),
    (
        EXCLUSION_RULE,
        "resourceNames",
        "The names of the objects that are excluded. An empty list is all of them. Requests that have no name are not \
         excluded by a rule with names. `objectNames` is accepted as another spelling.",
    ),
    (
        EXCLUSION_RULE,
        "resources",
        "The resources that are excluded: 'pods' is pods, 'pods/log' is the log of pods, 'pods/*' is all subresources \
         of pods, '*/scale' is all scales, '*' is all resources but not their subresources, and so is an empty list; '*/*' \
         is all resources and subresources.",
    ),
    (
        EXCLUSION_RULE,
        "scope",
        "Whether only `Cluster` resources, which have no namespace (Namespaces are such), or only `Namespaced` ones \
         are excluded. '*', the default, is both.",
    ),
    (
        NETWORK_POLICY,
        "status",
        "What became of the policy. It is written by those who enforce it, through the status subresource, and absent \
         until they have.",
    ),
    (
        NETWORK_POLICY_SPEC,
        "minVersion",
        "The release of Kubernetes whose network policies one must understand to enforce this one, such as 1.8 for \
         rules for outgoing traffic. Left out, it is filled in by what the policy says, and follows it. Set, it must be \
         a version that is known, and what the policy says must need no later one.",
    ),
    (
        NETWORK_POLICY_STATUS,
        "conditions",
        "What is so with the policy, each by its type. `Supported` says whether everything in it can be enforced, \
         `Problem` that something in it is wrong, `Programmed` whether it is in force on all nodes that it concerns, \
         `TargetMatch` and `TrafficMatch` whether it selects any pods, and any traffic of theirs.",
    ),
    (
        CONDITION,
        "lastTransitionTime",
        "When the status of the condition last changed.",
    ),
    (CONDITION, "message", "More about it, for people."),
    (
        CONDITION,
        "observedGeneration",
        "The metadata.generation of the policy that the condition is about. If it is lower than the policy's, the \
         condition is about what the policy said before.",
    ),
    (
        CONDITION,
        "reason",
        "Why the condition has its status, as one word for programs.",
    ),
    (CONDITION, "status", "True, False or Unknown."),
    (CONDITION, "type", "What the condition is about."),
    (
        NODE,
        "agent",
        "Who enforces policies on the node, with its version.",
    ),
    (
        NODE,
        "applied",
        "The policies that select pods of the node, in the generation that is in force.",
    ),
    (
        NODE,
        "bootID",
        "The boot id of the kernel that has the rules, as in status.nodeInfo.bootID of the node. Where the node says \
         another one, it has been started anew, and this counts for nothing.",
    ),
    (
        NODE,
        "problem",
        "Why what is in force is not up to date; absent if it is.",
    ),
    (
        NODE,
        "unimplemented",
        "Features of the versions that are understood which cannot be had on the node.",
    ),
    (
        NODE,
        "versions",
        "The versions of network policies that are understood on the node. A policy with a minVersion that is not \
         among them is ignored there.",
    ),
    (
        APPLIED,
        "generation",
        "The metadata.generation of the policy that is in force.",
    ),
    (APPLIED, "name", "The name of the policy."),
    (APPLIED, "namespace", "The namespace of the policy."),
    (
        APPLIED,
        "uid",
        "The uid of the policy, which tells it from earlier ones of the same name.",
    ),
    (UNIMPLEMENTED, "feature", "The feature, such as SCTP."),
    (
        UNIMPLEMENTED,
        "message",
        "Why it cannot be had, for people.",
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
