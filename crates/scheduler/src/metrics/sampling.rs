//! Looking at a watch costs more than many a plugin: only some attempts are timed.

/// As upstream: of a hundred attempts.
const SAMPLED_PERCENT: u32 = 10;

/// Says which attempts are timed. Not every tenth: what comes in tens would be seen always, or never.
#[derive(Debug, Clone)]
pub struct Sampling(u32);

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling(0x9e37_79b9)
    }
}

impl Sampling {
    /// Whether the next attempt is timed.
    pub fn take(&mut self) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % 100 < SAMPLED_PERCENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_sampled_and_not_always_the_same() {
        let mut sampling = Sampling::default();
        let taken: Vec<usize> = (0..10_000).filter(|_| sampling.take()).collect();
        assert!((800..1200).contains(&taken.len()), "{}", taken.len());
        for rest in 0..10 {
            let part = taken.iter().filter(|index| *index % 10 == rest).count();
            assert!((50..200).contains(&part), "{rest}: {part}");
        }
    }
}
