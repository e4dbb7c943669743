//! What namespaces may use: see [`crate::quota`].

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_api::Object;
use rhumb_meta::Status;
use rhumb_quota::{Limited, Meter};

use super::{Attributes, Operation, Plugin, Step};
use crate::quota::{NoRoom, Room, Wish};
use crate::resources::Registry;

/// Comes last: only what all others let in takes room.
#[derive(Debug)]
pub(super) struct ResourceQuota {
    limited: Arc<[Limited]>,
}

impl ResourceQuota {
    pub(super) fn new(limited: Arc<[Limited]>) -> ResourceQuota {
        ResourceQuota { limited }
    }

    fn wish<'a>(&'a self, attributes: &'a Attributes<'_>, object: &'a Object) -> Option<Wish<'a>> {
        let meter = meter(attributes)?;
        let old = attributes.old;
        let subresource = attributes.subresource();
        let is_minded = match old {
            Some(old) => meter.minds_update(subresource, old, object),
            None => subresource.is_empty(),
        };
        is_minded.then_some(Wish {
            call: attributes.call,
            namespace: attributes.call.namespace()?,
            meter,
            object,
            old,
            limited: &self.limited,
            began: attributes.began,
        })
    }
}

/// What no quota can cover here is likely a slip, but may be about what is still to come.
pub(super) fn tell_of_idle_limits(limited: &[Limited], registry: &Registry) {
    for Limited {
        group, resource, ..
    } in limited
    {
        let found = registry.find(group, resource);
        if found.is_none_or(|found| found.meter.is_none()) {
            tracing::warn!(
                group,
                resource,
                "the limited resources name something that no quota counts: it must be in a namespace, and served"
            );
        }
    }
}

/// How the objects of a write are measured. Status says what was given, and what was given is not refused.
fn meter<'a>(attributes: &Attributes<'a>) -> Option<&'a Meter> {
    let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
    let meter = attributes.call.resource.meter.as_ref();
    meter.filter(|_| writes && attributes.subresource() != "status")
}

fn refused(attributes: &Attributes<'_>, object: &Object, why: NoRoom) -> Status {
    match why {
        NoRoom::Refused(refusal) => attributes.forbidden(Some(object), refusal),
        NoRoom::Failed(status) => status,
    }
}

#[async_trait]
impl Plugin for ResourceQuota {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Validation && attributes.dry_run
    }

    /// What is only tried out takes no room; it is told whether there is some.
    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let (true, Some(object)) = (attributes.dry_run, object) else {
            return Ok(());
        };
        let Some(wish) = self.wish(attributes, object) else {
            return Ok(());
        };
        let checked = attributes.call.api.tills.check(&wish).await;
        checked.map_err(|why| refused(attributes, object, why))
    }

    fn reserves(&self, attributes: &Attributes<'_>) -> bool {
        meter(attributes).is_some() && attributes.call.namespace().is_some()
    }

    async fn reserve(&self, attributes: &Attributes<'_>, object: &Object) -> Result<Room, Status> {
        let Some(wish) = self.wish(attributes, object) else {
            return Ok(Room::default());
        };
        let room = attributes.call.api.tills.reserve(&wish).await;
        room.map_err(|why| refused(attributes, object, why))
    }
}
