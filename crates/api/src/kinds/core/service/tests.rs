use serde_json::{Value, json};

use super::allocation::{
    self, ClusterIpRequest, IpFamily, NodePortRequest, NodePortTarget, ServiceAllocationError,
    ServiceAllocations,
};
use crate::testing::{check_create, check_status, check_update, kind, patched, update, warnings};
use crate::{FeatureGates, JsonObject};

/// A valid service with the given changes to its specification.
fn service(changes: Value) -> Value {
    let base = json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None", "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}});
    Value::Object(patched(
        base.as_object().expect("an object"),
        json!({"spec": changes}),
    ))
}

fn check(changes: Value, want: &[&str]) {
    check_create(&kind("", "Service"), service(changes), want);
}

#[test]
fn a_plain_service_is_valid() {
    check(json!({}), &[]);
    let node = json!({"type": "NodePort", "externalTrafficPolicy": "Cluster"});
    check(node, &[]);
}

#[test]
fn service_names_are_dns_labels() {
    let named = |name: &str| {
        let mut service = service(json!({}));
        service["metadata"] = json!({"name": name});
        service
    };
    check_create(&kind("", "Service"), named("1a"), &[]);
    let want = "metadata.name: Invalid value: \"a.b\": must not contain dots";
    check_create(&kind("", "Service"), named("a.b"), &[want]);
    let strict = FeatureGates::default().with(
        crate::feature_gates::Feature::RelaxedServiceNameValidation,
        false,
    );
    let (_, errors) = crate::testing::create(&kind("", "Service"), named("1a"), &strict);
    assert_eq!(errors.len(), 1);
}

#[test]
fn service_ports_are_validated() {
    check(json!({"ports": []}), &["spec.ports: Required value"]);
    check(
        json!({"ports": [
            {"name": "a", "port": 80, "protocol": "TCP", "targetPort": "web"},
            {"name": "a", "port": 80, "protocol": "TCP", "targetPort": "WEB"},
            {"port": 0, "protocol": "HTTP", "targetPort": 70000, "nodePort": 30000},
        ]}),
        &[
            "spec.ports[1].name: Duplicate value: \"a\"",
            concat!(
                "spec.ports[1].targetPort: Invalid value: \"WEB\": must contain only alpha-numeric characters ",
                "(a-z, 0-9), and hyphens (-)"
            ),
            "spec.ports[1].targetPort: Invalid value: \"WEB\": must contain at least one letter (a-z)",
            "spec.ports[2].name: Required value",
            "spec.ports[2].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.ports[2].protocol: Unsupported value: \"HTTP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            "spec.ports[2].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            "spec.ports[2].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
            concat!(
                "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,",
                "\"Port\":80,\"TargetPort\":0,\"NodePort\":0}"
            ),
        ],
    );
}

#[test]
fn external_name_forbids_cluster_ip_fields() {
    let name = json!({"type": "ExternalName", "externalName": "example.com.", "clusterIP": null, "ports": null,
        "clusterIPs": null, "ipFamilies": null, "ipFamilyPolicy": null, "internalTrafficPolicy": null});
    check(name, &[]);
    check(
        json!({"type": "ExternalName", "internalTrafficPolicy": null}),
        &[
            "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
            "spec.ipFamilies: Forbidden: may not be set for ExternalName services",
            "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
            "spec.externalName: Required value",
        ],
    );
}

#[test]
fn session_affinity_timeout_is_in_bounds() {
    let with =
        |config: Value| json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": config});
    check(with(json!({"clientIP": {"timeoutSeconds": 86400}})), &[]);
    check(
        with(json!({"clientIP": {"timeoutSeconds": 0}})),
        &[concat!(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less ",
            "than 86400"
        )],
    );
    check(
        with(json!({"clientIP": {}})),
        &[concat!(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Required value: when session affinity type is ",
            "ClientIP"
        )],
    );
    check(
        json!({"sessionAffinity": "Odd"}),
        &[
            "spec.sessionAffinity: Unsupported value: \"Odd\": supported values: \"ClientIP\", \"None\"",
        ],
    );
}

#[test]
fn cluster_ips_match_ip_families() {
    check(
        json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": []}),
        &[],
    );
    check(
        json!({"clusterIPs": ["10.0.0.2"]}),
        &["spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: first value must match `clusterIP`"],
    );
    check(
        json!({"ipFamilies": ["IPv6"]}),
        &[concat!(
            "spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by ",
            "`ipFamilies[0]`"
        )],
    );
    check(
        json!({"clusterIPs": ["10.0.0.1", "10.0.0.2"]}),
        &[concat!(
            "spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"10.0.0.2\"]: may specify no more than one IP for each ",
            "IP family"
        )],
    );
    check(
        json!({"clusterIP": "x", "clusterIPs": ["x"], "ipFamilies": ["IPv5"], "ipFamilyPolicy": "Odd"}),
        &[
            "spec.ipFamilies[0]: Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\"",
            concat!(
                "spec.ipFamilyPolicy: Unsupported value: \"Odd\": supported values: \"PreferDualStack\", ",
                "\"RequireDualStack\", \"SingleStack\""
            ),
            concat!(
                "spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or ",
                "2001:db8::ffff)"
            ),
        ],
    );
}

#[test]
fn traffic_policies_match_the_service_type() {
    check(
        json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 30000, "internalTrafficPolicy": "Odd",
            "trafficDistribution": "Odd", "loadBalancerClass": "a/b", "allocateLoadBalancerNodePorts": true,
            "loadBalancerSourceRanges": ["10.0.0.0/8"]}),
        &[
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
            "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
            "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
            concat!(
                "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible ",
                "services"
            ),
            concat!(
                "spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and ",
                "`externalTrafficPolicy` is 'Local'"
            ),
            "spec.internalTrafficPolicy: Unsupported value: \"Odd\": supported values: \"Cluster\", \"Local\"",
            concat!(
                "spec.trafficDistribution: Unsupported value: \"Odd\": supported values: \"PreferClose\", ",
                "\"PreferSameZone\", \"PreferSameNode\""
            ),
        ],
    );
    check(
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "loadBalancerSourceRanges": [" 10.0.0.0/8 ", "10.0.0.1/8"]}),
        &[
            concat!(
                "spec.LoadBalancerSourceRanges[1]: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the ",
                "prefix length"
            ),
            "allocateLoadBalancerNodePorts: Required value",
            "spec.healthCheckNodePort: Required value",
        ],
    );
}

#[test]
fn primary_cluster_ip_is_immutable() {
    let dual = json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"],
        "ipFamilyPolicy": "PreferDualStack"});
    check_update(
        &kind("", "Service"),
        service(json!({})),
        json!({"spec": dual.clone()}),
        &[],
    );
    check_update(
        &kind("", "Service"),
        service(json!({})),
        json!({"spec": {"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]}}),
        &["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"],
    );
    check_update(
        &kind("", "Service"),
        service(dual),
        json!({"spec": {"clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}}),
        &[
            concat!(
                "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing ",
                "the secondary clusterIP"
            ),
            concat!(
                "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing ",
                "the secondary ipFamily"
            ),
        ],
    );
}

#[test]
fn type_change_drops_fields_of_the_old_type() {
    let old = service(
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "a/b",
        "healthCheckNodePort": 30001, "allocateLoadBalancerNodePorts": true,
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30000}]}),
    );
    let patch = json!({"spec": {"type": "ClusterIP"}});
    let (made, errors) = update(&kind("", "Service"), old.clone(), patch);
    assert!(errors.is_empty(), "{errors}");
    assert_eq!(Value::Object(made)["spec"], service(json!({}))["spec"]);
    let patch = json!({"spec": {"type": "ExternalName", "externalName": "a.b", "internalTrafficPolicy": null}});
    let (made, errors) = update(&kind("", "Service"), old, patch);
    assert!(errors.is_empty(), "{errors}");
    assert_eq!(made["spec"].get("clusterIPs"), None);
}

#[test]
fn load_balancer_status_is_validated() {
    let balancer = service(json!({"type": "LoadBalancer"}));
    check_status(
        &kind("", "Service"),
        balancer,
        json!({"status": {"loadBalancer": {"ingress": [
            {"ip": "10.0.0.1", "ipMode": "VIP"}, {"ip": "10.0.0.1"}, {"ipMode": "VIP", "hostname": "1.2.3.4"},
        ]}}}),
        &[
            "status.loadBalancer.ingress[1].ipMode: Required value: must be specified when `ip` is set",
            "status.loadBalancer.ingress[2].ipMode: Forbidden: may not be specified when `ip` is not set",
            concat!(
                "status.loadBalancer.ingress[2].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP ",
                "address"
            ),
        ],
    );
    check_status(
        &kind("", "Service"),
        service(json!({})),
        json!({"status": {"loadBalancer": {"ingress": [{}]}}}),
        &[
            "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'",
        ],
    );
}

#[test]
fn ignored_fields_cause_a_warning() {
    let odd = service(json!({"externalIPs": ["192.0.2.1"], "externalName": "a"}));
    assert_eq!(
        warnings(&kind("", "Service"), odd),
        [
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ]
    );
}

fn object(spec: Value) -> JsonObject {
    json!({"spec": spec})
        .as_object()
        .expect("an object")
        .clone()
}

#[test]
fn new_service_requests_cluster_ips_and_node_ports() {
    let mut service = object(json!({"type": "NodePort", "ports": [
        {"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}, {"port": 80, "nodePort": 30080}]}));
    allocation::patch_allocated_values(&mut service, None);
    allocation::default_ip_families(&mut service, None, &[IpFamily::IPv4]).expect("fits");
    let needs = allocation::allocation_requests(&service, None);
    let address = ClusterIpRequest {
        index: 0,
        family: IpFamily::IPv4,
        requested: None,
    };
    assert_eq!(needs.addresses, std::slice::from_ref(&address));
    let port = |indexes: &[usize], wanted| NodePortRequest {
        target: NodePortTarget::Ports(indexes.to_vec()),
        requested: wanted,
    };
    assert_eq!(needs.ports, [port(&[0, 1], None), port(&[2], Some(30080))]);
    allocation::assign_cluster_ip(
        &mut service,
        &address,
        "10.0.0.7".parse().expect("an address"),
    );
    allocation::assign_node_port(&mut service, &needs.ports[0], 30053);
    let want = json!({"type": "NodePort", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [
        {"port": 53, "protocol": "UDP", "nodePort": 30053}, {"port": 53, "protocol": "TCP", "nodePort": 30053},
        {"port": 80, "nodePort": 30080}]});
    assert_eq!(service["spec"], want);
    let held = allocation::allocations_of(&service);
    assert_eq!(held.ports, [30053, 30080].into());
    assert_eq!(
        allocation::released_allocations(&service, Some(&service)),
        ServiceAllocations::default()
    );
    assert_eq!(allocation::released_allocations(&service, None), held);
}

#[test]
fn ip_families_default_from_the_cluster_and_the_policy() {
    let both = [IpFamily::IPv6, IpFamily::IPv4];
    let table = [
        (json!({}), &both[..1], json!(["IPv6"]), "SingleStack"),
        (
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            &both[..1],
            json!(["IPv6"]),
            "PreferDualStack",
        ),
        (
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            &both[..],
            json!(["IPv6", "IPv4"]),
            "PreferDualStack",
        ),
        (
            json!({"clusterIP": "10.0.0.1"}),
            &both[..],
            json!(["IPv4"]),
            "SingleStack",
        ),
        (
            json!({"clusterIP": "None"}),
            &both[..1],
            json!(["IPv6", "IPv4"]),
            "RequireDualStack",
        ),
        (
            json!({"clusterIP": "None", "selector": {"a": "b"}}),
            &both[..1],
            json!(["IPv6"]),
            "SingleStack",
        ),
    ];
    for (spec, configured, families, policy) in table {
        let mut service = object(spec);
        allocation::patch_allocated_values(&mut service, None);
        allocation::default_ip_families(&mut service, None, configured).expect("fits");
        assert_eq!(service["spec"]["ipFamilies"], families, "{service:?}");
        assert_eq!(service["spec"]["ipFamilyPolicy"], policy, "{service:?}");
    }
    let refused = [
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            concat!(
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for ",
                "dual-stack services"
            ),
        ),
        (
            json!({"ipFamilies": ["IPv4"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv4\": not configured on this cluster",
        ),
        (
            json!({"clusterIP": "10.0.0.1"}),
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.1\"]: IPv4 is not configured on this cluster",
        ),
        (
            json!({"ipFamilies": ["IPv6", "IPv4"]}),
            concat!(
                "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or ",
                "'PreferDualStack' when multiple IP families are specified"
            ),
        ),
    ];
    for (spec, want) in refused {
        let mut service = object(spec);
        allocation::patch_allocated_values(&mut service, None);
        let errors =
            allocation::default_ip_families(&mut service, None, &both[..1]).expect_err(want);
        assert_eq!(errors.to_string(), want);
    }
}

#[test]
fn update_keeps_allocated_values_omitted_by_the_client() {
    let old = object(
        json!({"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "a", "port": 80, "nodePort": 30000}]}),
    );
    let mut new = object(
        json!({"type": "NodePort", "ports": [{"name": "a", "port": 81}, {"name": "b", "port": 82}]}),
    );
    allocation::patch_allocated_values(&mut new, Some(&old));
    allocation::default_ip_families(&mut new, Some(&old), &[IpFamily::IPv4]).expect("fits");
    assert_eq!(new["spec"]["clusterIPs"], json!(["10.0.0.1"]));
    assert_eq!(new["spec"]["ports"][0]["nodePort"], 30000);
    let needs = allocation::allocation_requests(&new, Some(&old));
    assert_eq!(needs.addresses, []);
    let slots: Vec<NodePortTarget> = needs.ports.into_iter().map(|need| need.target).collect();
    assert_eq!(slots, [NodePortTarget::Ports(vec![1])]);
}

#[test]
fn allocation_errors_have_upstreams_texts() {
    let service = object(json!({"clusterIPs": ["10.0.0.1"]}));
    let need = ClusterIpRequest {
        index: 0,
        family: IpFamily::IPv4,
        requested: "10.0.0.1".parse().ok(),
    };
    assert_eq!(
        allocation::cluster_ip_error(&service, &need, &ServiceAllocationError::IpAllocated)
            .to_string(),
        concat!(
            "spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: failed to allocate IP 10.0.0.1: provided IP is already ",
            "allocated"
        )
    );
    let need = NodePortRequest {
        target: NodePortTarget::Ports(vec![1]),
        requested: Some(80),
    };
    let outside = ServiceAllocationError::PortNotInRange(allocation::NodePortRange::DEFAULT);
    assert_eq!(
        allocation::node_port_error(&need, &outside).to_string(),
        concat!(
            "spec.ports[1].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ",
            "ports is 30000-32767"
        )
    );
}
