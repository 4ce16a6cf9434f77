//! A tiny deterministic source of numbers (splitmix64), so that a seed means the same cluster on every machine for ever.

/// The state of the sequence.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// One of the items.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        let place = self.between(0, items.len() as u64 - 1);
        items[place as usize].clone()
    }

    /// `count` different items, in their order.
    pub fn some<T: Clone>(&mut self, items: &[T], count: u64) -> Vec<T> {
        let mut left: Vec<usize> = (0..items.len()).collect();
        while left.len() as u64 > count {
            let place = self.between(0, left.len() as u64 - 1);
            left.remove(place as usize);
        }
        left.into_iter().map(|place| items[place].clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_splitmix64() {
        let mut random = Random::new(1234567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn some_keeps_order_and_count() {
        let mut random = Random::new(1);
        for _ in 0..50 {
            let drawn = random.some(&[1, 2, 3, 4], 2);
            assert!(drawn.len() == 2 && drawn[0] < drawn[1]);
        }
    }
}
