//! Nodes, namespaces, pods and policies at the server, and what agents say of them.

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::cluster::{Cluster, until};
use crate::make::object;
use crate::network::NODES;
use crate::wiring::{node_address, pod_address, pod_subnet};

/// A pod as the network and the server know it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Namespace and name. Its label `pod` is the name.
    pub(crate) name: &'static str,
    pub(crate) node: usize,
    /// The host part of its addresses.
    pub(crate) host: u32,
}

/// Namespaces with their labels.
pub(crate) const NAMESPACES: [(&str, &str); 3] = [("x", "red"), ("y", "blue"), ("z", "blue")];

/// Such that there are pairs of one namespace and of two, on one node and on two.
pub(crate) const PODS: [Plan; 7] = [
    plan("x/a", 0, 10),
    plan("x/b", 1, 11),
    plan("x/c", 0, 12),
    plan("y/a", 1, 20),
    plan("y/b", 0, 21),
    plan("z/a", 0, 30),
    plan("z/b", 1, 31),
];

pub(crate) const fn plan(name: &'static str, node: usize, host: u32) -> Plan {
    Plan { name, node, host }
}

impl Cluster {
    pub(crate) async fn create_node(&self, index: usize) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let families = [true, false];
        let subnets = families.map(|is_v4| pod_subnet(index, is_v4));
        let addresses = families.map(|is_v4| {
            let address = node_address(index, is_v4);
            json!({"type": "InternalIP", "address": address})
        });
        let node = object(json!({
            "metadata": {"name": NODES[index]},
            "spec": {"podCIDR": subnets[0], "podCIDRs": subnets},
            "status": {"addresses": addresses},
        }));
        let made = nodes.create(&PostParams::default(), &node).await;
        made.expect("a node");
    }

    pub(crate) async fn create_namespaces(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        for (name, team) in NAMESPACES {
            let labels = json!({"team": team});
            let namespace = object(json!({"metadata": {"name": name, "labels": labels}}));
            let made = namespaces.create(&PostParams::default(), &namespace).await;
            made.expect("a namespace");
        }
    }

    /// All of [`PODS`], in the network and at the server.
    pub(crate) async fn create_pods(&mut self) {
        self.create_namespaces().await;
        for plan in PODS {
            self.create_pod(plan).await;
        }
    }

    pub(crate) async fn create_pod(&mut self, plan: Plan) {
        let Plan { name, node, host } = plan;
        let site = self.network.add_pod(node, name, host).await;
        self.pods.insert(name.to_owned(), site);
        self.announce(plan).await;
    }

    /// The pod's object alone.
    pub(crate) async fn announce(&self, plan: Plan) {
        let (namespace, name) = split(plan.name);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // A name can be another port of another pod.
        let web = if name == "c" { 8080 } else { 80 };
        let ports = json!([
            {"name": "web", "containerPort": web, "protocol": "TCP"},
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "sig", "containerPort": 80, "protocol": "SCTP"},
        ]);
        let pod = object(json!({
            "metadata": {"name": name, "labels": {"pod": name}},
            "spec": {
                "nodeName": NODES[plan.node],
                "containers": [{"name": "c", "image": "i", "ports": ports}],
            },
        }));
        let made = pods.create(&PostParams::default(), &pod).await;
        made.expect("a pod");
        let list = |addresses: [String; 2]| json!(addresses.map(|ip| json!({"ip": ip})));
        let [v4, v6] = [true, false].map(|is_v4| pod_address(plan.node, plan.host, is_v4));
        let [host4, host6] = [true, false].map(|is_v4| node_address(plan.node, is_v4));
        let status = json!({
            "phase": "Running",
            "podIP": v4, "hostIP": host4,
            "podIPs": list([v4.clone(), v6]), "hostIPs": list([host4.clone(), host6]),
        });
        self.patch_pod_status(plan.name, status).await;
    }

    pub(crate) async fn patch_pod_status(&self, name: &str, status: Value) {
        let (namespace, name) = split(name);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let patch = Patch::Merge(json!({"status": status}));
        let patched = pods
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        patched.expect("a status");
    }

    pub(crate) async fn label_pod(&self, name: &str, labels: Value) {
        let (namespace, name) = split(name);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        relabel(&pods, name, labels).await;
    }

    pub(crate) async fn label_namespace(&self, name: &str, labels: Value) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        relabel(&namespaces, name, labels).await;
    }

    /// At once, as a kubelet does once all containers have ended.
    pub(crate) async fn delete_pod(&self, name: &str) {
        let (namespace, name) = split(name);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = DeleteParams::default().grace_period(0);
        pods.delete(name, &params).await.expect("a deletion");
    }

    /// Something that somebody else has to do before the pod can go; or it is done.
    pub(crate) async fn hold_pod(&self, name: &str, is_held: bool) {
        let (namespace, name) = split(name);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let finalizers = if is_held {
            json!(["example.com/hold"])
        } else {
            Value::Null
        };
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        let patched = pods.patch(name, &PatchParams::default(), &patch).await;
        patched.expect("other finalizers");
    }

    pub(crate) async fn delete_namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let deleted = namespaces.delete(name, &DeleteParams::default()).await;
        deleted.expect("a deletion");
    }

    pub(crate) async fn pods_are_gone(&self, namespace: &str, names: &[&str]) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        for name in names {
            until(&format!("the end of {name}"), async || {
                let pod = pods.get_opt(name).await.expect("a read");
                pod.is_none().then_some(())
            })
            .await;
        }
    }

    pub(crate) fn policies(&self, namespace: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("networking.k8s.io", "v1", "NetworkPolicy");
        let kind = ApiResource::from_gvk_with_plural(&kind, "networkpolicies");
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }

    fn reports(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("networking.rhumb.dev", "v1alpha1", "NetworkPolicyNode");
        let kind = ApiResource::from_gvk_with_plural(&kind, "networkpolicynodes");
        Api::all_with(self.client.clone(), &kind)
    }

    /// The policy has the namespace and the name that are given; its spec is YAML.
    pub(crate) async fn create_policy(&self, name: &str, spec: &str) {
        let (namespace, name) = split(name);
        let spec: Value = serde_saphyr::from_str(spec).expect("a spec in YAML");
        let policy = object(json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name},
            "spec": spec,
        }));
        let policies = self.policies(namespace);
        let made = policies.create(&PostParams::default(), &policy).await;
        made.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// A merge patch of its spec.
    pub(crate) async fn change_policy(&self, name: &str, spec: Value) {
        let (namespace, name) = split(name);
        let patch = Patch::Merge(json!({"spec": spec}));
        let policies = self.policies(namespace);
        let patched = policies.patch(name, &PatchParams::default(), &patch).await;
        patched.expect("a change");
    }

    /// Returns when the status says that every node has applied the policy as it is now.
    pub(crate) async fn programmed(&self, name: &str) {
        let what = format!("that {name} is programmed");
        let (namespace, name) = split(name);
        let policies = self.policies(namespace);
        until(&what, async || {
            let policy = policies.get(name).await.expect("a read");
            let generation = policy.metadata.generation;
            let conditions = policy.data["status"]["conditions"].as_array()?.clone();
            let is_programmed = |condition: &Value| {
                condition["type"] == "Programmed"
                    && condition["status"] == "True"
                    && condition["observedGeneration"].as_i64() == generation
            };
            conditions.iter().any(is_programmed).then_some(())
        })
        .await;
    }

    /// Creates a policy and returns when it is in force.
    pub(crate) async fn enforce(&self, name: &str, spec: &str) {
        self.create_policy(name, spec).await;
        self.programmed(name).await;
    }

    /// Returns its uid.
    pub(crate) async fn delete_policy(&self, name: &str) -> String {
        let (namespace, name) = split(name);
        let policies = self.policies(namespace);
        let policy = policies.get(name).await.expect("a policy");
        let deleted = policies.delete(name, &DeleteParams::default()).await;
        deleted.expect("a deletion");
        policy.metadata.uid.expect("a uid")
    }

    /// Returns when no agent has the policy of that uid any more.
    pub(crate) async fn forgotten(&self, uid: &str) {
        for (node, name) in NODES.iter().enumerate() {
            until(&format!("the end of {uid} on {name}"), async || {
                let report = self.report_of(node).await;
                let applied = report.data["applied"].as_array().cloned();
                let has_it = applied.iter().flatten().any(|one| one["uid"] == uid);
                (!has_it).then_some(())
            })
            .await;
        }
    }

    /// Deletes a policy and returns when no agent has it any more.
    pub(crate) async fn lift(&self, name: &str) {
        let uid = self.delete_policy(name).await;
        self.forgotten(&uid).await;
    }

    /// What the agent of a node says, once it does.
    pub(crate) async fn report_of(&self, node: usize) -> DynamicObject {
        let name = NODES[node];
        until(&format!("a report of {name}"), async || {
            let report = self.reports().get_opt(name).await;
            report.expect("a read")
        })
        .await
    }
}

/// A merge patch of labels.
async fn relabel<K>(api: &Api<K>, name: &str, labels: Value)
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    let patched = api.patch(name, &PatchParams::default(), &patch).await;
    patched.expect("other labels");
}

pub(crate) fn split(name: &str) -> (&str, &str) {
    name.split_once('/').expect("a namespace and a name")
}
