//! What there is to say about types and fields that only rhumb has.

const EXCLUSION_RULE: &str = "io.k8s.api.admissionregistration.v1.ExclusionRule";
const MUTATING_WEBHOOK: &str = "io.k8s.api.admissionregistration.v1.MutatingWebhook";
const VALIDATING_WEBHOOK: &str = "io.k8s.api.admissionregistration.v1.ValidatingWebhook";

const TYPES: &[(&str, &str)] = &[(
    EXCLUSION_RULE,
    "A rule that excludes requests. A request is excluded if it fits everything that the rule says; what is left \
     empty fits every request. A rule that fits all requests is refused.",
)];

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
