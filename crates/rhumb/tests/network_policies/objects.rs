//! Creates nodes, namespaces, pods and policies on the server, and reads the reports of agents.

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::cluster::NetpolTestCluster;
use crate::make::object;
use crate::network::NODES;
use crate::pod_links::{node_address, pod_address, pod_subnet};
use crate::program::poll_until;

/// A pod in the network and on the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestPod {
    /// Namespace and name. The name is also its label `pod`.
    pub(crate) name: &'static str,
    pub(crate) node: usize,
    /// The host part of its addresses.
    pub(crate) host: u32,
}

/// Namespaces with their labels.
pub(crate) const NAMESPACES: [(&str, &str); 3] = [("x", "red"), ("y", "blue"), ("z", "blue")];

/// Includes pairs in one and in two namespaces, on one and on two nodes.
pub(crate) const PODS: [TestPod; 7] = [
    test_pod("x/a", 0, 10),
    test_pod("x/b", 1, 11),
    test_pod("x/c", 0, 12),
    test_pod("y/a", 1, 20),
    test_pod("y/b", 0, 21),
    test_pod("z/a", 0, 30),
    test_pod("z/b", 1, 31),
];

pub(crate) const fn test_pod(name: &'static str, node: usize, host: u32) -> TestPod {
    TestPod { name, node, host }
}

impl NetpolTestCluster {
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

    /// Creates all of [`PODS`], in the network and on the server.
    pub(crate) async fn create_pods(&mut self) {
        self.create_namespaces().await;
        for test_pod in PODS {
            self.create_pod(test_pod).await;
        }
    }

    pub(crate) async fn create_pod(&mut self, test_pod: TestPod) {
        let TestPod { name, node, host } = test_pod;
        let netns = self.network.add_pod(node, name, host).await;
        self.pods.insert(name.to_owned(), netns);
        self.create_pod_object(test_pod).await;
    }

    /// Creates only the object of the pod.
    pub(crate) async fn create_pod_object(&self, test_pod: TestPod) {
        let (namespace, name) = split(test_pod.name);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // A port name can have different numbers in different pods.
        let web = if name == "c" { 8080 } else { 80 };
        let ports = json!([
            {"name": "web", "containerPort": web, "protocol": "TCP"},
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "sig", "containerPort": 80, "protocol": "SCTP"},
        ]);
        let pod = object(json!({
            "metadata": {"name": name, "labels": {"pod": name}},
            "spec": {
                "nodeName": NODES[test_pod.node],
                "containers": [{"name": "c", "image": "i", "ports": ports}],
            },
        }));
        let made = pods.create(&PostParams::default(), &pod).await;
        made.expect("a pod");
        let list = |addresses: [String; 2]| json!(addresses.map(|ip| json!({"ip": ip})));
        let [v4, v6] = [true, false].map(|is_v4| pod_address(test_pod.node, test_pod.host, is_v4));
        let [host4, host6] = [true, false].map(|is_v4| node_address(test_pod.node, is_v4));
        let status = json!({
            "phase": "Running",
            "podIP": v4, "hostIP": host4,
            "podIPs": list([v4.clone(), v6]), "hostIPs": list([host4.clone(), host6]),
        });
        self.patch_pod_status(test_pod.name, status).await;
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

    /// Deletes without grace period, like a kubelet after all containers have terminated.
    pub(crate) async fn delete_pod(&self, name: &str) {
        let (namespace, name) = split(name);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = DeleteParams::default().grace_period(0);
        pods.delete(name, &params).await.expect("a deletion");
    }

    /// Adds or removes a finalizer of the pod.
    pub(crate) async fn set_finalizer(&self, name: &str, has_finalizer: bool) {
        let (namespace, name) = split(name);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let finalizers = if has_finalizer {
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

    pub(crate) async fn wait_for_pod_deletion(&self, namespace: &str, names: &[&str]) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        for name in names {
            poll_until(&format!("the end of {name}"), async || {
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

    /// Creates a policy with the given namespace and name; its spec is YAML.
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

    /// Applies a merge patch to its spec.
    pub(crate) async fn change_policy(&self, name: &str, spec: Value) {
        let (namespace, name) = split(name);
        let patch = Patch::Merge(json!({"spec": spec}));
        let policies = self.policies(namespace);
        let patched = policies.patch(name, &PatchParams::default(), &patch).await;
        patched.expect("a change");
    }

    /// Waits until the status says that every node has applied the current generation.
    pub(crate) async fn wait_until_programmed(&self, name: &str) {
        let what = format!("that {name} is programmed");
        let (namespace, name) = split(name);
        let policies = self.policies(namespace);
        poll_until(&what, async || {
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

    /// Waits until `Programmed` is not true, and returns the reason.
    pub(crate) async fn wait_until_not_programmed(&self, name: &str) -> String {
        let (namespace, name) = split(name);
        let policies = self.policies(namespace);
        poll_until(&format!("that {name} is not programmed"), async || {
            let policy = policies.get(name).await.expect("a read");
            let conditions = policy.data["status"]["conditions"].as_array()?.clone();
            let mut conditions = conditions.into_iter();
            let programmed = conditions.find(|own| own["type"] == "Programmed")?;
            let reason = programmed["reason"].as_str()?.to_owned();
            (programmed["status"] != "True").then_some(reason)
        })
        .await
    }

    /// Creates a policy and waits until it is enforced.
    pub(crate) async fn enforce(&self, name: &str, spec: &str) {
        self.create_policy(name, spec).await;
        self.wait_until_programmed(name).await;
    }

    /// Deletes a policy and returns its UID.
    pub(crate) async fn delete_policy(&self, name: &str) -> String {
        let (namespace, name) = split(name);
        let policies = self.policies(namespace);
        let policy = policies.get(name).await.expect("a policy");
        let deleted = policies.delete(name, &DeleteParams::default()).await;
        deleted.expect("a deletion");
        policy.metadata.uid.expect("a uid")
    }

    /// Waits until no agent reports the policy with that UID.
    pub(crate) async fn wait_until_unreported(&self, uid: &str) {
        for (node, name) in NODES.iter().enumerate() {
            poll_until(&format!("the end of {uid} on {name}"), async || {
                let report = self.report_of(node).await;
                let applied = report.data["applied"].as_array().cloned();
                let has_it = applied.iter().flatten().any(|one| one["uid"] == uid);
                (!has_it).then_some(())
            })
            .await;
        }
    }

    /// Deletes a policy and waits until no agent reports it.
    pub(crate) async fn delete_policy_and_wait(&self, name: &str) {
        let uid = self.delete_policy(name).await;
        self.wait_until_unreported(&uid).await;
    }

    /// The report of a node's agent, once it exists.
    pub(crate) async fn report_of(&self, node: usize) -> DynamicObject {
        let name = NODES[node];
        poll_until(&format!("a report of {name}"), async || {
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
