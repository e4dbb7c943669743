//! Benchmark: looking up field names in the index of a type, in hash maps and by binary search:
//! `cargo bench -p rhumb-schema --bench field_lookup`.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use rhumb_schema::{ObjectType, Table};

/// Each way is measured this often, in turn; the best round counts, because others may use the machine as well.
const ROUNDS: usize = 300;

/// The types that most requests consist of.
const FREQUENT: [&str; 5] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    "io.k8s.api.core.v1.Container",
    "io.k8s.api.core.v1.PodSpec",
    "io.k8s.api.core.v1.PodStatus",
    "io.k8s.api.core.v1.ServiceSpec",
];

fn main() {
    let table = Table::builtin();
    let has_fields = |of_type: &&ObjectType| !of_type.fields.is_empty();
    let all: Vec<&ObjectType> = table.types().filter(has_fields).collect();
    let is_frequent = |of_type: &&ObjectType| FREQUENT.contains(&&*of_type.name);
    let frequent: Vec<&ObjectType> = table.types().filter(is_frequent).collect();
    compare("all types", &all);
    compare("frequent types", &frequent);
}

fn compare(what: &str, types: &[&ObjectType]) {
    let names: Vec<Vec<&str>> = types
        .iter()
        .map(|of_type| of_type.fields.iter().map(|field| &*field.name).collect())
        .collect();
    let numbered = |names: &Vec<_>| -> Vec<_> { names.iter().copied().zip(0_u32..).collect() };
    let std_maps: Vec<HashMap<&str, u32>> = names
        .iter()
        .map(|names| numbered(names).into_iter().collect())
        .collect();
    let foldhash_maps: Vec<hashbrown::HashMap<&str, u32>> = names
        .iter()
        .map(|names| numbered(names).into_iter().collect())
        .collect();
    // Copies, because the names of a request are elsewhere in memory than those of the table.
    let searched: Vec<(usize, String)> = names
        .iter()
        .enumerate()
        .flat_map(|(at, names)| names.iter().map(move |name| (at, (*name).to_owned())))
        .collect();
    let mut best = [Duration::MAX; 4];
    for _ in 0..ROUNDS {
        let round = [
            time(&searched, |at, name| types[at].field(name).is_some()),
            time(&searched, |at, name| foldhash_maps[at].contains_key(name)),
            time(&searched, |at, name| std_maps[at].contains_key(name)),
            time(&searched, |at, name| names[at].binary_search(&name).is_ok()),
        ];
        for (best, time) in best.iter_mut().zip(round) {
            *best = time.min(*best);
        }
    }
    println!("{} names of {what}", searched.len());
    let ways = [
        "index",
        "hashbrown, foldhash",
        "std HashMap",
        "binary search",
    ];
    for (way, best) in ways.iter().zip(best) {
        let nanoseconds = best.as_secs_f64() * 1e9 / searched.len() as f64;
        println!("  {way:<20} {nanoseconds:>6.1} ns per lookup");
    }
}

/// How long it takes to look up all names once.
fn time(searched: &[(usize, String)], find: impl Fn(usize, &str) -> bool) -> Duration {
    let started = Instant::now();
    for (at, name) in searched {
        assert!(find(*at, black_box(name)));
    }
    started.elapsed()
}
