//! The price floor: cases worked out by hand, agreement with the linear program written out in full, the laws it
//! must obey, and one production trace whose floor is known.

use joiner_core::bound::{DEFAULT_WORK, Demand, Offer, lower_bound};
use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use proptest::prelude::*;

const PLENTY: u64 = 1 << 40;

fn offer(dollars: f64, allocatable: &[i64]) -> Offer<'static> {
    Offer { price_nano_usd: (dollars * 1e9).round() as i64, allocatable: allocatable.to_vec().into() }
}

fn demand(count: u64, requests: &[i64], offers: &[u32]) -> Demand {
    Demand { count, requests: requests.to_vec(), offers: offers.into(), apart: Vec::new() }
}

#[track_caller]
fn check(demands: &[Demand], offers: &[Offer], dollars: f64) {
    let bound = lower_bound(demands, offers, PLENTY).expect("the budget is ample");
    assert!((bound - dollars).abs() <= 1e-6 * dollars.max(1e-3), "expected {dollars}, got {bound}");
    assert!(bound <= dollars * (1.0 + 1e-12), "{bound} is above the truth, {dollars}");
}

#[test]
fn nothing_to_place_costs_nothing() {
    check(&[], &[], 0.0);
    check(&[], &[offer(1.0, &[4])], 0.0);
    check(&[demand(0, &[1], &[0])], &[offer(1.0, &[4])], 0.0);
}

#[test]
fn one_resource_is_bought_in_proportion() {
    // Ten pods of one fill two and a half machines of four.
    check(&[demand(10, &[1], &[0])], &[offer(1.0, &[4])], 2.5);
}

#[test]
fn the_scarcer_resource_decides() {
    check(&[demand(10, &[1, 3], &[0])], &[offer(1.0, &[4, 6])], 5.0);
}

#[test]
fn pods_that_complement_each_other_share_a_machine() {
    let demands = [demand(4, &[3, 1], &[0]), demand(4, &[1, 3], &[0])];
    check(&demands, &[offer(1.0, &[4, 4])], 4.0);
}

#[test]
fn the_cheaper_offering_per_pod_wins() {
    let offers = [offer(1.0, &[4]), offer(1.5, &[8])];
    check(&[demand(16, &[1], &[0, 1])], &offers, 3.0);
    check(&[demand(16, &[1], &[0])], &offers, 4.0);
}

#[test]
fn a_pod_cannot_use_part_of_a_machine_that_is_too_small() {
    // By size alone the small machine would be cheaper: 6 / 4 × 1.0 = 1.5.
    check(&[demand(1, &[6], &[0, 1])], &[offer(1.0, &[4]), offer(2.0, &[8])], 1.5);
    check(&[demand(1, &[6], &[0, 1])], &[offer(1.0, &[4]), offer(4.0, &[8])], 3.0);
}

#[test]
fn pods_nothing_holds_are_left_out() {
    let demands =
        [demand(10, &[1], &[0]), demand(5, &[100], &[0]), demand(5, &[1], &[]), demand(1, &[1], &[9])];
    check(&demands, &[offer(1.0, &[4])], 2.5);
}

#[test]
fn pods_without_requests_are_free() {
    check(&[demand(10, &[0, 0], &[0])], &[offer(1.0, &[4, 4])], 0.0);
    check(&[demand(10, &[0, 1], &[0])], &[offer(1.0, &[0, 4])], 2.5);
}

#[test]
fn free_and_negative_machines_do_no_harm() {
    check(&[demand(10, &[1], &[0, 1])], &[offer(1.0, &[4]), offer(0.0, &[2])], 0.0);
    check(&[demand(10, &[1], &[0, 1])], &[offer(1.0, &[4]), offer(0.1, &[-2])], 2.5);
}

#[test]
fn lanes_of_unequal_length_count_as_zero() {
    check(&[demand(10, &[1, 1], &[0, 1])], &[offer(1.0, &[4]), offer(2.0, &[4, 4])], 5.0);
}

#[test]
fn an_exclusive_group_takes_a_machine_each() {
    let mut apart = demand(6, &[1], &[0]);
    apart.apart = vec![(7, 1)];
    check(std::slice::from_ref(&apart), &[offer(1.0, &[100])], 6.0);
    // Others fit beside them for nothing.
    check(&[apart.clone(), demand(594, &[1], &[0])], &[offer(1.0, &[100])], 6.0);
    check(&[apart.clone(), demand(694, &[1], &[0])], &[offer(1.0, &[100])], 7.0);
    // Two groups do not mind each other; two classes of one group do.
    let mut other = apart.clone();
    other.apart = vec![(8, 1)];
    check(&[apart.clone(), other.clone()], &[offer(1.0, &[100])], 6.0);
    other.apart = vec![(7, 1)];
    other.requests = vec![2];
    check(&[apart.clone(), other], &[offer(1.0, &[100])], 12.0);
    // The smallest machine is best for pods that cannot share.
    check(&[Demand { offers: [0, 1].into(), ..apart }], &[offer(1.0, &[100]), offer(0.25, &[2])], 1.5);
}

#[test]
fn a_group_of_which_a_machine_holds_a_few_takes_a_machine_for_each_few() {
    let few = Demand { apart: vec![(7, 3)], ..demand(6, &[1], &[0]) };
    check(std::slice::from_ref(&few), &[offer(1.0, &[100])], 2.0);
    check(&[few.clone(), demand(194, &[1], &[0])], &[offer(1.0, &[100])], 2.0);
    // The stricter of two rules counts.
    check(&[Demand { apart: vec![(7, 3), (7, 2)], ..few }], &[offer(1.0, &[100])], 3.0);
}

#[test]
fn an_exclusive_group_without_requests_still_takes_machines() {
    let alone = Demand { count: 3, requests: vec![0], offers: [0, 1].into(), apart: vec![(1, 1)] };
    check(&[alone], &[offer(1.0, &[4]), offer(0.5, &[1])], 1.5);
}

#[test]
fn a_budget_cut_short_gives_no_answer_and_never_a_weak_one() {
    let (demands, offers) = fleet(60, 40);
    assert_eq!(lower_bound(&demands, &offers, 10), None);
    let full = lower_bound(&demands, &offers, PLENTY).expect("the budget is ample");
    let answers: Vec<Option<f64>> = (10..36).map(|bits| lower_bound(&demands, &offers, 1 << bits)).collect();
    let enough = answers.iter().position(Option::is_some).expect("some of these budgets are ample");
    assert!(enough > 3, "small budgets are tried");
    // More budget never takes an answer away or changes it.
    assert!(answers[enough..].iter().all(|answer| *answer == Some(full)), "{answers:?}");
}

#[test]
fn the_default_budget_is_enough_for_hundreds_of_kinds_of_pods() {
    let (demands, offers) = fleet(150, 200);
    let bound = lower_bound(&demands, &offers, DEFAULT_WORK);
    assert_eq!(bound, lower_bound(&demands, &offers, PLENTY));
    assert!(bound.is_some());
}

#[test]
fn an_offering_that_another_beats_per_dollar_changes_nothing() {
    // Half of the large machine holds what the small one holds, and costs less.
    let demands = [demand(10, &[1, 2], &[0, 1]), demand(10, &[2, 1], &[0, 1])];
    let (small, large) = (offer(1.0, &[4, 4]), offer(1.8, &[8, 8]));
    check(&demands, &[small.clone(), large.clone()], 6.75);
    // Not where the pods may not use it, and not where machines are needed for their number.
    let confined = [demand(10, &[1, 2], &[0]), demand(10, &[2, 1], &[0])];
    check(&confined, &[small.clone(), large.clone()], 7.5);
    let apart = demands.map(|demand| Demand { apart: vec![(1, 1)], ..demand });
    check(&apart, &[small, large], 20.0);
}

#[test]
fn pods_of_one_mixture_count_by_size() {
    let offers = [offer(1.0, &[8, 4]), offer(1.0, &[4, 8])];
    let one = [demand(12, &[1, 2], &[0, 1]), demand(9, &[2, 1], &[0, 1])];
    let several = [
        demand(4, &[1, 2], &[0, 1]),
        demand(4, &[2, 4], &[0, 1]),
        demand(3, &[2, 1], &[0, 1]),
        demand(3, &[4, 2], &[0, 1]),
    ];
    let expected = by_full_program(&several, &offers);
    check(&one, &offers, expected);
    check(&several, &offers, expected);
    // With one machine to use, only the sums matter: 24 and 33 of 8 and 4 each.
    let confined = [demand(6, &[1, 2], &[0]), demand(3, &[2, 3], &[0]), demand(4, &[3, 3], &[0])];
    check(&confined, &offers, 33.0 / 4.0);
}

#[test]
fn a_lane_that_is_never_full_first_changes_nothing() {
    // Pods take at least a fourth of the first lane and at most a tenth of the last.
    let demands = [demand(6, &[1, 3, 1], &[0, 1]), demand(5, &[2, 1, 1], &[0, 1])];
    let with = [offer(1.0, &[4, 6, 10]), offer(2.0, &[8, 14, 20])];
    let without: Vec<Offer> =
        with.iter().map(|o| Offer { allocatable: o.allocatable[..2].to_vec().into(), ..o.clone() }).collect();
    let bare = demands.clone().map(|demand| Demand { requests: demand.requests[..2].to_vec(), ..demand });
    check(&demands, &with, by_full_program(&bare, &without));
    check(&bare, &without, by_full_program(&demands, &with));
}

#[test]
fn machines_between_two_others_do_not_slow_it_down() {
    // Each size is a mixture of the smallest and the largest but for the rounding of prices and amounts.
    let offers: Vec<Offer> = (1..=120i64)
        .map(|cpu| Offer {
            price_nano_usd: cpu * 314_748_365 / 7,
            allocatable: vec![cpu * 1000 - 100, cpu * 2047, 110].into(),
        })
        .collect();
    let demands: Vec<Demand> = (0..40i64)
        .map(|index| Demand {
            count: 3 + index as u64,
            requests: vec![100 + 61 * index, 3000 - 50 * index, 1],
            offers: (0..120).collect(),
            apart: if index % 5 == 0 { vec![(1, 1)] } else { Vec::new() },
        })
        .collect();
    let few: Vec<u32> = (0..120).step_by(7).collect();
    let full = lower_bound(&demands, &offers, DEFAULT_WORK).expect("the budget is ample");
    let fewer: Vec<Demand> =
        demands.iter().map(|demand| Demand { offers: few[..].into(), ..demand.clone() }).collect();
    assert!(full <= lower_bound(&fewer, &offers, DEFAULT_WORK).expect("the budget is ample") * (1.0 + 1e-6));
}

#[test]
fn huge_numbers_do_not_overflow() {
    let gib = 1i64 << 30;
    let demands = [demand(u64::MAX, &[1, gib], &[0, 1]), demand(u64::MAX, &[1, gib], &[0, 1])];
    let bound =
        lower_bound(&demands, &[offer(1.0, &[64, 256 * gib]), offer(3.0, &[i64::MAX, i64::MAX])], PLENTY);
    assert!(bound.is_some_and(f64::is_finite));
}

#[test]
fn a_production_trace_has_its_known_floor() {
    let mut demands = Vec::new();
    for line in include_str!("data/openb-default-shapes.csv").lines().skip(1) {
        let fields: Vec<i64> = line.split(',').map(|field| field.parse().expect("a number")).collect();
        let offers = (0..36).collect();
        demands.push(Demand {
            count: fields[2] as u64,
            requests: vec![fields[0], fields[1], 1],
            offers,
            apart: Vec::new(),
        });
    }
    assert_eq!(demands.iter().map(|demand| demand.count).sum::<u64>(), 8152);
    let mut offers = Vec::new();
    for cpu in [1i64, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256] {
        for factor in [2, 4, 8] {
            let gib = cpu * factor;
            let price = 0.025 * cpu as f64 + 0.001 * (gib << 30) as f64 / 1e9;
            offers.push(offer(price, &[cpu * 1000, gib * 1024, (16 * cpu).min(1024)]));
        }
    }
    let bound = lower_bound(&demands, &offers, PLENTY).expect("the budget is ample");
    assert!((bound - 2454.19).abs() < 0.005, "{bound}");
}

/// The program as the module documentation states it, all of it at once.
fn by_full_program(demands: &[Demand], offers: &[Offer]) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let bought: Vec<Variable> = offers
        .iter()
        .map(|offer| problem.add_var(offer.price_nano_usd as f64 * 1e-9, (0.0, f64::INFINITY)))
        .collect();
    let mut placed: Vec<Vec<(usize, Variable)>> = vec![Vec::new(); offers.len()];
    for (index, demand) in demands.iter().enumerate() {
        let fits = |offer: u32| {
            let allocatable = &offers[offer as usize].allocatable;
            demand
                .requests
                .iter()
                .zip(allocatable.iter())
                .all(|(request, amount)| request <= amount || *request == 0)
        };
        let usable: Vec<u32> = demand.offers.iter().copied().filter(|&offer| fits(offer)).collect();
        if usable.is_empty() {
            continue;
        }
        let mut sum = Vec::new();
        for offer in usable {
            let part = problem.add_var(0.0, (0.0, f64::INFINITY));
            placed[offer as usize].push((index, part));
            sum.push((part, 1.0));
        }
        problem.add_constraint(sum, ComparisonOp::Eq, demand.count as f64);
    }
    for (index, offer) in offers.iter().enumerate() {
        for (lane, &amount) in offer.allocatable.iter().enumerate() {
            let mut row: Vec<(Variable, f64)> = placed[index]
                .iter()
                .map(|&(class, part)| (part, demands[class].requests[lane] as f64))
                .filter(|(_, request)| *request > 0.0)
                .collect();
            row.push((bought[index], -(amount as f64)));
            problem.add_constraint(row, ComparisonOp::Le, 0.0);
        }
        let mut groups: Vec<u32> =
            demands.iter().flat_map(|demand| demand.apart.iter().map(|(group, _)| *group)).collect();
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            let share = |class: usize| {
                let caps = demands[class].apart.iter().filter(|(own, _)| *own == group);
                caps.map(|(_, most)| 1.0 / f64::from(*most)).fold(0.0, f64::max)
            };
            let members = placed[index].iter().map(|&(class, part)| (part, share(class)));
            let mut row: Vec<(Variable, f64)> = members.filter(|(_, share)| *share > 0.0).collect();
            row.push((bought[index], -1.0));
            problem.add_constraint(row, ComparisonOp::Le, 0.0);
        }
    }
    let solution =
        problem.solve().expect("feasible by construction").into_solution().expect("no limit is set");
    solution.objective()
}

/// A repeatable fleet with prices that follow size, less regularly than a formula.
fn fleet(shapes: u64, types: u64) -> (Vec<Demand>, Vec<Offer<'static>>) {
    let mut state = 7u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let offers: Vec<Offer> = (0..types)
        .map(|_| {
            let cpu = 1 << next(7);
            let memory = cpu << (1 + next(3));
            let price = (25 * cpu + 4 * memory) as f64 * (80 + next(40)) as f64 / 100_000.0;
            offer(price, &[cpu as i64 * 1000, memory as i64 * 1024, 110])
        })
        .collect();
    let demands = (0..shapes)
        .map(|index| {
            let cpu = 50 + next(4000) as i64;
            let offers = (0..types as u32).filter(|_| next(4) > 0).collect();
            let apart =
                if next(8) == 0 { vec![((index % 3) as u32, 1 + (index % 2) as u32)] } else { Vec::new() };
            Demand {
                count: 1 + next(40),
                requests: vec![cpu, cpu * (1 + next(12) as i64) / 2, 1],
                offers,
                apart,
            }
        })
        .collect();
    (demands, offers)
}

#[test]
fn a_middling_fleet_agrees_with_the_full_program() {
    let (demands, offers) = fleet(40, 30);
    check(&demands, &offers, by_full_program(&demands, &offers));
    // Many classes, few machines.
    let (demands, offers) = fleet(230, 12);
    check(&demands, &offers, by_full_program(&demands, &offers));
}

fn any_offer() -> impl Strategy<Value = Offer<'static>> {
    (1i64..5_000, prop::collection::vec(0i64..60, 3)).prop_map(|(price, allocatable)| Offer {
        price_nano_usd: price * 1_000_000,
        allocatable: allocatable.into(),
    })
}

fn any_demand(offers: u32) -> impl Strategy<Value = Demand> {
    let requests = prop::collection::vec(prop_oneof![2 => Just(0i64), 5 => 1i64..20], 3);
    let apart = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec((0u32..3, 1u32..5), 1..3)];
    (1u64..40, requests, prop::collection::btree_set(0..offers, 0..=offers as usize), apart).prop_map(
        |(count, requests, offers, apart)| Demand {
            count,
            requests,
            offers: offers.into_iter().collect(),
            apart,
        },
    )
}

fn any_input() -> impl Strategy<Value = (Vec<Demand>, Vec<Offer<'static>>)> {
    (1u32..10).prop_flat_map(|offers| {
        (
            prop::collection::vec(any_demand(offers), 1..12),
            prop::collection::vec(any_offer(), offers as usize),
        )
    })
}

fn floor(demands: &[Demand], offers: &[Offer]) -> f64 {
    lower_bound(demands, offers, PLENTY).expect("the budget is ample")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_full_program((demands, offers) in any_input()) {
        let (bound, expected) = (floor(&demands, &offers), by_full_program(&demands, &offers));
        prop_assert!(bound <= expected * (1.0 + 1e-7) + 1e-9, "{bound} is above {expected}");
        prop_assert!(bound >= expected * (1.0 - 1e-6) - 1e-9, "{bound} is below {expected}");
    }

    #[test]
    fn another_offering_never_raises_it((demands, offers) in any_input(), extra in any_offer()) {
        // Only pods that could be placed before: others start to count when something holds them.
        let placeable = |demand: &Demand| demand.offers.iter().any(|&offer| {
            demand.requests.iter().zip(offers[offer as usize].allocatable.iter()).all(|(request, amount)| request <= amount)
        });
        let mut demands: Vec<Demand> = demands.into_iter().filter(placeable).collect();
        let before = floor(&demands, &offers);
        let mut more = offers.clone();
        more.push(extra);
        demands.iter_mut().for_each(|demand| demand.offers = demand.offers.iter().copied().chain([offers.len() as u32]).collect());
        let after = floor(&demands, &more);
        prop_assert!(after <= before * (1.0 + 1e-6) + 1e-9, "{after} > {before}");
    }

    #[test]
    fn more_pods_never_lower_it((demands, offers) in any_input(), which in 0usize..12, extra in 1u64..20) {
        let before = floor(&demands, &offers);
        let mut more = demands.clone();
        let which = which % more.len();
        more[which].count += extra;
        let after = floor(&more, &offers);
        prop_assert!(after >= before * (1.0 - 1e-6) - 1e-9, "{after} < {before}");
    }

    #[test]
    fn half_the_prices_give_half_the_floor((demands, offers) in any_input()) {
        let before = floor(&demands, &offers);
        let halved: Vec<Offer> = offers
            .iter()
            .map(|offer| Offer { price_nano_usd: offer.price_nano_usd / 2, ..offer.clone() })
            .collect();
        let after = floor(&demands, &halved);
        prop_assert!((after * 2.0 - before).abs() <= 1e-6 * before + 1e-9, "{after} × 2 ≠ {before}");
    }

    #[test]
    fn splitting_a_demand_or_shuffling_changes_nothing((demands, offers) in any_input()) {
        let before = floor(&demands, &offers);
        let mut split: Vec<Demand> = demands.iter().rev().cloned().collect();
        split.extend(demands.iter().cloned().map(|demand| Demand { count: 0, ..demand }));
        let first = split[0].clone();
        split[0].count -= first.count / 2;
        split.push(Demand { count: first.count / 2, ..first });
        let after = floor(&split, &offers);
        prop_assert!((after - before).abs() <= 1e-6 * before + 1e-9, "{after} ≠ {before}");
    }
}
