//! Random objects for the quota evaluators, reproducible by seed.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{EvaluatorQuery, scopes};

const RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "hugepages-2Mi",
    "hugepages-a.example/b",
    "example.com/gpu",
    "deviceclass.resource.kubernetes.io/gpu",
    "storage",
    "kubernetes.io/other",
    "requests.example.com/gpu",
];

/// Resource names that quotas limit: of all evaluators, and some that no evaluator covers.
const LIMITED: &[&str] = &[
    "pods",
    "count/pods",
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "hugepages-2Mi",
    "requests.hugepages-2Mi",
    "requests.example.com/gpu",
    "example.com/gpu",
    "requests.deviceclass.resource.kubernetes.io/gpu",
    "services",
    "services.nodeports",
    "services.loadbalancers",
    "requests.storage",
    "persistentvolumeclaims",
    "gold.storageclass.storage.k8s.io/requests.storage",
    "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
    "gold.storageclass.storage.k8s.io/other",
    "count/resourceclaims.resource.k8s.io",
    "gpu.deviceclass.resource.k8s.io/devices",
    "count/jobs.batch",
];

const KINDS: &[&str] = &[
    "pods",
    "pods",
    "pods",
    "services",
    "persistentvolumeclaims",
    "resourceclaims",
    "namespaces",
];

const POD_NAMES: &[&str] = &["p", "r"];
const CLASSES: &[&str] = &["", "gold", "iron", "tin"];
const CONTAINERS: &[&str] = &["a", "b", "c"];

/// Generates random pods, services and claims from a seed.
#[derive(Debug)]
pub(crate) struct ObjectGenerator {
    rng: fastrand::Rng,
}

impl ObjectGenerator {
    pub(crate) fn new(seed: u64) -> ObjectGenerator {
        ObjectGenerator {
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.rng.usize(..limit)
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len())]
    }

    fn choose(&mut self, mut from: Vec<Value>) -> Value {
        let at = self.below(from.len());
        from.swap_remove(at)
    }

    pub(crate) fn query(&mut self) -> EvaluatorQuery {
        let resource = self.pick(KINDS);
        let object = self.object(resource);
        EvaluatorQuery {
            resource: resource.to_owned(),
            old: (self.below(2) == 0).then(|| self.object(resource)),
            object,
            subresource: match resource {
                "pods" => self.pick(&["", "", "status", "resize"]),
                _ => "",
            }
            .to_owned(),
            scopes: scopes(),
            names: self.names(),
        }
    }

    fn names(&mut self) -> Vec<String> {
        let names: BTreeSet<&str> = (0..self.below(6)).map(|_| self.pick(LIMITED)).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn object(&mut self, resource: &str) -> Value {
        match resource {
            "pods" => self.pod(),
            "services" => self.service(),
            "persistentvolumeclaims" => self.volume_claim(),
            "resourceclaims" => self.resource_claim(),
            _ => self.namespace(),
        }
    }

    /// A field that is absent half of the time, and sometimes null.
    fn maybe(&mut self, make: impl FnOnce(&mut ObjectGenerator) -> Value) -> Option<Value> {
        match self.below(8) {
            0..4 => None,
            4 => Some(Value::Null),
            _ => Some(make(self)),
        }
    }

    fn list(&mut self, mut make: impl FnMut(&mut ObjectGenerator) -> Value) -> Value {
        (0..self.below(4)).map(|_| make(self)).collect()
    }

    fn amount(&mut self) -> Value {
        let text = [
            "0",
            "1",
            "2",
            "100m",
            "250m",
            "1500m",
            "0.5",
            "1.5Gi",
            "1Gi",
            "2Mi",
            "512Mi",
            "1024",
            "1000",
            "1G",
            "1e3",
            "12e-1",
            "1E2",
            "1Ki",
            "0.1Ki",
            "7n",
            "0.3n",
            "3u",
            "-1",
            "-500m",
            "+2",
            "1000m",
            "1048576Ki",
            "10P",
            "9223372036854775807",
            "0Gi",
            "1.0",
            ".5",
            "100000000000000000000",
        ];
        match self.below(8) {
            0 => self.choose(vec![
                json!(0),
                json!(3),
                json!(-2),
                json!(1.5),
                json!(1000),
                Value::Null,
            ]),
            _ => json!(self.pick(&text)),
        }
    }

    fn amounts(&mut self) -> Value {
        let entries = (0..self.below(5)).map(|_| {
            let name = match self.below(2) {
                0 => self.pick(&["cpu", "memory"]),
                _ => self.pick(RESOURCES),
            };
            (name.to_owned(), self.amount())
        });
        Value::Object(entries.collect())
    }

    fn requirements(&mut self) -> Value {
        let requests = self.maybe(ObjectGenerator::amounts);
        let limits = self.maybe(ObjectGenerator::amounts);
        object([("requests", requests), ("limits", limits)])
    }

    fn container(&mut self) -> Value {
        let name = self.pick(CONTAINERS);
        let resources = match self.below(4) {
            0 => None,
            _ => Some(self.requirements()),
        };
        let policy = self.maybe(|random| json!(random.pick(&["Always", "Always", "Never"])));
        object([
            ("name", Some(json!(name))),
            ("image", Some(json!("an\u{e9}\n"))),
            ("resources", resources),
            ("restartPolicy", policy),
        ])
    }

    fn container_status(&mut self) -> Value {
        let name = self.pick(CONTAINERS);
        let resources = self.maybe(ObjectGenerator::requirements);
        let allocated = self.maybe(ObjectGenerator::amounts);
        object([
            ("name", Some(json!(name))),
            ("resources", resources),
            ("allocatedResources", allocated),
        ])
    }

    fn pod(&mut self) -> Value {
        let deletion = self.maybe(|_| json!("2026-01-02T03:04:05Z"));
        let grace = self.maybe(|random| json!(random.below(100)));
        let metadata = object([
            ("labels", Some(json!({"a": "b"}))),
            ("deletionTimestamp", deletion),
            ("deletionGracePeriodSeconds", grace),
        ]);
        json!({"metadata": metadata, "spec": self.pod_spec(), "status": self.pod_status()})
    }

    fn pod_spec(&mut self) -> Value {
        let containers = self.list(ObjectGenerator::container);
        let init_containers = self.maybe(|random| random.list(ObjectGenerator::container));
        let resources = match self.below(2) {
            0 => None,
            _ => self.maybe(ObjectGenerator::requirements),
        };
        let overhead = self.maybe(ObjectGenerator::amounts);
        let deadline = self.maybe(|random| random.choose(vec![json!(0), json!(5), json!(-1)]));
        let priority = self.maybe(|random| json!(random.pick(CLASSES)));
        let affinity = self.maybe(ObjectGenerator::affinity);
        object([
            ("containers", Some(containers)),
            ("initContainers", init_containers),
            ("resources", resources),
            ("overhead", overhead),
            ("activeDeadlineSeconds", deadline),
            ("priorityClassName", priority),
            ("affinity", affinity),
            ("nodeName", Some(json!("n"))),
        ])
    }

    fn affinity(&mut self) -> Value {
        let near = self.maybe(ObjectGenerator::terms);
        let far = self.maybe(ObjectGenerator::terms);
        object([("podAffinity", near), ("podAntiAffinity", far)])
    }

    fn terms(&mut self) -> Value {
        let required = self.maybe(|random| random.list(ObjectGenerator::term));
        let preferred = self.maybe(|random| {
            random.list(|random| json!({"weight": 1, "podAffinityTerm": random.term()}))
        });
        object([
            ("requiredDuringSchedulingIgnoredDuringExecution", required),
            ("preferredDuringSchedulingIgnoredDuringExecution", preferred),
        ])
    }

    fn term(&mut self) -> Value {
        let namespaces = match self.below(4) {
            0 => Some(json!(["x"])),
            1 => Some(json!([])),
            _ => None,
        };
        let selector = match self.below(4) {
            0 => Some(json!({})),
            1 => Some(Value::Null),
            _ => None,
        };
        object([
            ("topologyKey", Some(json!("zone"))),
            ("namespaces", namespaces),
            ("namespaceSelector", selector),
        ])
    }

    fn pod_status(&mut self) -> Value {
        let phase = self.pick(&[
            "",
            "Pending",
            "Running",
            "Running",
            "Running",
            "Failed",
            "Succeeded",
        ]);
        let class = self.maybe(|random| json!(random.pick(&["", "BestEffort", "Burstable"])));
        let conditions = self.maybe(|random| {
            random.list(|random| {
                let kind = random.pick(&["PodResizePending", "PodResizePending", "Ready"]);
                json!({"type": kind, "status": "True", "reason": random.pick(&["Infeasible", "Deferred"])})
            })
        });
        let statuses = self.maybe(|random| random.list(ObjectGenerator::container_status));
        let init_statuses = self.maybe(|random| random.list(ObjectGenerator::container_status));
        object([
            ("phase", Some(json!(phase))),
            ("qosClass", class),
            ("conditions", conditions),
            ("containerStatuses", statuses),
            ("initContainerStatuses", init_statuses),
        ])
    }

    fn service(&mut self) -> Value {
        let kind = self.pick(&[
            "",
            "ClusterIP",
            "NodePort",
            "LoadBalancer",
            "LoadBalancer",
            "ExternalName",
        ]);
        let allocate = self.maybe(|random| json!(random.below(2) == 0));
        let ports = self.maybe(|random| {
            random.list(|random| {
                let node_port = random.maybe(|random| json!(random.below(2) * 30_000));
                object([("port", Some(json!(80))), ("nodePort", node_port)])
            })
        });
        json!({"spec": object([
            ("type", Some(json!(kind))),
            ("ports", ports),
            ("allocateLoadBalancerNodePorts", allocate),
        ])})
    }

    fn volume_claim(&mut self) -> Value {
        let class =
            |random: &mut ObjectGenerator| random.maybe(|random| json!(random.pick(CLASSES)));
        let (annotated, named) = (class(self), class(self));
        let (wanted, current, target) = (class(self), class(self), class(self));
        let annotation = ("volume.beta.kubernetes.io/storage-class", annotated);
        let annotated = object([annotation, ("other", Some(json!("x")))]);
        let resources = self.maybe(|random| json!({"requests": {"storage": random.amount()}}));
        let allocated = self.maybe(|random| json!({"storage": random.amount(), "other": "1"}));
        let modified = self.maybe(|_| object([("targetVolumeAttributesClassName", target)]));
        json!({
            "metadata": {"annotations": annotated},
            "spec": object([
                ("storageClassName", named),
                ("volumeAttributesClassName", wanted),
                ("resources", resources),
            ]),
            "status": object([
                ("allocatedResources", allocated),
                ("currentVolumeAttributesClassName", current),
                ("modifyVolumeStatus", modified),
            ]),
        })
    }

    fn resource_claim(&mut self) -> Value {
        let requests = self.maybe(|random| {
            random.list(|random| {
                let exactly = random.maybe(ObjectGenerator::device_sub_request);
                let alternatives =
                    random.maybe(|random| random.list(ObjectGenerator::device_sub_request));
                object([
                    ("name", Some(json!("r"))),
                    ("exactly", exactly),
                    ("firstAvailable", alternatives),
                ])
            })
        });
        json!({"spec": {"devices": object([("requests", requests)])}})
    }

    /// Pods and claims, some of which were generated for the extended resources of the pods.
    fn namespace(&mut self) -> Value {
        let pods: Vec<Value> = POD_NAMES.iter().map(|name| self.device_pod(name)).collect();
        let claims: Vec<Value> = (0..self.below(5))
            .map(|number| self.pod_claim(number))
            .collect();
        json!({"pods": pods, "claims": claims})
    }

    fn device_pod(&mut self, name: &str) -> Value {
        let resource = self.pick(&[
            "example.com/gpu",
            "deviceclass.resource.kubernetes.io/gpu",
            "example.com/other",
            "cpu",
        ]);
        let requests = json!({resource: self.below(4).to_string()});
        let claim =
            self.maybe(|random| json!({"resourceClaimName": format!("c{}", random.below(5))}));
        let phase = self.pick(&["Pending", "Running", "Running", "Failed"]);
        json!({
            "metadata": {"name": name, "namespace": "ns", "uid": format!("{name}{}", self.below(2))},
            "spec": {"containers": [{"name": "a", "resources": {"requests": requests}}]},
            "status": object([("phase", Some(json!(phase))), ("extendedResourceClaimStatus", claim)]),
        })
    }

    fn pod_claim(&mut self, number: usize) -> Value {
        let mut claim = self.resource_claim();
        let pod = self.pick(POD_NAMES);
        let owner = json!({
            "apiVersion": self.pick(&["v1", "v1", "v1", "v2"]),
            "kind": self.pick(&["Pod", "Pod", "Pod", "Job"]),
            "name": pod, "uid": format!("{pod}{}", self.below(2)),
            "controller": self.below(4) > 0,
        });
        let other = json!({"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "q"});
        let annotation = self.pick(&["true", "true", "true", "false"]);
        claim["metadata"] = json!({
            "name": format!("c{number}"), "namespace": "ns",
            "creationTimestamp": format!("2026-01-01T00:00:0{}Z", self.below(3)),
            "annotations": {"resource.kubernetes.io/extended-resource-claim": annotation},
            "ownerReferences": [other, owner],
        });
        claim
    }

    fn device_sub_request(&mut self) -> Value {
        let mode = self.pick(&["", "ExactCount", "ExactCount", "All", "Other"]);
        let class = self.pick(&["gpu", "net", "gpu.example.com"]);
        json!({"deviceClassName": class, "allocationMode": mode, "count": self.below(4)})
    }
}

fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let fields = fields.into_iter();
    let fields = fields.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(fields.collect::<Map<_, _>>())
}
