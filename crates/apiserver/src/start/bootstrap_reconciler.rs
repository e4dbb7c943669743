//! Recreates the system namespaces and the service `default/kubernetes` when they are deleted (upstream: the
//! system-namespaces and kubernetesservice controllers).

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::{bootstrap, kubernetes_service};
use rhumb_registry::Registry;
use rhumb_registry::service_allocation::ServiceAllocationRanges;

/// Upstream's interval for the `kubernetes` service.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(10);

/// Spawns the reconcile loop. It ends with the server. If nothing is missing, an iteration only reads the caches.
pub(super) fn spawn(
    registry: &Arc<Registry>,
    ranges: ServiceAllocationRanges,
    advertised: Option<SocketAddr>,
) {
    let registry = Arc::downgrade(registry);
    tokio::spawn(async move {
        let mut ticks = interval(RECONCILE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick fires immediately; bootstrap has just created everything.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if reconcile(&registry, &ranges, advertised).await.is_none() {
                return;
            }
        }
    });
}

/// Creates what is missing. `None` if the server is shutting down.
async fn reconcile(
    registry: &Weak<Registry>,
    ranges: &ServiceAllocationRanges,
    advertised: Option<SocketAddr>,
) -> Option<()> {
    let registry = registry
        .upgrade()
        .filter(|registry| !registry.is_shutting_down())?;
    let namespaces = bootstrap::create_namespaces(&registry).await;
    let service = kubernetes_service::create_service(&registry, ranges, advertised).await;
    for error in [namespaces, service].into_iter().filter_map(Result::err) {
        tracing::debug!(
            error,
            "failed to recreate bootstrap objects; retrying in 10s"
        );
    }
    Some(())
}
