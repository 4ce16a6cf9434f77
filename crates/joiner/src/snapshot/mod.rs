//! A cluster as a file: what is read of it, what stays of each object, and how it is written.
//!
//! Everything here is pure: objects in, objects out. [`kinds`] is the list of what is read, in the order of the file: owners before what they
//! own. [`keep`] names the fields that stay, so that what nobody thought of is dropped and not published; [`scrub`] applies it to an
//! object. [`rename`] replaces names by keyed hashes. [`file`](mod@file) puts objects in order and writes them.

pub mod file;
pub mod keep;
pub mod kinds;
pub mod rename;
pub mod scrub;

use aws_lc_rs::hmac;

/// Texts replaced by others that nobody can turn back without the key.
#[derive(Debug)]
pub struct Hashes {
    key: hmac::Key,
}

impl Hashes {
    /// Equal keys give equal hashes.
    pub fn new(key: &str) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()) }
    }

    /// The first bytes of the hash of a text; `purpose` keeps hashes for one thing from telling about another.
    fn bytes(&self, purpose: &str, text: &str) -> [u8; 16] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(purpose.as_bytes());
        context.update(&[0]);
        context.update(text.as_bytes());
        let mut first = [0; 16];
        for (place, byte) in first.iter_mut().zip(context.sign().as_ref()) {
            *place = *byte;
        }
        first
    }

    /// Twelve letters and digits that can be a name, the first a letter.
    pub fn name(&self, text: &str) -> String {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let bytes = self.bytes("name", text);
        let first = char::from(LETTERS[usize::from(bytes[0] % 26)]);
        let rest = bytes[1..12].iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
        std::iter::once(first).chain(rest).collect()
    }

    /// Something of the form of a uid.
    pub fn uid(&self, text: &str) -> String {
        let bytes = self.bytes("uid", text);
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
        format!("{}-{}-4{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_depend_on_key_and_text() {
        let (one, other) = (Hashes::new("a"), Hashes::new("b"));
        assert_eq!(one.name("web"), one.name("web"));
        assert_ne!(one.name("web"), one.name("db"));
        assert_ne!(one.name("web"), other.name("web"));
        assert_eq!(one.name("web").len(), 12);
        assert!(one.name("web").starts_with(|letter: char| letter.is_ascii_lowercase()));
        let uid = one.uid("x");
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
    }
}
