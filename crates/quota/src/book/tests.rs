//! A book that is changed step by step says what one that is begun anew says, and holds what is under way.

use rhumb_api::Object;
use rhumb_meta::{Quantity, Timestamp};
use serde_json::{Value, json};

use super::{Ask, Book, Verdict};
use crate::{Charge, Limited, Meter, Quota, Requirement};

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn quota(name: &str, spec: Value) -> Quota {
    Quota::parse(&object(json!({"metadata": {"name": name}, "spec": spec})))
}

fn meter(group: &str, plural: &str) -> Meter {
    Meter::of(group, plural).expect("a meter")
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(seconds, 0)
}

fn pod(cpu: &str, more: Value) -> Object {
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

fn judge(
    book: &Book,
    plural: &str,
    new: &Object,
    old: Option<&Object>,
    limited: &[Limited],
) -> Verdict {
    let meter = meter("", plural);
    let old = old.map(|old| meter.measure(old));
    book.judge(
        &Ask {
            group: "",
            resource: plural,
            meter: &meter,
            charge: &meter.measure(new),
            old: old.as_ref(),
            object: new,
        },
        limited,
    )
}

fn refusal(verdict: Verdict) -> String {
    match verdict {
        Verdict::Refused(refusal) => refusal.to_string(),
        other => format!("{other:?}"),
    }
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

fn random_pod(dice: &mut Dice) -> Object {
    let mut more = json!({});
    if dice.roll(3) == 0 {
        more = json!({"spec": {"activeDeadlineSeconds": 5}});
    }
    if dice.roll(3) == 0 {
        more["spec"]["priorityClassName"] = json!(["gold", "iron"][dice.roll(2) as usize]);
    }
    if dice.roll(4) == 0 {
        more["spec"]["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"namespaceSelector": {}}],
        }});
    }
    if dice.roll(5) == 0 {
        more["status"] = json!({"phase": "Succeeded"});
    }
    if dice.roll(5) == 0 {
        let ends = at(dice.roll(60) as i64).rfc3339().to_string();
        more["metadata"] =
            json!({"deletionTimestamp": ends, "deletionGracePeriodSeconds": dice.roll(9)});
    }
    pod(&format!("{}m", dice.roll(900) + 1), more)
}

fn quotas() -> Vec<Quota> {
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

/// What is used, added up from all objects.
fn plainly(quota: &Quota, pods: &[(String, Charge)], now: Timestamp) -> Vec<(String, Quantity)> {
    let meters = [meter("", "pods"), meter("", "services")];
    let counted = quota
        .hard
        .names()
        .filter(|name| meters.iter().any(|meter| meter.covers(name)));
    counted
        .map(|name| {
            let mut sum = Quantity::ZERO;
            for (_, charge) in pods {
                let has_lapsed = charge.lapses.is_some_and(|lapses| lapses < now);
                let amounts = if has_lapsed {
                    &charge.later
                } else {
                    &charge.amounts
                };
                if quota
                    .scopes
                    .iter()
                    .all(|scope| scope.matches(&charge.traits))
                {
                    sum.add(amounts.get(name).unwrap_or(&Quantity::ZERO));
                }
            }
            (name.to_owned(), sum)
        })
        .collect()
}

#[test]
fn after_any_changes_the_sums_are_those_of_the_objects() {
    let mut dice = Dice(7);
    let mut book = Book::new(quotas(), vec![meter("", "pods"), meter("", "services")]);
    let mut pods: Vec<(String, Charge)> = Vec::new();
    for step in 0..4000_i64 {
        let name = format!("p{}", dice.roll(40));
        pods.retain(|(known, _)| *known != name);
        let charge = (dice.roll(3) > 0).then(|| meter("", "pods").measure(&random_pod(&mut dice)));
        book.enter(0, &name, charge.clone());
        pods.extend(charge.map(|charge| (name, charge)));
        let now = at(step / 50);
        book.pass_time(now);
        if step == 2000 {
            book.clear(0);
            for (name, charge) in &pods {
                book.enter(0, name, Some(charge.clone()));
            }
            book.pass_time(now);
        }
        for (place, quota) in quotas().iter().enumerate() {
            let used: Vec<(String, Quantity)> = book
                .used(place)
                .iter()
                .map(|(name, amount)| (name.to_string(), amount.clone()))
                .collect();
            assert_eq!(
                used,
                plainly(quota, &pods, now),
                "{} at step {step}",
                quota.name
            );
        }
    }
}

#[test]
fn what_is_held_makes_others_wait_and_what_is_used_refuses_them() {
    let mut book = Book::new(
        vec![quota("q", json!({"hard": {"pods": "2"}}))],
        vec![meter("", "pods")],
    );
    let one = pod("1", json!({}));
    let charge = meter("", "pods").measure(&one);
    let ask = |book: &Book| judge(book, "pods", &one, None, &[]);
    assert_eq!(ask(&book), Verdict::Fits);
    let first = book.hold(charge.clone(), None, Some("u1"));
    let second = book.hold(charge.clone(), None, Some("u2"));
    assert_eq!(ask(&book), Verdict::Wait);
    // It failed.
    book.release(second);
    assert_eq!(ask(&book), Verdict::Fits);
    // The cache shows the first: it is used now, and no longer held.
    assert!(book.awaits_new());
    book.arrived("u1");
    book.enter(0, "first", Some(charge.clone()));
    book.release(first);
    assert!(!book.awaits_new());
    assert_eq!(ask(&book), Verdict::Fits);
    let third = book.hold(charge.clone(), None, Some("u3"));
    assert_eq!(ask(&book), Verdict::Wait);
    // Nobody knows what became of it: it counts for a while.
    book.doubt(third, at(100));
    book.pass_time(at(100));
    assert_eq!(ask(&book), Verdict::Wait);
    book.pass_time(at(101));
    assert_eq!(ask(&book), Verdict::Fits);
    book.enter(0, "second", Some(charge));
    assert_eq!(
        refusal(ask(&book)),
        "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    );
}

#[test]
fn a_book_that_is_begun_anew_still_holds_what_is_under_way() {
    let pods = || vec![meter("", "pods")];
    let mut book = Book::new(vec![quota("q", json!({"hard": {"pods": "2"}}))], pods());
    let charge = meter("", "pods").measure(&pod("300m", json!({})));
    let id = book.hold(charge, None, Some("u"));
    let other = quota("other", json!({"hard": {"requests.cpu": "500m"}}));
    let mut book = Book::new(vec![other], pods()).with_holds_of(book);
    let ask = |book: &Book| judge(book, "pods", &pod("300m", json!({})), None, &[]);
    assert_eq!(ask(&book), Verdict::Wait);
    book.release(id);
    assert_eq!(ask(&book), Verdict::Fits);
}

#[test]
fn an_update_asks_for_what_is_more_than_before() {
    let quotas = vec![
        quota("all", json!({"hard": {"requests.cpu": "1"}})),
        quota(
            "ends",
            json!({"hard": {"requests.cpu": "500m"}, "scopes": ["Terminating"]}),
        ),
    ];
    let mut book = Book::new(quotas, vec![meter("", "pods")]);
    let stays = pod("600m", json!({}));
    book.enter(0, "p", Some(meter("", "pods").measure(&stays)));
    let table = [
        (pod("600m", json!({})), "Free"),
        (pod("500m", json!({})), "Free"),
        (pod("1", json!({})), "Fits"),
        (
            pod("1001m", json!({})),
            "exceeded quota: all, requested: requests.cpu=401m, used: requests.cpu=600m, limited: requests.cpu=1",
        ),
        // It comes into the sight of another quota, with all that it uses.
        (
            pod("600m", json!({"spec": {"activeDeadlineSeconds": 1}})),
            "exceeded quota: ends, requested: requests.cpu=600m, used: requests.cpu=0, limited: requests.cpu=500m",
        ),
    ];
    for (new, want) in table {
        assert_eq!(refusal(judge(&book, "pods", &new, Some(&stays), &[])), want);
    }
}

#[test]
fn what_is_limited_needs_a_quota_that_covers_it() {
    let limited = |contains: &[&str], scopes: &[&str]| {
        vec![Limited {
            group: String::new(),
            resource: "pods".to_owned(),
            contains: contains.iter().map(|&text| text.to_owned()).collect(),
            scopes: scopes
                .iter()
                .map(|scope| Requirement::exists(scope))
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
        // Both names are the same scope.
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
        let book = Book::new(
            vec![quota("q", spec.clone())],
            vec![meter("", "pods"), meter("", "services")],
        );
        assert_eq!(
            refusal(judge(&book, "pods", pod, None, &limited)),
            want,
            "{spec}"
        );
    }
    let nothing = Book::default();
    assert_eq!(
        refusal(judge(
            &nothing,
            "pods",
            &far,
            None,
            &limited(&[], &["CrossNamespaceAffinity"])
        )),
        "insufficient quota to match these scopes: [{CrossNamespaceAffinity Exists []}]"
    );
    // What is configured for one resource is not asked of another.
    assert_eq!(
        judge(
            &nothing,
            "services",
            &object(json!({})),
            None,
            &limited(&["serv"], &[])
        ),
        Verdict::Free
    );
}

/// A quota that looks at pods, but at nothing that this pod uses, covers nothing.
#[test]
fn what_is_limited_is_asked_of_pods_that_no_quota_charges() {
    let limited = |contains: &[&str], scopes: &[&str]| Limited {
        group: String::new(),
        resource: "pods".to_owned(),
        contains: contains.iter().map(|&text| text.to_owned()).collect(),
        scopes: scopes
            .iter()
            .map(|scope| Requirement::exists(scope))
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
    let book = Book::new(vec![gpus], vec![meter("", "pods")]);
    assert_eq!(
        refusal(judge(
            &book,
            "pods",
            &far,
            None,
            &[limited(&[], &["CrossNamespacePodAffinity"])]
        )),
        "insufficient quota to match these scopes: [{CrossNamespacePodAffinity Exists []}]"
    );
    assert_eq!(
        refusal(judge(
            &book,
            "pods",
            &far,
            None,
            &[limited(&["requests.cpu"], &[])]
        )),
        "insufficient quota to consume: requests.cpu"
    );
}

/// Adding and taking away must be each other's inverse, however large the amounts.
#[test]
fn an_immense_pod_that_goes_leaves_the_others_counted() {
    let mut book = Book::new(
        vec![quota("q", json!({"hard": {"requests.cpu": "2"}}))],
        vec![meter("", "pods")],
    );
    let measure = |cpu: &str| Some(meter("", "pods").measure(&pod(cpu, json!({}))));
    book.enter(0, "real", measure("2"));
    book.enter(0, "immense", measure("1e40"));
    book.enter(0, "immense", None);
    assert_eq!(book.used(0).to_string(), "requests.cpu=2");
    book.enter(0, "immense", measure("1e40"));
    book.enter(0, "late", measure("1"));
    book.enter(0, "immense", None);
    book.enter(0, "late", None);
    assert_eq!(book.used(0).to_string(), "requests.cpu=2");
}
