//! Converts a configuration into the settings of the scheduler core.

use super::{ProfileConfig, SchedulerConfig};
use crate::cycle;
use crate::engine::{ProfileSettings, SchedulerCoreSettings};
use crate::plugins;

impl SchedulerConfig {
    /// Creates new plugin instances on each call: plugins cache state of the cluster they belong to.
    pub fn settings(&self) -> SchedulerCoreSettings {
        let profiles = self.profiles.iter().map(ProfileConfig::settings).collect();
        SchedulerCoreSettings {
            pod_initial_backoff: self.pod_initial_backoff,
            pod_max_backoff: self.pod_max_backoff,
            namespace_selectors: self.namespace_selectors,
            ..SchedulerCoreSettings::new(profiles)
        }
    }
}

impl ProfileConfig {
    fn settings(&self) -> ProfileSettings {
        let enabled = self.plugins.node_plugins.iter();
        let plugins = enabled.filter_map(|enabled| {
            let mut factories = plugins::plugin_factories().iter();
            let factory = factories.find(|factory| factory.name == enabled.name)?;
            Some(cycle::EnabledPlugin {
                plugin: factory.make(&self.args.node_plugins),
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

    /// `config::default_plugins` lists what can be configured, `plugins::registry` what is implemented.
    #[test]
    fn an_empty_file_gives_the_default_profile() {
        let settings = SchedulerConfig::default().settings();
        let [profile] = settings.profiles.as_slice() else {
            panic!("{settings:?}");
        };
        let usual = cycle::Profile::with_default_plugins("default-scheduler");
        assert_eq!(format!("{:?}", profile.profile), format!("{usual:?}"));
        let filters = |profile: &cycle::Profile| -> Vec<bool> {
            profile
                .plugins
                .iter()
                .map(|enabled| enabled.filters)
                .collect()
        };
        assert_eq!(filters(&profile.profile), filters(&usual));
        assert_eq!(
            profile.preemption,
            Some(crate::engine::DefaultPreemptionArgs::default())
        );
    }
}
