//! The words of a rule, each with the place where it begins.

/// One word of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    Name(String),
    /// A name in backquotes; it may stand after a dot and hold more than letters.
    Quoted(String),
    Int(String),
    Uint(String),
    Double(String),
    Text(String),
    Bytes(Vec<u8>),
    /// Operators, brackets and the words that cannot be names.
    Sign(&'static str),
    End,
}

/// Signs, the longer ones before those they begin with.
const SIGNS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
];
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Cuts a text into words with the byte offsets at which they begin; nothing where it cannot be cut.
pub(super) fn words(text: &str) -> Option<Vec<(Word, usize)>> {
    let mut words = Vec::new();
    let mut lexer = Lexer { text, at: 0 };
    loop {
        lexer.skip_blanks();
        let start = lexer.at;
        let word = lexer.word()?;
        let ends = word == Word::End;
        words.push((word, start));
        if ends {
            return Some(words);
        }
    }
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let bare = rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']);
            self.at += rest.len() - bare.len();
            if !bare.starts_with("//") {
                return;
            }
            self.at += bare.find('\n').unwrap_or(bare.len());
        }
    }

    /// Takes as many letters as belong to a class.
    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|letter| !belongs(letter)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn word(&mut self) -> Option<Word> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Some(Word::End) };
        let second = rest.chars().nth(1).unwrap_or(' ');
        if first.is_ascii_digit() || first == '.' && second.is_ascii_digit() {
            return self.number();
        }
        if let Some((bytes, raw, length)) = prefix_of_text(rest) {
            self.at += length;
            let bytes_of_text = self.quoted(raw, bytes)?;
            return Some(if bytes {
                Word::Bytes(bytes_of_text)
            } else {
                Word::Text(String::from_utf8(bytes_of_text).ok()?)
            });
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let name = self.take(|letter| letter.is_ascii_alphanumeric() || letter == '_');
            let keyword = KEYWORDS.into_iter().find(|keyword| *keyword == name);
            return Some(keyword.map_or_else(|| Word::Name(name.to_owned()), Word::Sign));
        }
        if first == '`' {
            self.at += 1;
            let name = self.take(|letter| letter.is_ascii_alphanumeric() || "_.-/ ".contains(letter));
            self.at += 1;
            let closed = self.text.get(self.at - 1..self.at) == Some("`");
            return (closed && !name.is_empty()).then(|| Word::Quoted(name.to_owned()));
        }
        let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
        self.at += sign.len();
        Some(Word::Sign(sign))
    }

    fn number(&mut self) -> Option<Word> {
        let start = self.at;
        if self.rest().starts_with("0x")
            && self.rest()[2..].starts_with(|next: char| next.is_ascii_hexdigit())
        {
            self.at += 2;
            self.take(|letter| letter.is_ascii_hexdigit());
            return Some(self.whole(start));
        }
        let digit = |letter: char| letter.is_ascii_digit();
        self.take(digit);
        let mut double = false;
        if self.rest().strip_prefix('.').is_some_and(|rest| rest.starts_with(digit)) {
            self.at += 1;
            self.take(digit);
            double = true;
        }
        if let Some(rest) = self.rest().strip_prefix(['e', 'E']) {
            let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            if digits.starts_with(digit) {
                self.at += self.rest().len() - digits.len();
                self.take(digit);
                double = true;
            }
        }
        Some(if double { Word::Double(self.text[start..self.at].to_owned()) } else { self.whole(start) })
    }

    /// A whole number, perhaps with the letter that makes it unsigned.
    fn whole(&mut self, start: usize) -> Word {
        let digits = self.text[start..self.at].to_owned();
        if self.rest().starts_with(['u', 'U']) {
            self.at += 1;
            return Word::Uint(digits);
        }
        Word::Int(digits)
    }

    /// The inside of quotes, which begin here.
    fn quoted(&mut self, raw: bool, bytes: bool) -> Option<Vec<u8>> {
        let rest = self.rest();
        let thrice = rest.starts_with("\"\"\"") || rest.starts_with("'''");
        let quote = &rest[..if thrice { 3 } else { 1 }];
        self.at += quote.len();
        let mut inside = Vec::new();
        loop {
            let rest = self.rest();
            if rest.starts_with(quote) {
                self.at += quote.len();
                return Some(inside);
            }
            let letter = rest.chars().next()?;
            if letter == '\\' && !raw {
                self.at += 1;
                self.escape(bytes, &mut inside)?;
                continue;
            }
            if !thrice && matches!(letter, '\n' | '\r') {
                return None;
            }
            self.at += letter.len_utf8();
            push(&mut inside, letter);
        }
    }

    fn escape(&mut self, bytes: bool, inside: &mut Vec<u8>) -> Option<()> {
        let kind = self.rest().chars().next()?;
        self.at += kind.len_utf8();
        let plain = match kind {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '"' | '\'' | '\\' | '?' | '`' => kind,
            'x' | 'X' => return self.code(2, 16, bytes, inside),
            'u' => return self.code(4, 16, false, inside),
            'U' => return self.code(8, 16, false, inside),
            '0'..='3' => {
                self.at -= 1;
                return self.code(3, 8, bytes, inside);
            }
            _ => return None,
        };
        push(inside, plain);
        Some(())
    }

    /// A letter, or in bytes a byte, by its number.
    fn code(&mut self, digits: usize, radix: u32, byte: bool, inside: &mut Vec<u8>) -> Option<()> {
        let code = self.rest().get(..digits)?;
        if !code.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let code = u32::from_str_radix(code, radix).ok()?;
        self.at += digits;
        if byte {
            inside.push(u8::try_from(code).ok()?);
        } else {
            push(inside, char::from_u32(code)?);
        }
        Some(())
    }
}

fn push(inside: &mut Vec<u8>, letter: char) {
    inside.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Whether a text in quotes begins here: whether it is bytes, whether it is raw, and how long what comes before the quotes is.
fn prefix_of_text(rest: &str) -> Option<(bool, bool, usize)> {
    let (bytes, after) = match rest.strip_prefix(['b', 'B']) {
        Some(after) => (true, after),
        None => (false, rest),
    };
    let (raw, after) = match after.strip_prefix(['r', 'R']) {
        Some(after) => (true, after),
        None => (false, after),
    };
    after.starts_with(['"', '\'']).then_some((bytes, raw, rest.len() - after.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_where_they_begin() {
        let found = words("a.b >= -1.5e3 // c\n&& `x-y` in [0x1Fu, .5]").unwrap();
        let signs: Vec<usize> = found.iter().map(|(_, at)| *at).collect();
        assert_eq!(signs, [0, 1, 2, 4, 7, 8, 19, 22, 28, 31, 32, 37, 39, 41, 42]);
        assert_eq!(found[5].0, Word::Double("1.5e3".into()));
        assert_eq!(found[7].0, Word::Quoted("x-y".into()));
        assert_eq!(found[10].0, Word::Uint("0x1F".into()));
        assert_eq!(found[12].0, Word::Double(".5".into()));
    }

    #[test]
    fn texts() {
        for (text, word) in [
            (r"'a\'b'", Word::Text("a'b".into())),
            (r"r'\d'", Word::Text("\\d".into())),
            ("'''a\n'b'''", Word::Text("a\n'b".into())),
            (r"'\x41\u00e4\101'", Word::Text("AäA".into())),
            (r"b'\xff\101'", Word::Bytes(vec![255, 65])),
            ("rb", Word::Name("rb".into())),
        ] {
            assert_eq!(words(text).unwrap()[0].0, word, "{text}");
        }
        for bad in ["'a", "'a\nb'", r"'\z'", "`a", "#", "'\\xzz'"] {
            assert_eq!(words(bad), None, "{bad}");
        }
    }
}
