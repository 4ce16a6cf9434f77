//! What of a machine's price is paid for nothing: the share of unrequested capacity.
//!
//! A machine is sold for its CPUs, its memory and its devices (extended resources, such as GPUs). Its price is divided among those that it has, in
//! equal parts, and of each part as much is waste as pods and daemons leave unrequested of what the machine has for pods. Room for pods and for
//! their files costs little and counts nothing. Devices that nobody in the cluster asks for have no lane and count nothing either.

use crate::model::Names;
use crate::model::names::{CPU, MEMORY};
use crate::model::resources::lane_of;

/// Extended resources that are addresses, not devices.
const ADDRESSES: &str = "vpc.amazonaws.com/";

/// The share of a price, from 0 to 1, that buys what nobody requested. A machine that has nothing for pods is all waste.
pub fn share(names: &Names, used: &[i64], room: &[i64]) -> f64 {
    let is_sold = |lane: &usize| {
        let name = names.lane_text(*lane);
        matches!(*lane, CPU | MEMORY) || name.contains('/') && !name.starts_with(ADDRESSES)
    };
    let (mut unrequested, mut sold) = (0.0, 0.0);
    for lane in (0..names.lane_count()).filter(is_sold) {
        let has = lane_of(room, lane);
        if has > 0 {
            sold += 1.0;
            unrequested += 1.0 - (lane_of(used, lane).clamp(0, has) as f64 / has as f64);
        }
    }
    if sold > 0.0 { unrequested / sold } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_stands_for_an_equal_part_of_the_price() {
        let mut names = Names::default();
        let (gpu, eni) = (names.lane("nvidia.com/gpu"), names.lane("vpc.amazonaws.com/pod-eni"));
        let amounts = |cpu: i64, memory: i64, gpus: i64| {
            let mut amounts = vec![0; names.lane_count()];
            (amounts[CPU], amounts[MEMORY], amounts[gpu]) = (cpu, memory, gpus);
            amounts
        };
        for (used, room, wanted) in [
            (amounts(0, 0, 0), amounts(4, 8, 0), 1.0),
            (amounts(4, 8, 0), amounts(4, 8, 0), 0.0),
            (amounts(1, 8, 0), amounts(4, 8, 0), 0.375),
            // More than there is, as on a node whose pods came before its daemons.
            (amounts(9, -1, 0), amounts(4, 8, 0), 0.5),
            (amounts(4, 8, 0), amounts(4, 8, 2), 1.0 / 3.0),
            (amounts(0, 0, 0), amounts(0, 0, 0), 1.0),
        ] {
            assert!((share(&names, &used, &room) - wanted).abs() < 1e-12, "{used:?} of {room:?}");
        }
        let mut addresses = amounts(4, 8, 0);
        addresses[eni] = 9;
        assert!(share(&names, &amounts(4, 8, 0), &addresses).abs() < 1e-12, "addresses are not sold");
    }
}
