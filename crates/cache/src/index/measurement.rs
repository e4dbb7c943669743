//! Measures an index by walking its postings: its memory, its values, and the values that most objects have.
//!
//! The nodes of the persistent set are not public, but a reference to a posting points into its leaf: the next posting
//! is in another leaf exactly if it does not follow in memory. So leaves are counted without reading them, at a few
//! nanoseconds per posting. Only the number of the few inner nodes is derived, from how full the leaves are.

use std::sync::Arc;

use super::postings::{IndexEntry, IndexEntrySet};

/// Capacity of a leaf of the set. An inner node has as many keys, and one child more.
const NODE_KEYS: usize = 16;

/// Two reference counts of the node, and the two bounds of its array.
const NODE_HEADER_BYTES: usize = 4 * size_of::<usize>();

const LEAF_BYTES: usize = allocation_size(NODE_HEADER_BYTES + NODE_KEYS * size_of::<IndexEntry>());

/// The children have an array of their own, with bounds and a level.
const INNER_NODE_BYTES: usize = allocation_size(
    NODE_HEADER_BYTES + NODE_KEYS * size_of::<IndexEntry>() + (NODE_KEYS + 4) * size_of::<usize>(),
);

/// A hot value is one that at least one in this many objects of the index has, and at least `HOT_OBJECTS_MIN` objects.
const HOT_SHARE: usize = 16;
const HOT_OBJECTS_MIN: usize = 16;

/// Maximum number of hot values that are reported per index.
const HOT_VALUES_MAX: usize = 5;

/// The contents of an index at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexMeasurement {
    pub entries: usize,
    pub bytes: usize,
    /// Number of distinct values.
    pub values: usize,
    /// The values of the most objects, with the number of objects of each, largest first. Lists by them are expensive.
    pub hot_values: Vec<(Arc<str>, usize)>,
}

/// The size that the allocator rounds a size up to: jemalloc has four size classes per doubling.
const fn allocation_size(bytes: usize) -> usize {
    let step = bytes.next_power_of_two() / 8;
    bytes.next_multiple_of(step)
}

impl IndexEntrySet {
    pub(crate) fn measure(&self) -> IndexMeasurement {
        let hot_min = (self.len() / HOT_SHARE).max(HOT_OBJECTS_MIN);
        let (mut leaves, mut values) = (0, 0);
        let mut hot_values = Vec::new();
        let mut run: Option<(&Arc<str>, usize)> = None;
        let mut next_address = 0;
        for posting in self.iter() {
            let address = std::ptr::from_ref(posting).addr();
            leaves += usize::from(address != next_address);
            next_address = address + size_of::<IndexEntry>();
            match &mut run {
                Some((value, objects)) if posting.has_value(value) => *objects += 1,
                _ => {
                    values += 1;
                    hot_values.extend(run.filter(|(_, objects)| *objects >= hot_min));
                    run = Some((posting.value(), 1));
                }
            }
        }
        hot_values.extend(run.filter(|(_, objects)| *objects >= hot_min));
        hot_values.sort_by_key(|(_, objects)| std::cmp::Reverse(*objects));
        hot_values.truncate(HOT_VALUES_MAX);
        IndexMeasurement {
            entries: self.len(),
            bytes: leaves * LEAF_BYTES + inner_nodes(self.len(), leaves) * INNER_NODE_BYTES,
            values,
            hot_values: hot_values
                .into_iter()
                .map(|(value, objects)| (Arc::clone(value), objects))
                .collect(),
        }
    }
}

/// Number of inner nodes above the leaves, if they are as full as these.
fn inner_nodes(entries: usize, leaves: usize) -> usize {
    let capacity = leaves * NODE_KEYS;
    let (mut level, mut total) = (leaves, 0);
    while level > 1 {
        // Of a half-full node and its children, half are children.
        let children = NODE_KEYS + 1;
        let nodes = (level * capacity).div_ceil((entries * children).max(1));
        level = nodes.clamp(1, level / 2);
        total += level;
    }
    total
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rhumb_meta::{ObjectKey, Revision};

    use super::*;
    use crate::{CacheEntry, EventKind};

    /// Set in the child process of [`the_measurement_agrees_with_the_memory_of_the_process`].
    const ORDER: &str = "MEASURED_ORDER";

    /// Of a page of x86-64 Linux.
    const PAGE_BYTES: usize = 4096;

    fn posting(number: usize) -> (Arc<str>, Arc<CacheEntry>) {
        let key = ObjectKey::namespaced("jobs", &format!("pod-{number:07}")).expect("a key");
        let (labels, fields) = (Arc::default(), Arc::default());
        let revision = Revision::new(1);
        let entry = CacheEntry::new(key, revision, EventKind::Added, b"{}", labels, fields);
        (format!("job-{}", number / 10).into(), Arc::new(entry))
    }

    fn resident_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
        let pages = statm.split(' ').nth(1).expect("a second field");
        pages.parse::<usize>().expect("a number") * PAGE_BYTES
    }

    #[test]
    fn hot_values_are_the_largest() {
        let mut set = IndexEntrySet::default();
        for number in 0..1_000 {
            let (_, entry) = posting(number);
            let value = match number {
                0..500 => "large".into(),
                500..700 => "hot".into(),
                _ => format!("rare-{number}"),
            };
            set.insert(&value.as_str().into(), &entry);
        }
        let measured = set.measure();
        assert_eq!((measured.entries, measured.values), (1_000, 302));
        let hot: Vec<_> = measured
            .hot_values
            .iter()
            .map(|(v, n)| (&**v, *n))
            .collect();
        assert_eq!(hot, [("large", 500), ("hot", 200)]);
        assert_eq!(
            IndexEntrySet::default().measure(),
            IndexMeasurement::default()
        );
    }

    /// A process of its own, in which no other test allocates.
    #[test]
    fn the_measurement_agrees_with_the_memory_of_the_process() {
        let program = std::env::current_exe().expect("the test program");
        for order in ["ascending", "scattered"] {
            let child = Command::new(&program)
                .args(["--exact", "index::measurement::tests::measure"])
                .env(ORDER, order)
                .status();
            assert!(child.expect("a child process").success(), "{order}");
        }
    }

    /// Does its work only in the processes that the test above starts.
    #[test]
    fn measure() {
        const COUNT: usize = 400_000;
        let Ok(order) = std::env::var(ORDER) else {
            return;
        };
        let scattered = order == "scattered";
        // The step is coprime to the count, so every entry comes once.
        let step = if scattered { 177_777 } else { 1 };
        let postings: Vec<_> = (0..COUNT).map(posting).collect();
        let mut set = IndexEntrySet::default();
        let before = resident_bytes();
        for number in 0..COUNT {
            let (value, entry) = &postings[number * step % COUNT];
            set.insert(value, entry);
        }
        let real = resident_bytes() - before;
        let measured = set.measure().bytes;
        println!(
            "{} bytes per entry, measured {}",
            real / COUNT,
            measured / COUNT
        );
        assert!(
            measured.abs_diff(real) < real / 8,
            "{measured}, in fact {real}"
        );
    }
}
