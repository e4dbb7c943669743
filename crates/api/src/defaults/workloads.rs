//! Defaults of workload controllers, autoscalers, admission configurations, flow control, CRDs and devices.

mod admission;
mod autoscaling;
mod controllers;
mod resource_types;

use super::DefaultingFn;

pub(super) const DEFAULTERS: &[(&str, DefaultingFn)] = &[
    ("io.k8s.api.apps.v1.DaemonSet", controllers::daemon_set),
    ("io.k8s.api.apps.v1.Deployment", controllers::deployment),
    ("io.k8s.api.apps.v1.ReplicaSet", controllers::replica_set),
    ("io.k8s.api.apps.v1.StatefulSet", controllers::stateful_set),
    ("io.k8s.api.batch.v1.CronJob", controllers::cron_job),
    ("io.k8s.api.batch.v1.Job", controllers::job),
    (
        "io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern",
        controllers::pod_condition_pattern,
    ),
    (
        "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler",
        autoscaling::v1,
    ),
    (
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
        autoscaling::v2,
    ),
    (
        "io.k8s.api.admissionregistration.v1.ValidatingWebhook",
        admission::webhook,
    ),
    (
        "io.k8s.api.admissionregistration.v1.MutatingWebhook",
        admission::mutating_webhook,
    ),
    (
        "io.k8s.api.admissionregistration.v1.RuleWithOperations",
        admission::rule,
    ),
    (
        "io.k8s.api.admissionregistration.v1.NamedRuleWithOperations",
        admission::rule,
    ),
    (
        "io.k8s.api.admissionregistration.v1.ServiceReference",
        admission::service_reference,
    ),
    (
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
        admission::policy,
    ),
    (
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
        admission::policy,
    ),
    (
        "io.k8s.api.admissionregistration.v1.MatchResources",
        admission::policy_match_resources,
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        resource_types::custom_resource_definition,
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference",
        admission::service_reference,
    ),
    (
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference",
        admission::service_reference,
    ),
    (
        "io.k8s.api.flowcontrol.v1.FlowSchema",
        resource_types::flow_schema,
    ),
    (
        "io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration",
        resource_types::exempt_priority_level,
    ),
    (
        "io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration",
        resource_types::limited_priority_level,
    ),
    (
        "io.k8s.api.flowcontrol.v1.QueuingConfiguration",
        resource_types::queuing,
    ),
    (
        "io.k8s.api.resource.v1.ExactDeviceRequest",
        resource_types::device_request,
    ),
    (
        "io.k8s.api.resource.v1.DeviceSubRequest",
        resource_types::device_request,
    ),
];
