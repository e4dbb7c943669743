//! What every cluster depends on.

use super::file::Form;
use super::{CriticalResources, CriticalRule};

struct Entry {
    name: &'static str,
    reason: &'static str,
    group: &'static str,
    resources: &'static [&'static str],
    namespaces: &'static [&'static str],
}

const ENTRIES: &[Entry] = &[
    Entry {
        name: "leases of nodes and of the control plane",
        reason: "a node whose lease is not renewed loses its pods",
        group: "coordination.k8s.io",
        resources: &["leases"],
        namespaces: &["kube-node-lease", "kube-system"],
    },
    Entry {
        name: "pods in kube-system",
        reason: "the webhook itself may need them to run",
        group: "",
        resources: &["pods", "pods/binding", "pods/status"],
        namespaces: &["kube-system"],
    },
    Entry {
        name: "nodes",
        reason: "none could join or report",
        group: "",
        resources: &["nodes", "nodes/status"],
        namespaces: &[],
    },
    Entry {
        name: "token reviews",
        reason: "other servers ask them whose a token is",
        group: "authentication.k8s.io",
        resources: &["tokenreviews"],
        namespaces: &[],
    },
    Entry {
        name: "access reviews",
        reason: "other servers ask them who may do what",
        group: "authorization.k8s.io",
        resources: &[
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        ],
        namespaces: &[],
    },
    Entry {
        name: "certificate signing requests",
        reason: "kubelets renew their certificates by them",
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
        rules: ENTRIES.iter().map(Entry::rule).collect(),
    }
}

impl Entry {
    fn rule(&self) -> CriticalRule {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        let form = Form {
            name: self.name.to_owned(),
            reason: self.reason.to_owned(),
            api_groups: vec![self.group.to_owned()],
            resources: texts(self.resources),
            namespaces: texts(self.namespaces),
            ..Form::default()
        };
        form.into_rule(0)
    }
}
