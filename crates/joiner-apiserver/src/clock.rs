//! Time and chance, handed in from outside.
//!
//! The server asks nobody else for the time or for random names: a simulation hands in its own clock and a seed, and the same
//! requests in the same order give the same answers.

use jiff::Timestamp;
use parking_lot::Mutex;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Tells the server what time it is.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

impl<F: Fn() -> Timestamp + Send + Sync> Clock for F {
    fn now(&self) -> Timestamp {
        self()
    }
}

/// A moment as Kubernetes writes it: whole seconds, UTC.
pub fn format_time(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Letters and digits of generated names: no vowels, nothing that looks like another.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A generated name keeps this much of its prefix.
const LONGEST_PREFIX: usize = 58;

/// The source of uids and generated names.
#[derive(Debug)]
pub struct Chance {
    generator: Mutex<ChaCha8Rng>,
}

impl Chance {
    /// A source that always gives the same sequence for the same seed.
    pub fn new(seed: u64) -> Self {
        Self { generator: Mutex::new(ChaCha8Rng::seed_from_u64(seed)) }
    }

    /// A new uid, in the form of a random UUID.
    pub fn uid(&self) -> String {
        let mut bytes = [0_u8; 16];
        self.generator.lock().fill_bytes(&mut bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(36);
        for (place, byte) in bytes.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for half in [byte >> 4, byte & 15] {
                text.push(char::from(DIGITS[usize::from(half)]));
            }
        }
        text
    }

    /// A number below a limit.
    pub fn below(&self, limit: u32) -> u32 {
        self.generator.lock().random_range(0..limit.max(1))
    }

    /// Five characters that end a generated name.
    pub fn suffix(&self) -> String {
        let mut generator = self.generator.lock();
        (0..5).map(|_| char::from(NAME_ALPHABET[generator.random_range(0..NAME_ALPHABET.len())])).collect()
    }

    /// A name that begins with `prefix`.
    pub fn name(&self, prefix: &str) -> String {
        let kept: String = prefix.chars().take(LONGEST_PREFIX).collect();
        format!("{kept}{}", self.suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_names() {
        let (first, second) = (Chance::new(7), Chance::new(7));
        assert_eq!(first.uid(), second.uid());
        assert_eq!(first.name("web-"), second.name("web-"));
        assert_ne!(first.uid(), Chance::new(8).uid());
        assert_eq!(first.name(&"x".repeat(80)).len(), 63);
        assert_eq!(first.uid().len(), 36);
        assert_eq!(first.uid().as_bytes()[14], b'4');
    }

    #[test]
    fn times_are_whole_seconds() {
        let time: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(format_time(time), "2026-01-02T03:04:05Z");
    }
}
