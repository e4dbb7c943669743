//! Resource amounts, as requested by pods and allocatable on nodes (upstream: `framework.Resource`).

/// Integer amounts: CPU in millicores, memory and ephemeral storage in bytes, everything else in units. Sums saturate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    pub milli_cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    /// Huge pages and extended resources. Looked up by linear scan, since pods request few.
    pub scalars: Vec<(Box<str>, i64)>,
}

impl Resources {
    /// The amount of a resource by name; 0 if there is none.
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.milli_cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            _ => self.scalar(name),
        }
    }

    pub fn scalar(&self, name: &str) -> i64 {
        let mut others = self.scalars.iter();
        others
            .find(|(known, _)| **known == *name)
            .map_or(0, |(_, amount)| *amount)
    }

    pub fn add(&mut self, more: &Resources) {
        self.combine(more, i64::saturating_add);
    }

    /// Subtracts what was added before. Wrong if the sum has saturated: see [`Resources::is_saturated`].
    pub fn sub(&mut self, less: &Resources) {
        self.combine(less, i64::saturating_sub);
        self.scalars.retain(|(_, amount)| *amount != 0);
    }

    /// Whether an amount is `i64::MAX`: then the sum may have saturated.
    pub fn is_saturated(&self) -> bool {
        let others = self.scalars.iter().map(|(_, amount)| *amount);
        [self.milli_cpu, self.memory, self.ephemeral_storage]
            .into_iter()
            .chain(others)
            .any(|amount| amount == i64::MAX)
    }

    fn combine(&mut self, other: &Resources, join: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = join(self.milli_cpu, other.milli_cpu);
        self.memory = join(self.memory, other.memory);
        self.ephemeral_storage = join(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.scalars {
            match self.scalars.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = join(*known, *amount),
                None => self.scalars.push((name.clone(), join(0, *amount))),
            }
        }
    }
}
