//! Keys that a YAML document gives twice. The last one counts; whether that is forgiven is the caller's business.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;

/// Options under which repeated keys are read, the last one to count.
pub(crate) fn forgiving() -> serde_saphyr::Options {
    serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins }
}

/// The complaint about keys that are given twice, in the words of Kubernetes; none where none is.
pub(crate) fn repeated_keys(text: &str) -> Option<String> {
    let keys: Keys = serde_saphyr::from_str_with_options(text, forgiving()).ok()?;
    let lines = keys.0.iter().map(|(line, key)| format!("\n  line {line}: key {key:?} already set in map"));
    let lines: String = lines.collect();
    (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:{lines}"))
}

/// Lines and names of the keys that a value repeats, in order.
#[derive(Default)]
struct Keys(Vec<(u64, String)>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Keys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Keys, A::Error> {
        let mut all = Keys::default();
        while let Some(inner) = list.next_element::<Keys>()? {
            all.0.extend(inner.0);
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
        let (mut all, mut met) = (Keys::default(), Vec::new());
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            if met.contains(&key.value) {
                all.0.push((key.referenced.line(), key.value.clone()));
            }
            met.push(key.value);
            all.0.extend(map.next_value::<Keys>()?.0);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repetition_is_told_with_its_line() {
        assert_eq!(repeated_keys("a: 1\nb: [{c: 1}, {c: 2}]\n"), None);
        assert_eq!(
            repeated_keys("a: 1\nb:\n  c: 1\n  c: 2\na: x\n").unwrap(),
            "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  line 5: key \"a\" already set in map"
        );
    }
}
