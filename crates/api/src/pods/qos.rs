//! QoS class of a pod.

use rhumb_meta::Quantity;
use serde_json::Value;

use super::resources::container_quantities;
use crate::JsonObject;

pub(crate) const GUARANTEED: &str = "Guaranteed";
pub(crate) const BURSTABLE: &str = "Burstable";
pub(crate) const BEST_EFFORT: &str = "BestEffort";

/// Resources that determine the class.
const QOS_RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Sum of each of these resources; `None` if zero.
type ComputeQuantities = [Option<Quantity>; QOS_RESOURCES.len()];

/// QoS class from the status of a pod, or else computed from its spec.
pub(crate) fn qos_class(pod: &JsonObject) -> &str {
    let status = pod.get("status");
    let qos_class = status
        .and_then(|status| status.get("qosClass"))
        .and_then(Value::as_str);
    match qos_class {
        Some(class) if !class.is_empty() => class,
        _ => compute_qos_class(pod),
    }
}

/// Guaranteed if everything has limits equal to requests, BestEffort if there are none, Burstable otherwise.
pub(crate) fn compute_qos_class(pod: &JsonObject) -> &'static str {
    let Some(Value::Object(spec)) = pod.get("spec") else {
        return BEST_EFFORT;
    };
    let (mut requests, mut limits) = (ComputeQuantities::default(), ComputeQuantities::default());
    let mut is_guaranteed = true;
    let of_pod = spec
        .get("resources")
        .filter(|resources| resources.is_object());
    if of_pod.is_some() {
        add_compute(&mut requests, of_pod, "requests");
        let has_limits = container_quantities(spec, "limits").next().is_some();
        let limited = add_compute(&mut limits, of_pod, "limits");
        is_guaranteed = limited == QOS_RESOURCES.len() || !has_limits;
    } else {
        let lists = ["containers", "initContainers"].into_iter();
        let containers = lists
            .filter_map(|list| spec.get(list)?.as_array())
            .flatten()
            .filter_map(Value::as_object);
        for container in containers {
            let own = container.get("resources");
            add_compute(&mut requests, own, "requests");
            is_guaranteed &= add_compute(&mut limits, own, "limits") == QOS_RESOURCES.len();
        }
    }
    let is_any = |amounts: &ComputeQuantities| amounts.iter().any(Option::is_some);
    if !is_any(&requests) && !is_any(&limits) {
        BEST_EFFORT
    } else if is_guaranteed && requests == limits {
        GUARANTEED
    } else {
        BURSTABLE
    }
}

/// Adds the positive quantities that determine the class. Returns how many there were.
fn add_compute(sum: &mut ComputeQuantities, resources: Option<&Value>, list: &str) -> usize {
    let amounts = resources.and_then(|resources| resources.get(list));
    let mut count = 0;
    for (sum, name) in sum.iter_mut().zip(QOS_RESOURCES) {
        let amount = amounts.and_then(|amounts| amounts.get(name));
        let Some(Ok(amount)) = amount.map(Quantity::from_json) else {
            continue;
        };
        if amount.sign() > 0 {
            count += 1;
            match sum {
                Some(sum) => sum.add(&amount),
                None => *sum = Some(amount),
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn qos_class_is_computed_from_requests_and_limits() {
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}});
        let half = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}});
        let zero = json!({"limits": {"cpu": "0"}, "requests": {"memory": "0"}});
        let table = [
            (json!({"containers": [{}]}), BEST_EFFORT),
            (json!({"containers": [{"resources": zero}]}), BEST_EFFORT),
            (
                json!({"containers": [{"resources": {"requests": {"example.com/a": "1"}}}]}),
                BEST_EFFORT,
            ),
            (json!({"containers": [{"resources": full}]}), GUARANTEED),
            (json!({"containers": [{"resources": full}, {}]}), BURSTABLE),
            (
                json!({"containers": [{"resources": full}], "initContainers": [{"resources": half}]}),
                BURSTABLE,
            ),
            (json!({"containers": [{"resources": half}]}), BURSTABLE),
            (
                json!({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}}]}),
                BURSTABLE,
            ),
            (json!({"resources": full, "containers": [{}]}), GUARANTEED),
            (
                json!({"resources": half, "containers": [{"resources": full}]}),
                BURSTABLE,
            ),
        ];
        for (spec, want) in table {
            let pod = json!({ "spec": spec });
            assert_eq!(
                compute_qos_class(pod.as_object().expect("an object")),
                want,
                "{pod}"
            );
        }
    }

    #[test]
    fn recorded_qos_class_is_kept() {
        let pod = json!({"spec": {"containers": [{}]}, "status": {"qosClass": "Guaranteed"}});
        assert_eq!(qos_class(pod.as_object().expect("an object")), GUARANTEED);
    }
}
