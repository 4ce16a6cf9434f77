//! The cheapest packing against the optimum of small worlds, on a part of the AWS catalogue: price and charges together.

use joiner_oracle::exact::{self, Theme, drawn};
use joiner_oracle::world::World;
use serde_json::Value;

use crate::oracle::seeds;
use crate::support;

fn catalogue() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/data/aws-us-west-2.json");
    let text = std::fs::read_to_string(path).expect("the AWS list is there");
    let all: Vec<Value> = serde_json::from_str(&text).expect("the AWS list is JSON");
    // Families of general use, no larger than any drawn world needs.
    let wanted = |entry: &Value| {
        let name = entry["name"].as_str().expect("a name");
        let general = name.starts_with(['c', 'm', 'r']) && name.as_bytes()[1].is_ascii_digit();
        general && !["metal", "12x", "16x", "18x", "24x", "32x", "48x"].iter().any(|size| name.contains(size))
    };
    all.into_iter().filter(wanted).collect()
}

/// How far above the optimum plans are.
#[derive(Debug, Default)]
struct Gaps {
    worlds: usize,
    refused: usize,
    placeable: usize,
    sum: f64,
    worst: (f64, String),
}

impl Gaps {
    fn mean(&self) -> f64 {
        self.sum / self.worlds as f64
    }
}

/// What a node is charged with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charge {
    /// The default, with which a plan has at most 2.5 times the nodes of the original's.
    Usual,
    /// As much as the default, but given: nodes are not counted.
    Given,
    /// Nothing.
    None,
}

fn gaps(theme: Theme, catalogue: &[Value], seeds: std::ops::Range<u64>, charged: Charge) -> Gaps {
    let mut gaps = Gaps::default();
    for seed in seeds {
        let drawn = drawn(seed, theme, catalogue);
        if let Ok(folder) = std::env::var("JOINER_DUMP") {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": drawn.manifests});
            std::fs::write(format!("{folder}/{theme:?}-{seed}.json"), list.to_string()).expect("writable");
            let types = Value::Array(drawn.types.clone()).to_string();
            std::fs::write(format!("{folder}/{theme:?}-{seed}-types.json"), types).expect("writable");
        }
        let world = World::from_manifests(&drawn.manifests, &drawn.types).expect("drawn worlds are valid");
        let usual = (exact::default_charge(&world) * 1e9).round() / 1e9;
        let charge = if charged == Charge::None { 0.0 } else { usual };
        let given = format!("--node-charge={charge}");
        let mut options = vec!["--packing=cheapest", "--no-lower-bound"];
        if charged != Charge::Usual {
            options.push(&given);
        }
        let plan = support::plan(&drawn.manifests, &drawn.types, &options).expect("drawn worlds are valid");
        let violations = joiner_oracle::checker::check(&world, &plan);
        assert!(violations.is_empty(), "{theme:?} {seed}: {violations:?}");
        let totals = &plan["totals"];
        let most = match charged {
            Charge::Usual => (totals["upstreamNewNodes"].as_f64().expect("a number") * 2.5) as usize,
            _ => exact::MOST_PODS,
        };
        let best = exact::optimum(&world, charge, most).expect("drawn worlds are covered");
        if totals["unschedulable"] != 0 {
            // The optimum is of all pods.
            gaps.refused += 1;
            gaps.placeable += usize::from(best.is_some());
            continue;
        }
        let best = best.unwrap_or_else(|| panic!("{theme:?} {seed}: placed, but there is no optimum"));
        let nodes = totals["newNodes"].as_f64().expect("a number");
        let cost = totals["pricePerHour"].as_f64().expect("a price") + charge * nodes;
        let gap = cost / best - 1.0;
        assert!(gap > -1e-6, "{theme:?} {seed}: ${cost} beats the optimum ${best}");
        gaps.worlds += 1;
        gaps.sum += gap;
        if gap > gaps.worst.0 {
            gaps.worst = (gap, format!("seed {seed}: ${cost:.5} where ${best:.5} is possible"));
        }
    }
    gaps
}

/// Themes with what is demanded of them: the mean gap and the worst. Only rules within a machine are decided by the price: for pods bound to zones the zone that
/// the original's strategy chose is kept, and a pod that wants the company of others stays with the first of them. Either may cost.
const DEMANDS: [(Theme, f64, f64); 6] = [
    (Theme::Sizes, 1e-6, 1e-6),
    (Theme::Access, 1e-6, 1e-6),
    (Theme::Hosts, 1e-6, 1e-6),
    (Theme::Company, 0.005, 0.10),
    (Theme::Zones, 0.01, 0.15),
    (Theme::Mixed, 0.01, 0.35),
];

#[test]
fn small_plans_are_near_the_optimum() {
    let catalogue = catalogue();
    let mut failures = Vec::new();
    for (theme, mean, worst) in DEMANDS {
        for charged in [Charge::Usual, Charge::Given, Charge::None] {
            let gaps = gaps(theme, &catalogue, seeds(0..60), charged);
            let line = format!(
                "{theme:?}, charge {charged:?}: {} worlds, mean {:.3} %, worst {:.2} % ({}), {} with pods refused, {} of them needlessly",
                gaps.worlds,
                100.0 * gaps.mean(),
                100.0 * gaps.worst.0,
                gaps.worst.1,
                gaps.refused,
                gaps.placeable,
            );
            eprintln!("{line}");
            assert!(gaps.worlds >= 2 * gaps.refused, "{line}");
            if gaps.mean() > mean || gaps.worst.0 > worst {
                failures.push(line);
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
