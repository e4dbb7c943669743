//! Incrementally tracked usage equals usage computed from scratch; reservations are counted until released.

mod claims;

use rhumb_api::JsonObject;
use rhumb_meta::{Quantity, Timestamp};
use serde_json::{Value, json};

use super::{NamespaceUsage, QuotaVerdict, UsageRequest};
use crate::{Evaluator, LimitedResource, ObjectUsage, ResourceQuota, ScopeRequirement};

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is not a JSON object"),
    }
}

fn quota(name: &str, spec: Value) -> ResourceQuota {
    ResourceQuota::parse(&object(json!({"metadata": {"name": name}, "spec": spec})))
}

fn evaluator(group: &str, plural: &str) -> Evaluator {
    Evaluator::for_resource(group, plural).expect("resource has an evaluator")
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(seconds, 0)
}

fn pod(cpu: &str, more: Value) -> JsonObject {
    let mut pod = json!({"spec": {"containers": [
        {"name": "a", "resources": {"requests": {"cpu": cpu}}},
    ]}});
    for (field, value) in object(more) {
        match &mut pod[&field] {
            Value::Object(old) => old.extend(object(value)),
            other => *other = value,
        }
    }
    object(pod)
}

fn check(
    usage: &NamespaceUsage,
    plural: &str,
    new: &JsonObject,
    old: Option<&JsonObject>,
    limited: &[LimitedResource],
) -> QuotaVerdict {
    let evaluator = evaluator("", plural);
    let old = old.map(|old| evaluator.usage(old));
    usage.check(
        &UsageRequest {
            group: "",
            resource: plural,
            evaluator: &evaluator,
            new_usage: &evaluator.usage(new),
            old_usage: old.as_ref(),
            object: new,
        },
        limited,
    )
}

fn denial_text(verdict: QuotaVerdict) -> String {
    match verdict {
        QuotaVerdict::Denied(denial_text) => denial_text.to_string(),
        other => format!("{other:?}"),
    }
}

fn random_pod(rng: &mut fastrand::Rng) -> JsonObject {
    let mut more = json!({});
    if rng.u64(..3) == 0 {
        more = json!({"spec": {"activeDeadlineSeconds": 5}});
    }
    if rng.u64(..3) == 0 {
        more["spec"]["priorityClassName"] = json!(["gold", "iron"][rng.u64(..2) as usize]);
    }
    if rng.u64(..4) == 0 {
        more["spec"]["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"namespaceSelector": {}}],
        }});
    }
    if rng.u64(..5) == 0 {
        more["status"] = json!({"phase": "Succeeded"});
    }
    if rng.u64(..5) == 0 {
        let ends = at(rng.u64(..60) as i64).rfc3339().to_string();
        more["metadata"] =
            json!({"deletionTimestamp": ends, "deletionGracePeriodSeconds": rng.u64(..9)});
    }
    pod(&format!("{}m", rng.u64(..900) + 1), more)
}

fn quotas() -> Vec<ResourceQuota> {
    let scoped = |scope: Value| {
        json!({"hard": {"pods": "1", "requests.cpu": "1"}, "scopeSelector": {
            "matchExpressions": [scope],
        }})
    };
    vec![
        quota(
            "all",
            json!({"hard": {"pods": "1", "count/pods": "1", "cpu": "1"}}),
        ),
        quota("same", json!({"hard": {"pods": "9"}})),
        quota(
            "ends",
            json!({"hard": {"pods": "1"}, "scopes": ["Terminating"]}),
        ),
        quota(
            "stays",
            json!({"hard": {"requests.cpu": "1"}, "scopes": ["NotTerminating"]}),
        ),
        quota(
            "gold",
            scoped(json!({"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]})),
        ),
        quota(
            "far",
            scoped(json!({"scopeName": "CrossNamespaceAffinity"})),
        ),
        quota(
            "odd",
            json!({"hard": {"example.com/nobody-counts-this": "1", "services": "1"}}),
        ),
    ]
}

/// Usage of a quota, computed from scratch over all objects.
fn recompute_usage(
    quota: &ResourceQuota,
    pods: &[(String, ObjectUsage)],
    now: Timestamp,
) -> Vec<(String, Quantity)> {
    let evaluators = [evaluator("", "pods"), evaluator("", "services")];
    let counted = quota
        .hard
        .names()
        .filter(|name| evaluators.iter().any(|evaluator| evaluator.covers(name)));
    counted
        .map(|name| {
            let mut sum = Quantity::ZERO;
            for (_, pod_usage) in pods {
                let has_lapsed = pod_usage.lapses_at.is_some_and(|lapses| lapses < now);
                let amounts = if has_lapsed {
                    &pod_usage.after_lapse
                } else {
                    &pod_usage.quantities
                };
                if quota
                    .scopes
                    .iter()
                    .all(|scope| scope.matches(&pod_usage.scope_attributes))
                {
                    sum.add(amounts.get(name).unwrap_or(&Quantity::ZERO));
                }
            }
            (name.to_owned(), sum)
        })
        .collect()
}

#[test]
fn usage_equals_the_sum_over_objects_after_random_changes() {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut usage = NamespaceUsage::new(
        quotas(),
        vec![evaluator("", "pods"), evaluator("", "services")],
    );
    let mut pods: Vec<(String, ObjectUsage)> = Vec::new();
    for step in 0..4000_i64 {
        let name = format!("p{}", rng.u64(..40));
        pods.retain(|(known, _)| *known != name);
        let pod_usage =
            (rng.u64(..3) > 0).then(|| evaluator("", "pods").usage(&random_pod(&mut rng)));
        usage.set_object(0, &name, pod_usage.clone());
        pods.extend(pod_usage.map(|pod_usage| (name, pod_usage)));
        let now = at(step / 50);
        usage.advance_time(now);
        if step == 2000 {
            usage.clear_resource(0);
            for (name, pod_usage) in &pods {
                usage.set_object(0, name, Some(pod_usage.clone()));
            }
            usage.advance_time(now);
        }
        for (index, quota) in quotas().iter().enumerate() {
            let used: Vec<(String, Quantity)> = usage
                .used(index)
                .iter()
                .map(|(name, amount)| (name.to_string(), amount.clone()))
                .collect();
            assert_eq!(
                used,
                recompute_usage(quota, &pods, now),
                "{} at step {step}",
                quota.name
            );
        }
    }
}

#[test]
fn reservations_make_requests_wait_and_usage_denies_them() {
    let mut usage = NamespaceUsage::new(
        vec![quota("q", json!({"hard": {"pods": "2"}}))],
        vec![evaluator("", "pods")],
    );
    let one = pod("1", json!({}));
    let pod_usage = evaluator("", "pods").usage(&one);
    let request = |usage: &NamespaceUsage| check(usage, "pods", &one, None, &[]);
    assert_eq!(request(&usage), QuotaVerdict::Fits);
    let first = usage.reserve(pod_usage.clone(), None, Some("u1"));
    let second = usage.reserve(pod_usage.clone(), None, Some("u2"));
    assert_eq!(request(&usage), QuotaVerdict::Wait);
    // The second write failed.
    usage.release(second);
    assert_eq!(request(&usage), QuotaVerdict::Fits);
    // The cache shows the first object: its reservation becomes usage.
    assert!(usage.awaits_new_objects());
    usage.release_new_object("u1");
    usage.set_object(0, "first", Some(pod_usage.clone()));
    usage.release(first);
    assert!(!usage.awaits_new_objects());
    assert_eq!(request(&usage), QuotaVerdict::Fits);
    let third = usage.reserve(pod_usage.clone(), None, Some("u3"));
    assert_eq!(request(&usage), QuotaVerdict::Wait);
    // Unknown outcome: the reservation counts until it expires.
    usage.expire_at(third, at(100));
    usage.advance_time(at(100));
    assert_eq!(request(&usage), QuotaVerdict::Wait);
    usage.advance_time(at(101));
    assert_eq!(request(&usage), QuotaVerdict::Fits);
    usage.set_object(0, "second", Some(pod_usage));
    assert_eq!(
        denial_text(request(&usage)),
        "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    );
}

#[test]
fn rebuilt_usage_keeps_reservations() {
    let pods = || vec![evaluator("", "pods")];
    let mut usage = NamespaceUsage::new(vec![quota("q", json!({"hard": {"pods": "2"}}))], pods());
    let pod_usage = evaluator("", "pods").usage(&pod("300m", json!({})));
    let id = usage.reserve(pod_usage, None, Some("u"));
    let other = quota("other", json!({"hard": {"requests.cpu": "500m"}}));
    let mut usage = NamespaceUsage::new(vec![other], pods()).with_reservations_of(usage);
    let request = |usage: &NamespaceUsage| check(usage, "pods", &pod("300m", json!({})), None, &[]);
    assert_eq!(request(&usage), QuotaVerdict::Wait);
    usage.release(id);
    assert_eq!(request(&usage), QuotaVerdict::Fits);
}

#[test]
fn an_update_requests_only_the_increase() {
    let quotas = vec![
        quota("all", json!({"hard": {"requests.cpu": "1"}})),
        quota(
            "ends",
            json!({"hard": {"requests.cpu": "500m"}, "scopes": ["Terminating"]}),
        ),
    ];
    let mut usage = NamespaceUsage::new(quotas, vec![evaluator("", "pods")]);
    let unlimited = pod("600m", json!({}));
    usage.set_object(0, "p", Some(evaluator("", "pods").usage(&unlimited)));
    let table = [
        (pod("600m", json!({})), "Free"),
        (pod("500m", json!({})), "Free"),
        (pod("1", json!({})), "Fits"),
        (
            pod("1001m", json!({})),
            "exceeded quota: all, requested: requests.cpu=401m, used: requests.cpu=600m, limited: requests.cpu=1",
        ),
        // The deadline moves it into the scope of another quota, which counts all of its usage.
        (
            pod("600m", json!({"spec": {"activeDeadlineSeconds": 1}})),
            "exceeded quota: ends, requested: requests.cpu=600m, used: requests.cpu=0, limited: requests.cpu=500m",
        ),
    ];
    for (new, want) in table {
        assert_eq!(
            denial_text(check(&usage, "pods", &new, Some(&unlimited), &[])),
            want
        );
    }
}

#[test]
fn limited_resources_need_a_covering_quota() {
    let limited = |contains: &[&str], scopes: &[&str]| {
        vec![LimitedResource {
            group: String::new(),
            resource: "pods".to_owned(),
            match_contains: contains.iter().map(|&text| text.to_owned()).collect(),
            match_scopes: scopes
                .iter()
                .map(|scope| ScopeRequirement::exists(scope))
                .collect(),
        }]
    };
    let plain = pod("1", json!({}));
    let far = pod(
        "1",
        json!({"spec": {"affinity": {"podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"namespaces": ["other"], "topologyKey": "zone"}},
            ],
        }}}}),
    );
    let scope = |name: &str| json!({"hard": {"pods": "1"}, "scopes": [name]});
    let table = [
        (
            &plain,
            limited(&["cpu"], &[]),
            json!({"hard": {"pods": "1"}}),
            "insufficient quota to consume: cpu,requests.cpu",
        ),
        (
            &plain,
            limited(&["requests.c"], &[]),
            json!({"hard": {"requests.cpu": "1"}}),
            "Fits",
        ),
        (
            &plain,
            limited(&["memory"], &[]),
            json!({"hard": {"pods": "1"}}),
            "Fits",
        ),
        (
            &plain,
            limited(&[], &["CrossNamespaceAffinity"]),
            json!({"hard": {"services": "1"}}),
            "Free",
        ),
        (
            &far,
            limited(&[], &["CrossNamespaceAffinity"]),
            json!({"hard": {"pods": "1"}}),
            "insufficient quota to match these scopes: [{CrossNamespaceAffinity Exists []}]",
        ),
        // Both names denote the same scope.
        (
            &far,
            limited(&[], &["CrossNamespaceAffinity"]),
            scope("CrossNamespacePodAffinity"),
            "Fits",
        ),
        (
            &far,
            limited(&[], &["CrossNamespacePodAffinity"]),
            scope("CrossNamespaceAffinity"),
            "Fits",
        ),
        (
            &far,
            limited(&[], &["CrossNamespacePodAffinity"]),
            scope("NotTerminating"),
            "insufficient quota to match these scopes: [{CrossNamespacePodAffinity Exists []}]",
        ),
    ];
    for (pod, limited, spec, want) in table {
        let usage = NamespaceUsage::new(
            vec![quota("q", spec.clone())],
            vec![evaluator("", "pods"), evaluator("", "services")],
        );
        assert_eq!(
            denial_text(check(&usage, "pods", pod, None, &limited)),
            want,
            "{spec}"
        );
    }
    let nothing = NamespaceUsage::default();
    assert_eq!(
        denial_text(check(
            &nothing,
            "pods",
            &far,
            None,
            &limited(&[], &["CrossNamespaceAffinity"])
        )),
        "insufficient quota to match these scopes: [{CrossNamespaceAffinity Exists []}]"
    );
    // `limitedResources` of one resource do not apply to another.
    assert_eq!(
        check(
            &nothing,
            "services",
            &object(json!({})),
            None,
            &limited(&["serv"], &[])
        ),
        QuotaVerdict::Free
    );
}

/// A quota for pods that counts none of this pod's usage does not cover it.
#[test]
fn limited_resources_apply_to_pods_that_no_quota_counts() {
    let limited = |contains: &[&str], scopes: &[&str]| LimitedResource {
        group: String::new(),
        resource: "pods".to_owned(),
        match_contains: contains.iter().map(|&text| text.to_owned()).collect(),
        match_scopes: scopes
            .iter()
            .map(|scope| ScopeRequirement::exists(scope))
            .collect(),
    };
    let far = pod(
        "1",
        json!({"spec": {"affinity": {"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"namespaceSelector": {}, "topologyKey": "zone"},
            ],
        }}}}),
    );
    let gpus = quota("gpus", json!({"hard": {"requests.nvidia.com/gpu": "4"}}));
    let usage = NamespaceUsage::new(vec![gpus], vec![evaluator("", "pods")]);
    assert_eq!(
        denial_text(check(
            &usage,
            "pods",
            &far,
            None,
            &[limited(&[], &["CrossNamespacePodAffinity"])]
        )),
        "insufficient quota to match these scopes: [{CrossNamespacePodAffinity Exists []}]"
    );
    assert_eq!(
        denial_text(check(
            &usage,
            "pods",
            &far,
            None,
            &[limited(&["requests.cpu"], &[])]
        )),
        "insufficient quota to consume: requests.cpu"
    );
}

/// Subtracting must undo adding, however large the quantities.
#[test]
fn removing_an_immense_pod_restores_the_sum() {
    let mut usage = NamespaceUsage::new(
        vec![quota("q", json!({"hard": {"requests.cpu": "2"}}))],
        vec![evaluator("", "pods")],
    );
    let usage_of = |cpu: &str| Some(evaluator("", "pods").usage(&pod(cpu, json!({}))));
    usage.set_object(0, "real", usage_of("2"));
    usage.set_object(0, "immense", usage_of("1e40"));
    usage.set_object(0, "immense", None);
    assert_eq!(usage.used(0).to_string(), "requests.cpu=2");
    usage.set_object(0, "immense", usage_of("1e40"));
    usage.set_object(0, "late", usage_of("1"));
    usage.set_object(0, "immense", None);
    usage.set_object(0, "late", None);
    assert_eq!(usage.used(0).to_string(), "requests.cpu=2");
}
