//! Deployments, jobs and the other owners of pods; admission configurations; devices.

mod admission;
mod autoscaling;
mod owners;
mod resources;

use super::Fill;

pub(super) const TYPES: &[(&str, Fill)] = &[
    ("io.k8s.api.apps.v1.DaemonSet", owners::daemon_set),
    ("io.k8s.api.apps.v1.Deployment", owners::deployment),
    ("io.k8s.api.apps.v1.ReplicaSet", owners::replica_set),
    ("io.k8s.api.apps.v1.StatefulSet", owners::stateful_set),
    ("io.k8s.api.batch.v1.CronJob", owners::cron_job),
    ("io.k8s.api.batch.v1.Job", owners::job),
    (
        "io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern",
        owners::pod_condition_pattern,
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
        "io.k8s.api.admissionregistration.v1.ExclusionRule",
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
        admission::matching,
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        resources::custom_resource_definition,
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
        resources::flow_schema,
    ),
    (
        "io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration",
        resources::exempt_priority_level,
    ),
    (
        "io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration",
        resources::limited_priority_level,
    ),
    (
        "io.k8s.api.flowcontrol.v1.QueuingConfiguration",
        resources::queuing,
    ),
    (
        "io.k8s.api.resource.v1.ExactDeviceRequest",
        resources::device_request,
    ),
    (
        "io.k8s.api.resource.v1.DeviceSubRequest",
        resources::device_request,
    ),
];
