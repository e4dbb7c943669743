//! How long the scheduler needs for something that happens while many pods wait, no two of them alike:
//! `cargo run --release -p rhumb-scheduler --example event_time [PODS]`.

use std::time::{Duration, Instant};

use rhumb_scheduler::cycle::Profile;
use rhumb_scheduler::engine::{Change, Engine, Outcome, Preemption, ProfileSettings, Settings};
use rhumb_scheduler::model::{Node, Pod};

const NODES: usize = 1000;
const TIMES: usize = 200;

fn main() {
    let pods = std::env::args().nth(1);
    let pods: usize = pods.and_then(|pods| pods.parse().ok()).unwrap_or(10_000);
    if measure(pods).is_none() {
        println!("an object could not be read");
    }
}

fn measure(pods: usize) -> Option<()> {
    let now = Instant::now();
    let mut engine = Engine::new(Settings::new(vec![ProfileSettings {
        profile: Profile::usual("s"),
        preemption: Some(Preemption::default()),
    }]));
    let control = r#""taints":[{"key":"control-plane","effect":"NoSchedule"}]"#;
    engine.apply(Change::Node(Box::new(node("control", 16, control)?)), now);
    for index in 0..NODES {
        let name = format!("n{index}");
        engine.apply(Change::Node(Box::new(node(&name, 4, "")?)), now);
        let full = pod(
            &format!("full-{index}"),
            "4",
            &format!(r#""nodeName":"{name}""#),
        )?;
        engine.apply(Change::Pod(Box::new(full)), now);
    }
    let small = |index: usize| pod(&format!("small-{index}"), "0", "");
    let large = |index: usize| pod(&format!("large-{index}"), "2", "");
    let begun = Instant::now();
    for index in 0..pods {
        engine.apply(Change::Pod(Box::new(large(index)?)), now);
    }
    while engine.next(now).is_some() {}
    let each = begun.elapsed() / u32::try_from(pods.max(1)).ok()?;
    println!("{each:>10.1?} for each of {pods} pods that is told to wait");
    let (mut placed, mut left, mut in_vain) = (Vec::new(), Vec::new(), 0);
    for index in 0..TIMES {
        engine.apply(Change::Pod(Box::new(small(index)?)), now);
        let begun = Instant::now();
        let outcome = engine.next(now);
        placed.push(begun.elapsed());
        let Some(Outcome::Bind { pod, .. }) = outcome else {
            continue;
        };
        let uid = pod.uid.clone();
        let begun = Instant::now();
        engine.apply(Change::PodGone { uid }, now);
        left.push(begun.elapsed());
        while engine.next(now).is_some() {
            in_vain += 1;
        }
    }
    println!("{:>10.1?} to place a pod", median(placed));
    println!(
        "{:>10.1?} when that pod leaves; {in_vain} were tried in vain",
        median(left)
    );
    let mut left = Vec::new();
    for index in 0..TIMES {
        let uid = format!("full-{index}").into();
        let begun = Instant::now();
        engine.apply(Change::PodGone { uid }, now);
        left.push(begun.elapsed());
        // One gets the room, and then it is full again.
        while engine.next(now).is_some() {}
    }
    println!(
        "{:>10.1?} when a pod leaves that made others wait",
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
