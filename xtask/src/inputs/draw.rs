//! Random draws that are the same on every machine.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A stream of draws: seed and stream number together name it.
pub struct Draw(ChaCha8Rng);

impl Draw {
    /// Streams of one seed are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Draw {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Draw(rng)
    }

    /// A whole number in `0..end`. Always 32 bits wide, so that the width of `usize` plays no part.
    pub fn below(&mut self, end: u32) -> u32 {
        self.0.random_range(0..end)
    }

    /// One of the choices, all alike likely.
    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len() as u32) as usize]
    }

    /// An object's uid in the usual form.
    pub fn uid(&mut self) -> String {
        let (high, low): (u64, u64) = (self.0.random(), self.0.random());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        )
    }
}
