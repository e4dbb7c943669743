//! What every cluster has comes back when somebody deletes it.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::{bootstrap, services};
use crate::Api;
use crate::resources::allocation::ServiceRanges;

/// As often as upstream sees to its service.
const PAUSE: Duration = Duration::from_secs(10);

/// Looks after the first namespaces and the service of the server for as long as that is there. Where nothing is
/// missing, that is a look into the caches.
pub(super) fn keep(api: &Arc<Api>, ranges: ServiceRanges, advertised: Option<SocketAddr>) {
    let api = Arc::downgrade(api);
    tokio::spawn(async move {
        let mut ticks = interval(PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first is at once, and all was made a moment ago.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if look(&api, &ranges, advertised).await.is_none() {
                return;
            }
        }
    });
}

/// `None` if the server is gone.
async fn look(
    api: &Weak<Api>,
    ranges: &ServiceRanges,
    advertised: Option<SocketAddr>,
) -> Option<()> {
    let api = api.upgrade().filter(|api| !api.is_closing())?;
    let namespaces = bootstrap::create_namespaces(&api).await;
    let service = services::create_service(&api, ranges, advertised).await;
    for problem in [namespaces, service].into_iter().filter_map(Result::err) {
        tracing::debug!(problem, "something that every cluster has cannot be made");
    }
    Some(())
}
