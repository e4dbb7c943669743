//! The built-in list of critical resources: what every cluster depends on.

use super::config_file::CriticalRuleEntry;
use super::{CriticalResources, CriticalRule};

struct BuiltInRule {
    name: &'static str,
    reason: &'static str,
    group: &'static str,
    resources: &'static [&'static str],
    namespaces: &'static [&'static str],
}

const BUILT_IN_RULES: &[BuiltInRule] = &[
    BuiltInRule {
        name: "leases of nodes and of the control plane",
        reason: "a node whose lease is not renewed loses its pods",
        group: "coordination.k8s.io",
        resources: &["leases"],
        namespaces: &["kube-node-lease", "kube-system"],
    },
    BuiltInRule {
        name: "pods in kube-system",
        reason: "the webhook itself may need them to run",
        group: "",
        resources: &["pods", "pods/binding", "pods/status"],
        namespaces: &["kube-system"],
    },
    BuiltInRule {
        name: "nodes",
        reason: "nodes could neither join nor report their status",
        group: "",
        resources: &["nodes", "nodes/status"],
        namespaces: &[],
    },
    BuiltInRule {
        name: "token reviews",
        reason: "other servers authenticate tokens with them",
        group: "authentication.k8s.io",
        resources: &["tokenreviews"],
        namespaces: &[],
    },
    BuiltInRule {
        name: "access reviews",
        reason: "other servers authorize requests with them",
        group: "authorization.k8s.io",
        resources: &[
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        ],
        namespaces: &[],
    },
    BuiltInRule {
        name: "certificate signing requests",
        reason: "kubelets renew their certificates with them",
        group: "certificates.k8s.io",
        resources: &[
            "certificatesigningrequests",
            "certificatesigningrequests/approval",
            "certificatesigningrequests/status",
        ],
        namespaces: &[],
    },
];

pub(super) fn critical_resources() -> CriticalResources {
    CriticalResources {
        rules: BUILT_IN_RULES
            .iter()
            .map(BuiltInRule::to_critical_rule)
            .collect(),
    }
}

impl BuiltInRule {
    fn to_critical_rule(&self) -> CriticalRule {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        let form = CriticalRuleEntry {
            name: self.name.to_owned(),
            reason: self.reason.to_owned(),
            api_groups: vec![self.group.to_owned()],
            resources: texts(self.resources),
            namespaces: texts(self.namespaces),
            ..CriticalRuleEntry::default()
        };
        form.into_rule(0)
    }
}
