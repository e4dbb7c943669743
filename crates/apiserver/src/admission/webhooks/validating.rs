//! Webhooks that may only refuse: all are asked at once.

use std::time::Instant;

use futures_util::future::join_all;
use rhumb_admission::Names;
use rhumb_api::Object;
use rhumb_meta::Status;

use super::Webhooks;
use super::ask::{Seen, Settled};
use super::hooks::Hook;
use super::invocation::LeftOut;
use crate::admission::Attributes;

const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/";

impl Webhooks {
    /// The first refusal in the order of the webhooks is the answer, so that the same write is always refused for the
    /// same reason.
    pub(super) async fn ask_all(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let Some(hooks) = self.hooks(attributes)? else {
            return Ok(());
        };
        let namespace = attributes.namespace_labels(hooks.need_labels).await;
        let plan = self.plan(attributes, &hooks, &namespace)?;
        let mut left_out = LeftOut::default();
        self.note_left_out(attributes, &hooks, &plan, &mut left_out);
        let mut asked: Vec<(&Hook, usize)> = Vec::new();
        let mut versions: Vec<(Names, Seen<'_>)> = Vec::new();
        for step in &plan.steps {
            let Some(hook) = hooks.all.get(step.webhook()) else {
                continue;
            };
            let at = (&**hook, step);
            let names = self.step(attributes, at, object, &namespace, &mut left_out)?;
            if !hook.webhook.conditions.is_empty() {
                tokio::task::yield_now().await;
            }
            let Some(names) = names else {
                continue;
            };
            let known = versions.iter().position(|(known, _)| *known == names);
            let at = match known {
                Some(at) => at,
                None => {
                    let seen = Seen::new(attributes, &names, object)?;
                    versions.push((names, seen));
                    versions.len() - 1
                }
            };
            asked.push((hook, at));
        }
        self.annotate_left_out(attributes, &left_out);
        if asked.is_empty() {
            return Ok(());
        }
        let name = attributes.facts(object)?.name;
        let questions = asked.iter().enumerate().map(|(index, &(hook, at))| {
            let (names, seen) = &versions[at];
            self.ask_one(attributes, hook, index, names, seen, name)
        });
        let answers = attributes.call.wait(join_all(questions)).await?;
        answers.into_iter().collect()
    }

    async fn ask_one(
        &self,
        attributes: &Attributes<'_>,
        hook: &Hook,
        index: usize,
        names: &Names,
        seen: &Seen<'_>,
        name: &str,
    ) -> Result<(), Status> {
        let begun = Instant::now();
        let answer = self.ask(attributes, hook, names, seen, name).await;
        match self.settle(attributes, hook, begun, answer.err()) {
            Settled::Allowed => Ok(()),
            Settled::FailedOpen => {
                let key = format!("{FAILED_OPEN}round_0_index_{index}");
                attributes.call.annotate(key, &*hook.webhook.name);
                Ok(())
            }
            Settled::Refused(status) => Err(status),
        }
    }
}
