//! Rust source as words and signs, without comments, texts and test modules: enough to find names of the standard library
//! without mistaking a comment for code.

/// A word or a sign of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The word, or one sign (`::` counts as one).
    pub text: String,
    /// Line, from 1.
    pub line: usize,
    /// Inside a `#[cfg(test)]` item.
    pub in_test: bool,
}

/// Splits a source file.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut reader = Reader { chars: source.chars().collect(), at: 0, line: 1 };
    let mut tokens = Vec::new();
    while let Some(next) = reader.peek(0) {
        if let Some(text) = reader.token(next) {
            tokens.push(Token { text, line: reader.line, in_test: false });
        }
    }
    mark_tests(&mut tokens);
    tokens
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn skip(&mut self) {
        if self.peek(0) == Some('\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    /// Reads one token, or skips blanks, a comment or a literal.
    fn token(&mut self, next: char) -> Option<String> {
        match (next, self.peek(1)) {
            ('/', Some('/')) => self.skip_while(|c| c != '\n'),
            ('/', Some('*')) => self.skip_block_comment(),
            ('"', _) => self.skip_text(),
            ('r' | 'b' | 'c', _) if self.raw_text_hashes().is_some() => self.skip_raw_text(),
            ('b' | 'c', Some('"')) => {
                self.skip();
                self.skip_text();
            }
            ('\'', _) => self.skip_char_or_lifetime(),
            (c, _) if c.is_alphabetic() || c == '_' => {
                let start = self.at;
                self.skip_while(|c| c.is_alphanumeric() || c == '_');
                return Some(self.chars[start..self.at].iter().collect());
            }
            (c, _) if c.is_numeric() => self.skip_while(|c| c.is_alphanumeric() || c == '_'),
            (':', Some(':')) => {
                self.at += 2;
                return Some("::".into());
            }
            (c, _) if c.is_whitespace() => self.skip(),
            (c, _) => {
                self.skip();
                return Some(c.to_string());
            }
        }
        None
    }

    fn skip_while(&mut self, holds: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&holds) {
            self.skip();
        }
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.skip();
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                break;
            }
        }
    }

    fn skip_text(&mut self) {
        self.skip();
        while let Some(c) = self.peek(0) {
            self.skip();
            match c {
                '\\' => self.skip(),
                '"' => break,
                _ => {}
            }
        }
    }

    /// Number of `#` if a raw text starts here: `r"`, `r#"`, `br##"`.
    fn raw_text_hashes(&self) -> Option<usize> {
        let mut ahead = usize::from(self.peek(0) != Some('r'));
        if self.peek(ahead) != Some('r') {
            return None;
        }
        ahead += 1;
        let hashes = (ahead..).take_while(|at| self.peek(*at) == Some('#')).count();
        (self.peek(ahead + hashes) == Some('"')).then_some(hashes)
    }

    fn skip_raw_text(&mut self) {
        let hashes = self.raw_text_hashes().unwrap_or(0);
        self.skip_while(|c| c != '"');
        self.skip();
        while let Some(c) = self.peek(0) {
            self.skip();
            if c == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                self.at += hashes;
                break;
            }
        }
    }

    /// `'x'` and `'\n'` are characters, `'a` without a closing quote is a lifetime.
    fn skip_char_or_lifetime(&mut self) {
        self.skip();
        if self.peek(0) == Some('\\') {
            self.skip();
            self.skip();
            self.skip_while(|c| c != '\'');
            self.skip();
        } else if self.peek(1) == Some('\'') {
            self.skip();
            self.skip();
        } else {
            self.skip_while(|c| c.is_alphanumeric() || c == '_');
        }
    }
}

/// Marks the item after each `#[cfg(test)]`: up to its closing brace, or its `;`.
fn mark_tests(tokens: &mut [Token]) {
    let mut at = 0;
    while at < tokens.len() {
        let opens = ["#", "[", "cfg", "(", "test", ")", "]"]
            .iter()
            .enumerate()
            .all(|(ahead, text)| tokens.get(at + ahead).is_some_and(|token| token.text == *text));
        if !opens {
            at += 1;
            continue;
        }
        let mut depth = 0;
        at += 7;
        while let Some(token) = tokens.get_mut(at) {
            token.in_test = true;
            at += 1;
            match token.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                ";" if depth == 0 => break,
                _ => continue,
            }
            if depth == 0 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        tokens(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_texts_are_no_tokens() {
        assert_eq!(words("a // b\n/* c /* d */ e */ f"), ["a", "f"]);
        assert_eq!(words(r##"a "std::fs" r#"x " y"# b'c' '\'' 'x' b"z" d"##), ["a", "b", "d"]);
        assert_eq!(words("f<'a>(&'static str)"), ["f", "<", ">", "(", "&", "str", ")"]);
    }

    #[test]
    fn lines_are_counted_through_texts() {
        let all = tokens("a\n\"two\nlines\"\nb");
        assert_eq!(all[1], Token { text: "b".into(), line: 4, in_test: false });
    }

    #[test]
    fn test_modules_are_marked_and_nothing_after_them() {
        let all = tokens("x #[cfg(test)] mod t { use y; fn z() {} } w #[cfg(test)] mod u; v");
        let in_test = |name: &str| all.iter().find(|token| token.text == name).unwrap().in_test;
        assert!(
            !in_test("x") && in_test("y") && in_test("z") && !in_test("w") && in_test("u") && !in_test("v")
        );
    }
}
