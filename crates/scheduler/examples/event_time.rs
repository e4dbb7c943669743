//! Benchmark: duration of event handling while many distinct pods are unschedulable:
//! `cargo run --release -p rhumb-scheduler --example event_time [PODS]`.

use std::time::{Duration, Instant};

use rhumb_scheduler::cycle::Profile;
use rhumb_scheduler::engine::{
    DefaultPreemptionArgs, Event, ProfileSettings, SchedulerCore, SchedulerCoreSettings,
    SchedulerEvent, SchedulingOutcome,
};
use rhumb_scheduler::model::{Node, Pod};

const NODES: usize = 1000;
const TIMES: usize = 200;

fn main() {
    let pods = std::env::args().nth(1);
    let pods: usize = pods.and_then(|pods| pods.parse().ok()).unwrap_or(10_000);
    if measure(pods).is_none() {
        println!("failed to decode an object");
    }
}

fn measure(pods: usize) -> Option<()> {
    let now = Instant::now();
    let mut engine = SchedulerCore::new(SchedulerCoreSettings::new(vec![ProfileSettings {
        profile: Profile::with_default_plugins("s"),
        preemption: Some(DefaultPreemptionArgs::default()),
    }]));
    let control = r#""taints":[{"key":"control-plane","effect":"NoSchedule"}]"#;
    engine.apply(
        SchedulerEvent::Node(Event::Applied(Box::new(node("control", 16, control)?))),
        now,
    );
    for index in 0..NODES {
        let name = format!("n{index}");
        engine.apply(
            SchedulerEvent::Node(Event::Applied(Box::new(node(&name, 4, "")?))),
            now,
        );
        let full = pod(
            &format!("full-{index}"),
            "4",
            &format!(r#""nodeName":"{name}""#),
        )?;
        engine.apply(SchedulerEvent::Pod(Event::Applied(Box::new(full))), now);
    }
    let small = |index: usize| pod(&format!("small-{index}"), "0", "");
    let large = |index: usize| pod(&format!("large-{index}"), "2", "");
    let started = Instant::now();
    for index in 0..pods {
        engine.apply(
            SchedulerEvent::Pod(Event::Applied(Box::new(large(index)?))),
            now,
        );
    }
    while engine.next_outcome(now).is_some() {}
    let each = started.elapsed() / u32::try_from(pods.max(1)).ok()?;
    println!("{each:>10.1?} per pod to find each of {pods} pods unschedulable");
    let (mut placed, mut left, mut in_vain) = (Vec::new(), Vec::new(), 0);
    for index in 0..TIMES {
        engine.apply(
            SchedulerEvent::Pod(Event::Applied(Box::new(small(index)?))),
            now,
        );
        let started = Instant::now();
        let outcome = engine.next_outcome(now);
        placed.push(started.elapsed());
        let Some(SchedulingOutcome::Bind { pod, .. }) = outcome else {
            continue;
        };
        let uid = pod.uid.clone();
        let started = Instant::now();
        engine.apply(SchedulerEvent::Pod(Event::Deleted(uid)), now);
        left.push(started.elapsed());
        while engine.next_outcome(now).is_some() {
            in_vain += 1;
        }
    }
    println!("{:>10.1?} to place a pod", median(placed));
    println!(
        "{:>10.1?} when that pod is deleted; {in_vain} unsuccessful attempts",
        median(left)
    );
    let mut left = Vec::new();
    for index in 0..TIMES {
        let uid = format!("full-{index}").into();
        let started = Instant::now();
        engine.apply(SchedulerEvent::Pod(Event::Deleted(uid)), now);
        left.push(started.elapsed());
        // One pod gets the freed resources, and the node is full again.
        while engine.next_outcome(now).is_some() {}
    }
    println!(
        "{:>10.1?} when a pod is deleted that others were waiting for",
        median(left)
    );
    Some(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn node(name: &str, cpu: u32, spec: &str) -> Option<Node> {
    let node = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{{spec}}},
        "status":{{"allocatable":{{"cpu":"{cpu}","memory":"64Gi","pods":"110"}}}}}}"#
    );
    Node::from_json(node.as_bytes()).ok()
}

fn pod(name: &str, cpu: &str, spec: &str) -> Option<Pod> {
    let spec = if spec.is_empty() {
        String::new()
    } else {
        format!(",{spec}")
    };
    let pod = format!(
        r#"{{"metadata":{{"namespace":"default","name":"{name}","uid":"{name}","labels":{{"pod-name":"{name}"}}}},
        "spec":{{"schedulerName":"s","containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]{spec}}}}}"#
    );
    Pod::from_json(pod.as_bytes()).ok()
}
