//! Text in lines.

/// Text in lines no longer than a width, cut between words; a longer word has a line of its own.
pub fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn lines_fit() {
        assert_eq!(folded("one two three", 7), ["one two", "three"]);
        assert_eq!(folded("a-very-long-word b", 5), ["a-very-long-word", "b"]);
        assert!(folded("", 5).is_empty());
    }
}
