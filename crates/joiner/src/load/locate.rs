//! Finding the line of a field, after the fact.

use serde_saphyr::granit_parser::{Event, Parser};

/// One step of a path: a key or an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// Reads `spec.containers[0].image`; keys with dots in brackets: `spec.nodeSelector[a.b/c]`.
pub(super) fn steps(path: &str) -> Vec<Step> {
    let mut out = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = inner.find(']').unwrap_or(inner.len());
            let token = &inner[..end];
            out.push(
                token.parse().map_or_else(|_| Step::Key(token.trim_matches('"').to_owned()), Step::Index),
            );
            rest = inner.get(end + 1..).unwrap_or("");
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end == 0 {
                break;
            }
            let token = &rest[..end];
            out.push(token.parse().map_or_else(|_| Step::Key(token.to_owned()), Step::Index));
            rest = &rest[end..];
        }
    }
    out
}

/// The line (from 1, within the text) of the longest part of a path that is there. JSON is YAML enough for this.
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    let wanted = steps(path);
    let mut best: Option<(usize, usize)> = None;
    // Per open collection: how many steps of the path lead to it (if it is on the way), and where we are in it.
    let mut open: Vec<Frame> = Vec::new();
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { break };
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let depth = enter(&mut open, &wanted, span.start.line(), &mut best);
                open.push(Frame {
                    depth,
                    mapping: matches!(event, Event::MappingStart(..)),
                    index: 0,
                    key: None,
                });
            }
            Event::MappingEnd | Event::SequenceEnd => {
                open.pop();
                leave(&mut open);
            }
            Event::Scalar(value, ..) => {
                let is_key = open.last().is_some_and(|frame| frame.mapping && frame.key.is_none());
                if is_key {
                    if let Some(frame) = open.last_mut() {
                        frame.key = Some((value.to_string(), span.start.line()));
                    }
                } else {
                    enter(&mut open, &wanted, span.start.line(), &mut best);
                    leave(&mut open);
                }
            }
            Event::Alias(..) => leave(&mut open),
            _ => {}
        }
    }
    best.map(|(_, line)| line)
}

struct Frame {
    depth: Option<usize>,
    mapping: bool,
    index: usize,
    key: Option<(String, usize)>,
}

/// A value begins: how far along the path is it, and is that further than anything before?
fn enter(
    open: &mut [Frame],
    wanted: &[Step],
    line: usize,
    best: &mut Option<(usize, usize)>,
) -> Option<usize> {
    let Some(frame) = open.last() else {
        best.get_or_insert((0, line));
        return Some(0);
    };
    let depth = frame.depth?;
    let rest = wanted.get(depth..)?;
    let (taken, line) = match &frame.key {
        Some((key, line)) => (steps_to_key(key, rest)?, *line),
        None => {
            let hit = !frame.mapping && rest.first() == Some(&Step::Index(frame.index));
            (hit.then_some(1)?, line)
        }
    };
    let depth = depth + taken;
    if best.is_none_or(|(have, _)| depth > have) {
        *best = Some((depth, line));
    }
    Some(depth)
}

/// How many steps lead to a key: one, or several if the key has dots and is not in brackets.
pub(super) fn steps_to_key(key: &str, rest: &[Step]) -> Option<usize> {
    let mut left = key;
    for (at, step) in rest.iter().enumerate() {
        let number;
        let name = match step {
            Step::Key(name) => name.as_str(),
            Step::Index(index) => {
                number = index.to_string();
                &number
            }
        };
        left = left.strip_prefix(name)?;
        if left.is_empty() {
            return Some(at + 1);
        }
        left = left.strip_prefix('.')?;
    }
    None
}

/// A value ended: the collection around it moves on.
fn leave(open: &mut [Frame]) {
    if let Some(frame) = open.last_mut() {
        frame.key = None;
        frame.index += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::line_of;

    const TEXT: &str = "kind: Pod\nspec:\n  containers:\n  - name: a\n  - name: b\n    resources:\n      requests: {cpu: x}\n  nodeSelector:\n    a.b/c: d\n";

    #[test]
    fn lines_of_fields() {
        for (path, line) in [
            ("kind", 1),
            ("spec.containers[1].resources.requests.cpu", 7),
            ("spec.containers.1.name", 5),
            ("spec.nodeSelector[a.b/c]", 9),
            ("spec.nodeSelector.a.b/c", 9),
            ("spec.nodeSelector.a", 8),
            ("spec.containers[1].image", 5),
            ("spec.tolerations[0]", 2),
        ] {
            assert_eq!(line_of(TEXT, path), Some(line), "{path}");
        }
    }
}
