//! Amounts of what nodes have and pods ask for.

/// Whole amounts, as scheduling counts them: thousandths of a processor, bytes, and units of everything else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    pub milli_cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    /// Huge pages, devices and whatever else a node may offer. Pods ask for few, so finding one is a walk.
    pub others: Vec<(Box<str>, i64)>,
}

impl Resources {
    /// That of a resource by name; nothing if it is not there.
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.milli_cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            _ => self.other(name),
        }
    }

    pub fn other(&self, name: &str) -> i64 {
        let mut others = self.others.iter();
        others
            .find(|(known, _)| **known == *name)
            .map_or(0, |(_, amount)| *amount)
    }

    pub fn add(&mut self, more: &Resources) {
        self.merge(more, i64::saturating_add);
    }

    /// Takes off what was added before, unless the sum had no room for all of it: see [`Resources::is_immense`].
    pub fn sub(&mut self, less: &Resources) {
        self.merge(less, i64::saturating_sub);
        self.others.retain(|(_, amount)| *amount != 0);
    }

    /// Whether something reached the largest number that there is: more may have been added than is shown.
    pub fn is_immense(&self) -> bool {
        let others = self.others.iter().map(|(_, amount)| *amount);
        [self.milli_cpu, self.memory, self.ephemeral_storage]
            .into_iter()
            .chain(others)
            .any(|amount| amount == i64::MAX)
    }

    fn merge(&mut self, other: &Resources, join: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = join(self.milli_cpu, other.milli_cpu);
        self.memory = join(self.memory, other.memory);
        self.ephemeral_storage = join(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.others {
            match self.others.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = join(*known, *amount),
                None => self.others.push((name.clone(), join(0, *amount))),
            }
        }
    }
}
