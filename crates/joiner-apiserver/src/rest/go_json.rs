//! How Go's JSON reader complains: clients of Kubernetes know its words.

/// The complaint about a text that is no JSON.
pub(crate) fn complaint(text: &str) -> String {
    let mut scanner = Scanner { rest: text.char_indices().peekable() };
    match scanner.value("beginning of value") {
        Err(complaint) => complaint,
        Ok(()) => match scanner.next_token() {
            Some(letter) => format!("invalid character {} after top-level value", quoted(letter)),
            None => "unexpected end of JSON input".to_owned(),
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

struct Scanner<'a> {
    rest: std::iter::Peekable<std::str::CharIndices<'a>>,
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

    fn value(&mut self, looking_for: &str) -> Scan {
        match self.next_token() {
            None => Err(END.to_owned()),
            Some('{') => self.object(),
            Some('[') => self.array(),
            Some('"') => self.string(),
            Some('t') => self.word("true"),
            Some('f') => self.word("false"),
            Some('n') => self.word("null"),
            Some(letter) if letter == '-' || letter.is_ascii_digit() => {
                while self
                    .rest
                    .next_if(|(_, letter)| letter.is_ascii_digit() || "+-.eE".contains(*letter))
                    .is_some()
                {}
                Ok(())
            }
            Some(letter) => Err(Self::wrong(letter, &format!("looking for {looking_for}"))),
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

    fn object(&mut self) -> Scan {
        self.rest.next();
        let mut first = true;
        loop {
            match self.next_token() {
                None => return Err(END.to_owned()),
                Some('}') if first => break,
                Some('"') => self.string()?,
                Some(letter) => {
                    return Err(Self::wrong(letter, "looking for beginning of object key string"));
                }
            }
            match self.next_token() {
                None => return Err(END.to_owned()),
                Some(':') => self.rest.next(),
                Some(letter) => return Err(Self::wrong(letter, "after object key")),
            };
            self.value("beginning of value")?;
            match self.next_token() {
                None => return Err(END.to_owned()),
                Some('}') => break,
                Some(',') => self.rest.next(),
                Some(letter) => return Err(Self::wrong(letter, "after object key:value pair")),
            };
            first = false;
        }
        self.rest.next();
        Ok(())
    }

    fn array(&mut self) -> Scan {
        self.rest.next();
        if self.next_token() == Some(']') {
            self.rest.next();
            return Ok(());
        }
        loop {
            self.value("beginning of value")?;
            match self.next_token() {
                None => return Err(END.to_owned()),
                Some(']') => break,
                Some(',') => self.rest.next(),
                Some(letter) => return Err(Self::wrong(letter, "after array element")),
            };
        }
        self.rest.next();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::complaint;

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
    }
}
