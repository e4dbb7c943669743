//! What the file says, as the engine has it.

use super::{Config, Profile};
use crate::cycle;
use crate::engine::{ProfileSettings, Settings};
use crate::plugins;

impl Config {
    /// For an engine of its own: plugins remember what they saw.
    pub fn settings(&self) -> Settings {
        let profiles = self.profiles.iter().map(Profile::settings).collect();
        Settings {
            pod_initial_backoff: self.pod_initial_backoff,
            pod_max_backoff: self.pod_max_backoff,
            namespace_selectors: self.namespace_selectors,
            ..Settings::new(profiles)
        }
    }
}

impl Profile {
    fn settings(&self) -> ProfileSettings {
        let about = self.plugins.about_nodes.iter();
        let plugins = about.filter_map(|enabled| {
            let mut known = plugins::known().iter();
            let known = known.find(|known| known.name == enabled.name)?;
            Some(cycle::Enabled {
                plugin: known.make(&self.args.about_nodes),
                filters: enabled.filters,
                weight: enabled.weight,
            })
        });
        ProfileSettings {
            profile: cycle::Profile {
                scheduler_name: self.scheduler_name.as_str().into(),
                percentage_of_nodes_to_score: self.percentage_of_nodes_to_score,
                plugins: plugins.collect(),
            },
            preemption: self.plugins.preemption.then_some(self.args.preemption),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list here is of what can be configured, the one there of what there is.
    #[test]
    fn a_file_that_says_nothing_gives_the_usual_profile() {
        let settings = Config::default().settings();
        let [profile] = settings.profiles.as_slice() else {
            panic!("{settings:?}");
        };
        let usual = cycle::Profile::usual("default-scheduler");
        assert_eq!(format!("{:?}", profile.profile), format!("{usual:?}"));
        let filters = |profile: &cycle::Profile| -> Vec<bool> {
            profile.plugins.iter().map(|one| one.filters).collect()
        };
        assert_eq!(filters(&profile.profile), filters(&usual));
        assert_eq!(
            profile.preemption,
            Some(crate::engine::Preemption::default())
        );
    }
}
