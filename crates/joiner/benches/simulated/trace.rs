//! A day of scale events from a seed: services that follow the hours, each in its own way, with chance in it.
//!
//! The generator is SplitMix64; nothing else decides, so a seed gives the same day everywhere.

/// A service gets another size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// Seconds since the start.
    pub at: u64,
    /// Which service.
    pub service: usize,
    /// Pods wanted from then on.
    pub replicas: usize,
}

/// The size of all services at the start.
pub fn start(services: usize, usual: usize) -> Vec<usize> {
    (0..services).map(|service| size(service, services, usual, 0, 0.0)).collect()
}

/// So many events of 24 hours, by time.
pub fn day(seed: u64, events: usize, services: usize, usual: usize) -> Vec<Scale> {
    let mut chance = Chance(seed);
    let mut times: Vec<u64> = (0..events).map(|_| chance.next() % 86_400).collect();
    times.sort_unstable();
    times
        .into_iter()
        .map(|at| {
            let service = (chance.next() % services as u64) as usize;
            // Up to a tenth more or less than usual at this hour.
            let noise = (chance.next() % 2001) as f64 / 10_000.0 - 0.1;
            Scale { at, service, replicas: size(service, services, usual, at, noise) }
        })
        .collect()
}

/// Twice as much in the busiest hour as in the quietest; which hour that is, differs from service to service by up to six hours.
fn size(service: usize, services: usize, usual: usize, at: u64, noise: f64) -> usize {
    let shift = service as f64 / services as f64 / 4.0;
    let hour = at as f64 / 86_400.0 + shift;
    let share = 1.0 + (hour * std::f64::consts::TAU).sin() / 3.0;
    (usual as f64 * share * (1.0 + noise)).round() as usize
}

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
