//! Finding the line of a field in a JSON stream, by reading it again and watching where the reader is.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::locate::{Step, steps, steps_to_key};

/// The line of a field of the `item`-th document (from 0) of a file. Only plain files can be read again.
pub fn line_in_file(file: &str, item: usize, path: &str) -> Option<usize> {
    let file = Path::new(file);
    if !std::fs::metadata(file).is_ok_and(|about| about.is_file()) {
        return None;
    }
    line_in_json(std::fs::File::open(file).ok()?, item, path)
}

/// The line of a field in a file with one JSON value. Of a list at the top each item counts as a document.
pub fn line_of_field(file: &str, path: &str) -> Option<usize> {
    let of_list = path.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match of_list.and_then(|(item, rest)| Some((item.parse().ok()?, rest.trim_start_matches('.')))) {
        Some((item, rest)) => line_in_file(file, item, rest),
        None => line_in_file(file, 0, path),
    }
}

/// The line (from 1) of the longest part of a path that is there.
pub fn line_in_json(reader: impl Read, item: usize, path: &str) -> Option<usize> {
    let steps = steps(path);
    let watch = Watch { line: Cell::new(1), left: Cell::new(item), best: Cell::new(None) };
    let reader = Lines { inner: BufReader::new(reader), line: &watch.line };
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    while deserializer.end().is_err() {
        if (TopLevel { watch: &watch, steps: &steps, listed: false }).deserialize(&mut deserializer).is_err()
        {
            break;
        }
    }
    watch.best.get().map(|(_, line)| line)
}

struct Watch {
    /// Where the reader is.
    line: Cell<usize>,
    /// Documents to pass over.
    left: Cell<usize>,
    /// Steps taken along the path, and the line there.
    best: Cell<Option<(usize, usize)>>,
}

impl Watch {
    fn reach(&self, depth: usize) {
        if self.best.get().is_none_or(|(have, _)| depth > have) {
            self.best.set(Some((depth, self.line.get())));
        }
    }
}

/// Counts lines. The reader behind it asks for one byte at a time, so the count is exact.
struct Lines<'a, R> {
    inner: R,
    line: &'a Cell<usize>,
}

impl<R: Read> Read for Lines<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let ends = buffer[..read].iter().filter(|byte| **byte == b'\n').count();
        self.line.set(self.line.get() + ends);
        Ok(read)
    }
}

/// A value at the top, taken apart as the reader of documents does it.
struct TopLevel<'a> {
    watch: &'a Watch,
    steps: &'a [Step],
    /// These are the items of a list.
    listed: bool,
}

impl<'de> DeserializeSeed<'de> for TopLevel<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.listed { deserializer.deserialize_seq(self) } else { deserializer.deserialize_any(self) }
    }
}

impl<'de> Visitor<'de> for TopLevel<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        loop {
            if self.watch.left.get() == 0 {
                let found =
                    items.next_element_seed(Below { watch: self.watch, steps: self.steps, depth: 0 })?;
                return found.map_or(Ok(()), |()| Err(A::Error::custom("found")));
            }
            if items.next_element::<IgnoredAny>()?.is_none() {
                return Ok(());
            }
            self.watch.left.set(self.watch.left.get() - 1);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut listed, mut has_body) = (false, false);
        if self.watch.left.get() == 0 {
            self.watch.reach(0);
        }
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" && !has_body && !listed {
                listed = true;
                self.watch.best.set(None);
                map.next_value_seed(TopLevel { listed, ..self })?;
            } else if !listed
                && self.watch.left.get() == 0
                && let Some(depth) = steps_to_key(&key, self.steps)
            {
                map.next_value_seed(Below { watch: self.watch, steps: self.steps, depth })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            has_body |= key == "spec" || key == "data";
        }
        if listed {
            return Ok(());
        }
        match self.watch.left.get().checked_sub(1) {
            Some(left) => {
                self.watch.left.set(left);
                Ok(())
            }
            None => Err(A::Error::custom("found")),
        }
    }
}

/// A value on the way, so many steps along the path.
struct Below<'a> {
    watch: &'a Watch,
    steps: &'a [Step],
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Below<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.watch.reach(self.depth);
        if self.depth >= self.steps.len() {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Below<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if let Step::Index(wanted) = self.steps[self.depth] {
            for _ in 0..wanted {
                if items.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(());
                }
            }
            items.next_element_seed(Below { depth: self.depth + 1, ..self })?;
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if let Some(taken) = steps_to_key(&key, &self.steps[self.depth..]) {
                map.next_value_seed(Below { depth: self.depth + taken, ..self })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::line_in_json;

    const TEXT: &str = r#"
{"kind": "Pod",
 "spec": {
  "containers": [{"name": "a"},
   {"name": "b",
    "resources": {"a.b/c":
     1}}]}}
{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [
 {"kind": "Node"},
 {"kind": "Node",
  "metadata": {
   "name": 5}}
]}
[{"a": 1},
 {"a": 2}]"#;

    #[test]
    fn lines_of_fields() {
        for (item, path, line) in [
            (0, "kind", Some(2)),
            (0, "spec.containers[1].name", Some(5)),
            (0, "spec.containers[1].resources[a.b/c]", Some(6)),
            (0, "spec.containers[1].resources.a.b/c", Some(6)),
            (0, "spec.containers[7].name", Some(4)),
            (0, "spec.nodeName", Some(3)),
            (0, "", Some(2)),
            (1, "metadata.name", Some(9)),
            (2, "metadata.name", Some(12)),
            (2, "metadata.labels.app", Some(11)),
            (3, "a", Some(14)),
            (4, "a", Some(15)),
            (5, "a", None),
        ] {
            assert_eq!(line_in_json(TEXT.as_bytes(), item, path), line, "{item} {path}");
        }
        for cut in 0..TEXT.len() {
            line_in_json(&TEXT.as_bytes()[..cut], 2, "metadata.name");
        }
    }
}
