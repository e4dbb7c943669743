//! The class of a pod: how much of what it uses it was promised.

use rhumb_meta::Quantity;
use serde_json::Value;

use super::resources::amounts;
use crate::Object;

pub(crate) const GUARANTEED: &str = "Guaranteed";
pub(crate) const BURSTABLE: &str = "Burstable";
pub(crate) const BEST_EFFORT: &str = "BestEffort";

/// The resources that count for the class.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// How much there is of each, of those of which there is any.
type Amounts = [Option<Quantity>; COUNTED.len()];

/// The class that a pod's status says, or else the one that follows from its spec.
pub(crate) fn class(pod: &Object) -> &str {
    let status = pod.get("status");
    let said = status
        .and_then(|status| status.get("qosClass"))
        .and_then(Value::as_str);
    match said {
        Some(class) if !class.is_empty() => class,
        _ => computed(pod),
    }
}

/// Guaranteed if all has limits that are asked for in full, best effort if nothing has, burstable else.
pub(crate) fn computed(pod: &Object) -> &'static str {
    let Some(Value::Object(spec)) = pod.get("spec") else {
        return BEST_EFFORT;
    };
    let (mut requests, mut limits) = (Amounts::default(), Amounts::default());
    let mut is_guaranteed = true;
    let of_pod = spec
        .get("resources")
        .filter(|resources| resources.is_object());
    if of_pod.is_some() {
        add(&mut requests, of_pod, "requests");
        let has_limits = amounts(spec, "limits").next().is_some();
        let limited = add(&mut limits, of_pod, "limits");
        is_guaranteed = limited == COUNTED.len() || !has_limits;
    } else {
        let lists = ["containers", "initContainers"].into_iter();
        let containers = lists
            .filter_map(|list| spec.get(list)?.as_array())
            .flatten()
            .filter_map(Value::as_object);
        for container in containers {
            let own = container.get("resources");
            add(&mut requests, own, "requests");
            is_guaranteed &= add(&mut limits, own, "limits") == COUNTED.len();
        }
    }
    let is_any = |amounts: &Amounts| amounts.iter().any(Option::is_some);
    if !is_any(&requests) && !is_any(&limits) {
        BEST_EFFORT
    } else if is_guaranteed && requests == limits {
        GUARANTEED
    } else {
        BURSTABLE
    }
}

/// Adds what counts for the class, if more than nothing. Gives how many there were.
fn add(sum: &mut Amounts, resources: Option<&Value>, list: &str) -> usize {
    let amounts = resources.and_then(|resources| resources.get(list));
    let mut count = 0;
    for (sum, name) in sum.iter_mut().zip(COUNTED) {
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
    fn the_class_follows_from_requests_and_limits() {
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
            assert_eq!(computed(pod.as_object().expect("an object")), want, "{pod}");
        }
    }

    #[test]
    fn a_class_once_given_stays() {
        let pod = json!({"spec": {"containers": [{}]}, "status": {"qosClass": "Guaranteed"}});
        assert_eq!(class(pod.as_object().expect("an object")), GUARANTEED);
    }
}
