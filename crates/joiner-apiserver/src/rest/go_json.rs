//! How Go's JSON reader complains: clients of Kubernetes know its words.

use crate::fields::MOST_NESTED;

/// The complaint about a text that is no JSON, or nests more deeply than is read.
pub(crate) fn complaint(text: &str) -> String {
    let mut scanner = Scanner { rest: text.char_indices().peekable(), open: Vec::new() };
    match scanner.value() {
        Err(complaint) => complaint,
        Ok(()) => match scanner.next_token() {
            Some(letter) => format!("invalid character {} after top-level value", quoted(letter)),
            None => END.to_owned(),
        },
    }
}

fn quoted(letter: char) -> String {
    match letter {
        '\'' => r"'\''".to_owned(),
        '"' => r#"'"'"#.to_owned(),
        letter => format!("'{letter}'"),
    }
}

/// What a bracket that is still open holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Object,
    Array,
}

struct Scanner<'a> {
    rest: std::iter::Peekable<std::str::CharIndices<'a>>,
    /// The brackets that are open. They are kept here and not on the stack: a client chooses how many there are.
    open: Vec<Inside>,
}

type Scan = Result<(), String>;

const END: &str = "unexpected end of JSON input";

impl Scanner<'_> {
    fn next_token(&mut self) -> Option<char> {
        while let Some((_, letter)) = self.rest.peek().copied() {
            if !matches!(letter, ' ' | '\t' | '\n' | '\r') {
                return Some(letter);
            }
            self.rest.next();
        }
        None
    }

    fn wrong(letter: char, place: &str) -> String {
        format!("invalid character {} {place}", quoted(letter))
    }

    /// A whole value, with all that is in it.
    fn value(&mut self) -> Scan {
        loop {
            let opened = self.beginning()?;
            let letter = self.next_token();
            match (opened, letter) {
                (Some(Inside::Object), Some('}')) | (Some(Inside::Array), Some(']')) => self.close(),
                (Some(Inside::Object), _) => {
                    self.key()?;
                    continue;
                }
                (Some(Inside::Array), _) => continue,
                (None, _) => {}
            }
            if self.after_value()? {
                return Ok(());
            }
        }
    }

    /// The beginning of a value: all of a plain one, or a bracket that opens.
    fn beginning(&mut self) -> Result<Option<Inside>, String> {
        match self.next_token() {
            None => Err(END.to_owned()),
            Some('{') => self.open('{', Inside::Object).map(Some),
            Some('[') => self.open('[', Inside::Array).map(Some),
            Some('"') => self.string().map(|()| None),
            Some('t') => self.word("true").map(|()| None),
            Some('f') => self.word("false").map(|()| None),
            Some('n') => self.word("null").map(|()| None),
            Some(letter) if letter == '-' || letter.is_ascii_digit() => {
                while self
                    .rest
                    .next_if(|(_, letter)| letter.is_ascii_digit() || "+-.eE".contains(*letter))
                    .is_some()
                {}
                Ok(None)
            }
            Some(letter) => Err(Self::wrong(letter, "looking for beginning of value")),
        }
    }

    fn open(&mut self, letter: char, inside: Inside) -> Result<Inside, String> {
        if self.open.len() == MOST_NESTED {
            return Err(Self::wrong(letter, "exceeded max depth"));
        }
        self.rest.next();
        self.open.push(inside);
        Ok(inside)
    }

    fn close(&mut self) {
        self.rest.next();
        self.open.pop();
    }

    /// What follows a value: brackets that close, and a comma if there is more. Says whether all brackets are closed.
    fn after_value(&mut self) -> Result<bool, String> {
        while let Some(inside) = self.open.last().copied() {
            match (inside, self.next_token()) {
                (_, None) => return Err(END.to_owned()),
                (Inside::Object, Some('}')) | (Inside::Array, Some(']')) => self.close(),
                (Inside::Object, Some(',')) => {
                    self.rest.next();
                    self.key()?;
                    return Ok(false);
                }
                (Inside::Array, Some(',')) => {
                    self.rest.next();
                    return Ok(false);
                }
                (Inside::Object, Some(letter)) => {
                    return Err(Self::wrong(letter, "after object key:value pair"));
                }
                (Inside::Array, Some(letter)) => return Err(Self::wrong(letter, "after array element")),
            }
        }
        Ok(true)
    }

    /// The key of a member and the colon after it.
    fn key(&mut self) -> Scan {
        match self.next_token() {
            None => return Err(END.to_owned()),
            Some('"') => self.string()?,
            Some(letter) => return Err(Self::wrong(letter, "looking for beginning of object key string")),
        }
        match self.next_token() {
            None => Err(END.to_owned()),
            Some(':') => {
                self.rest.next();
                Ok(())
            }
            Some(letter) => Err(Self::wrong(letter, "after object key")),
        }
    }

    fn word(&mut self, word: &str) -> Scan {
        for (index, expected) in word.chars().enumerate() {
            match self.rest.next() {
                None => return Err(END.to_owned()),
                Some((_, letter)) if letter != expected => {
                    let place = format!("in literal {word} (expecting {})", quoted(expected));
                    debug_assert!(index > 0, "the first letter was seen");
                    return Err(Self::wrong(letter, &place));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Scan {
        self.rest.next();
        while let Some((_, letter)) = self.rest.next() {
            match letter {
                '"' => return Ok(()),
                '\\' => match self.rest.next() {
                    None => return Err(END.to_owned()),
                    Some((_, letter)) if !"\"\\/bfnrtu".contains(letter) => {
                        return Err(Self::wrong(letter, "in string escape code"));
                    }
                    Some(_) => {}
                },
                letter if (letter as u32) < 0x20 => return Err(Self::wrong(letter, "in string literal")),
                _ => {}
            }
        }
        Err(END.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{END, MOST_NESTED, complaint};

    #[test]
    fn complaints_are_those_of_go() {
        assert_eq!(complaint("{nope"), "invalid character 'n' looking for beginning of object key string");
        assert_eq!(complaint(""), "unexpected end of JSON input");
        assert_eq!(complaint("{\"a\" 1}"), "invalid character '1' after object key");
        assert_eq!(complaint("[1 2]"), "invalid character '2' after array element");
        assert_eq!(complaint("trux"), "invalid character 'x' in literal true (expecting 'e')");
        assert_eq!(complaint("{} x"), "invalid character 'x' after top-level value");
        assert_eq!(
            complaint("{\"a\":1,}"),
            "invalid character '}' looking for beginning of object key string"
        );
        assert_eq!(
            complaint("{\"a\": [[], {}, {\"b\": 1}] ]"),
            "invalid character ']' after object key:value pair"
        );
        assert_eq!(complaint("[1,]"), "invalid character ']' looking for beginning of value");
        assert_eq!(complaint("[]]"), "invalid character ']' after top-level value");
    }

    #[test]
    fn brackets_within_brackets_have_an_end() {
        for (open, letter) in [("[", '['), ("{\"a\":", '{')] {
            let expected = format!("invalid character '{letter}' exceeded max depth");
            assert_eq!(complaint(&open.repeat(1_000_000)), expected);
            assert_eq!(complaint(&open.repeat(MOST_NESTED)), END);
        }
    }
}
