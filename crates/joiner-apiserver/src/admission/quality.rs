//! The class by which a pod is chosen when memory runs short.

use serde_json::Value;

const COUNTED: [&str; 2] = ["cpu", "memory"];

/// `Guaranteed`, `Burstable` or `BestEffort`. Quantities must be canonical: they are compared as text.
pub(super) fn class(spec: &Value) -> &'static str {
    // Resources of the pod as a whole stand for those of its containers.
    if spec.get("resources").and_then(Value::as_object).is_some_and(|resources| !resources.is_empty()) {
        return of(&[&spec["resources"]]);
    }
    let lists = ["initContainers", "containers"].iter().filter_map(|list| spec.get(*list)?.as_array());
    let containers: Vec<&Value> = lists.flatten().map(|container| &container["resources"]).collect();
    of(&containers)
}

fn of(all: &[&Value]) -> &'static str {
    let (mut asks, mut guaranteed) = (false, true);
    for resources in all {
        let given = |side: &str| {
            let given = resources.get(side).and_then(Value::as_object);
            COUNTED.map(|name| given.and_then(|given| given.get(name)).filter(|amount| **amount != "0"))
        };
        let (requests, limits) = (given("requests"), given("limits"));
        asks |= requests.iter().chain(&limits).any(Option::is_some);
        guaranteed &= limits.iter().all(Option::is_some) && requests == limits;
    }
    match (asks, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::class;
    use serde_json::json;

    #[test]
    fn classes() {
        let whole =
            json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
        let half = json!({"requests": {"cpu": "1"}});
        assert_eq!(class(&json!({"containers": [{"resources": whole}]})), "Guaranteed");
        assert_eq!(class(&json!({"containers": [{"resources": whole}, {"resources": half}]})), "Burstable");
        assert_eq!(class(&json!({"containers": [{"resources": whole}, {}]})), "Burstable");
        assert_eq!(
            class(
                &json!({"containers": [{"resources": {"requests": {"cpu": "0", "example.com/gpu": "1"}}}]})
            ),
            "BestEffort"
        );
        assert_eq!(class(&json!({"containers": [{}], "resources": whole})), "Guaranteed");
    }
}
