//! Templates as Go's `text/template` writes them, parsed.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

/// A part of a template.
#[derive(Debug, Clone)]
pub enum Node {
    /// Printed as it is.
    Text(String),
    /// Evaluated and printed.
    Print(Expression),
    /// `$name := …` or `$name = …`.
    Assign { name: String, new: bool, value: Expression },
    /// The first body whose condition is true, else the last.
    If { cases: Vec<(Expression, Vec<Node>)>, otherwise: Vec<Node> },
    /// The body with the value as `.`, if it is not empty.
    With { value: Expression, body: Vec<Node>, otherwise: Vec<Node> },
    /// The body for each item.
    Range { key: Option<String>, item: Option<String>, over: Expression, body: Vec<Node> },
}

/// What can be evaluated.
#[derive(Debug, Clone)]
pub enum Expression {
    /// A constant.
    Constant(Value),
    /// `.a.b`, or `$name.a.b`.
    Field { of: Option<String>, path: Vec<String> },
    /// A function with its arguments.
    Call(String, Vec<Expression>),
}

/// Named templates.
#[derive(Debug, Default)]
pub struct Templates {
    /// By name.
    pub named: BTreeMap<String, Vec<Node>>,
}

impl Templates {
    /// Parses a file, keeping what it defines.
    ///
    /// # Errors
    /// The file is no template.
    pub fn parse(&mut self, file: &str, text: &str) -> Result<Vec<Node>, String> {
        let mut parser = Parser { pieces: pieces(text)?, at: 0, templates: self };
        let (body, end) = parser.body().map_err(|error| format!("{file}: {error}"))?;
        match end {
            None => Ok(body),
            Some(end) => Err(format!("{file}: `{end}` has no beginning")),
        }
    }
}

enum Piece {
    Text(String),
    Action(Vec<Token>),
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    /// `.a.b`; alone it has no names.
    Field(Vec<String>),
    Variable(String, Vec<String>),
    Constant(Value),
    Sign(char),
    Declare,
}

/// Text and actions; dashes have eaten the blanks beside them, comments are gone.
fn pieces(mut text: &str) -> Result<Vec<Piece>, String> {
    let mut found = Vec::new();
    let mut trims = false;
    while let Some(begin) = text.find("{{") {
        let (before, rest) = text.split_at(begin);
        let rest = &rest[2..];
        let end = closing(rest).ok_or("an action is not closed by `}}`")?;
        let (inner, after) = (&rest[..end], &rest[end + 2..]);
        let before = if trims { before.trim_start() } else { before };
        let (inner, before) = match inner.strip_prefix('-') {
            Some(rest) => (rest, before.trim_end()),
            None => (inner, before),
        };
        let inner = match inner.strip_suffix('-') {
            Some(rest) => {
                trims = true;
                rest
            }
            None => {
                trims = false;
                inner
            }
        };
        found.push(Piece::Text(before.to_owned()));
        if !inner.trim().starts_with("/*") {
            found.push(Piece::Action(tokens(inner)?));
        }
        text = after;
    }
    found.push(Piece::Text(if trims { text.trim_start() } else { text }.to_owned()));
    Ok(found)
}

/// Where an action ends: past texts and comments.
fn closing(text: &str) -> Option<usize> {
    let opening = text.trim_start_matches('-').trim_start();
    if opening.starts_with("/*") {
        let end = text.find("*/")?;
        return text[end..].find("}}").map(|more| end + more);
    }
    let mut quoted = None;
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match quoted {
            Some(_) if escaped => escaped = false,
            Some('"') if letter == '\\' => escaped = true,
            Some(quote) if letter == quote => quoted = None,
            Some(_) => {}
            None if letter == '"' || letter == '`' => quoted = Some(letter),
            None if text[at..].starts_with("}}") => return Some(at),
            None => {}
        }
    }
    None
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut letters = text.char_indices().peekable();
    let take = |letters: &mut std::iter::Peekable<std::str::CharIndices>, dots: bool| {
        let mut word = String::new();
        while let Some((_, letter)) =
            letters.next_if(|(_, letter)| is_name(*letter) || dots && *letter == '.')
        {
            word.push(letter);
        }
        word
    };
    while let Some((at, letter)) = letters.next() {
        let token = match letter {
            ' ' | '\n' | '\t' => continue,
            '|' | '(' | ')' | ',' | '=' => Token::Sign(letter),
            ':' if letters.next_if(|(_, next)| *next == '=').is_some() => Token::Declare,
            '.' => Token::Field(names(&take(&mut letters, true))),
            '$' => {
                let word = take(&mut letters, true);
                let (name, path) = word.split_once('.').unwrap_or((&word, ""));
                Token::Variable(name.to_owned(), names(path))
            }
            '"' | '`' => {
                let mut literal = String::new();
                loop {
                    match letters.next() {
                        None => return Err("a text is not closed".to_owned()),
                        Some((_, next)) if next == letter => break,
                        Some((_, '\\')) if letter == '"' => match letters.next() {
                            Some((_, 'n')) => literal.push('\n'),
                            Some((_, 't')) => literal.push('\t'),
                            Some((_, other)) => literal.push(other),
                            None => return Err("a text is not closed".to_owned()),
                        },
                        Some((_, other)) => literal.push(other),
                    }
                }
                Token::Constant(Value::String(literal))
            }
            letter if letter.is_ascii_digit() => {
                let digits = format!("{letter}{}", take(&mut letters, false));
                let number: i64 = digits.parse().map_err(|_| format!("`{digits}` is no number"))?;
                Token::Constant(Value::Number(Number::from(number)))
            }
            letter if is_name(letter) => {
                let word = format!("{letter}{}", take(&mut letters, false));
                match word.as_str() {
                    "true" => Token::Constant(Value::Bool(true)),
                    "false" => Token::Constant(Value::Bool(false)),
                    "nil" => Token::Constant(Value::Null),
                    _ => Token::Word(word),
                }
            }
            _ => return Err(format!("`{}` makes no sense", &text[at..])),
        };
        found.push(token);
    }
    Ok(found)
}

fn names(path: &str) -> Vec<String> {
    path.split('.').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

struct Parser<'t> {
    pieces: Vec<Piece>,
    at: usize,
    templates: &'t mut Templates,
}

impl Parser<'_> {
    /// Nodes up to `end` or `else`, whose words are returned too.
    fn body(&mut self) -> Result<(Vec<Node>, Option<String>), String> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.get_mut(self.at) {
            self.at += 1;
            let tokens = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(std::mem::take(text)));
                    continue;
                }
                Piece::Action(tokens) => std::mem::take(tokens),
            };
            let word = match tokens.first() {
                Some(Token::Word(word)) => word.as_str(),
                _ => "",
            };
            match word {
                "end" | "else" => {
                    // The condition of `else if` is still to be read.
                    let end = word.to_owned();
                    if tokens.len() > 1
                        && let Some(piece) = self.pieces.get_mut(self.at - 1)
                    {
                        *piece = Piece::Action(tokens[1..].to_vec());
                        self.at -= 1;
                    }
                    return Ok((nodes, Some(end)));
                }
                "if" => nodes.push(self.choice(&tokens[1..])?),
                "with" => {
                    let value = expression(&tokens[1..])?;
                    let (body, otherwise) = self.two_bodies()?;
                    nodes.push(Node::With { value, body, otherwise });
                }
                "range" => nodes.push(self.range(&tokens[1..])?),
                "define" => {
                    let Some(Token::Constant(Value::String(name))) = tokens.get(1) else {
                        return Err("`define` has no name".to_owned());
                    };
                    let (body, _) = self.two_bodies()?;
                    self.templates.named.insert(name.clone(), body);
                }
                _ => nodes.push(action(&tokens)?),
            }
        }
        Ok((nodes, None))
    }

    fn choice(&mut self, condition: &[Token]) -> Result<Node, String> {
        let mut cases = Vec::new();
        let mut condition = expression(condition)?;
        loop {
            let (body, end) = self.body()?;
            cases.push((condition, body));
            match end.as_deref() {
                Some("end") => return Ok(Node::If { cases, otherwise: Vec::new() }),
                Some(_) => {}
                None => return Err("an `if` is not closed".to_owned()),
            }
            match self.pieces.get(self.at) {
                Some(Piece::Action(tokens)) if tokens.first() == Some(&Token::Word("if".to_owned())) => {
                    condition = expression(&tokens[1..])?;
                    self.at += 1;
                }
                _ => {
                    let (otherwise, _) = self.body()?;
                    return Ok(Node::If { cases, otherwise });
                }
            }
        }
    }

    fn two_bodies(&mut self) -> Result<(Vec<Node>, Vec<Node>), String> {
        let (body, end) = self.body()?;
        match end.as_deref() {
            Some("end") => Ok((body, Vec::new())),
            Some(_) => Ok((body, self.body()?.0)),
            None => Err("a block is not closed".to_owned()),
        }
    }

    fn range(&mut self, tokens: &[Token]) -> Result<Node, String> {
        let (names, rest) = match tokens.iter().position(|token| *token == Token::Declare) {
            Some(at) => (&tokens[..at], &tokens[at + 1..]),
            None => (&tokens[..0], tokens),
        };
        let mut names = names.iter().filter_map(|token| match token {
            Token::Variable(name, _) => Some(name.clone()),
            _ => None,
        });
        let (key, item) = match (names.next(), names.next()) {
            (Some(key), Some(item)) => (Some(key), Some(item)),
            (item, _) => (None, item),
        };
        let over = expression(rest)?;
        let (body, _) = self.two_bodies()?;
        Ok(Node::Range { key, item, over, body })
    }
}

fn action(tokens: &[Token]) -> Result<Node, String> {
    match tokens {
        [Token::Variable(name, _), sign @ (Token::Declare | Token::Sign('=')), rest @ ..] => {
            Ok(Node::Assign { name: name.clone(), new: *sign == Token::Declare, value: expression(rest)? })
        }
        _ => Ok(Node::Print(expression(tokens)?)),
    }
}

/// A pipeline: each call gets the value before it as its last argument.
fn expression(tokens: &[Token]) -> Result<Expression, String> {
    let mut at = 0;
    let found = pipeline(tokens, &mut at)?;
    match tokens.get(at) {
        None => Ok(found),
        Some(token) => Err(format!("`{token:?}` makes no sense there")),
    }
}

fn pipeline(tokens: &[Token], at: &mut usize) -> Result<Expression, String> {
    let mut value = command(tokens, at)?;
    while tokens.get(*at) == Some(&Token::Sign('|')) {
        *at += 1;
        match command(tokens, at)? {
            Expression::Call(name, mut arguments) => {
                arguments.push(value);
                value = Expression::Call(name, arguments);
            }
            _ => return Err("what follows `|` is no function".to_owned()),
        }
    }
    Ok(value)
}

fn command(tokens: &[Token], at: &mut usize) -> Result<Expression, String> {
    if let Some(Token::Word(name)) = tokens.get(*at) {
        *at += 1;
        let mut arguments = Vec::new();
        while !matches!(tokens.get(*at), None | Some(Token::Sign('|' | ')'))) {
            arguments.push(operand(tokens, at)?);
        }
        return Ok(Expression::Call(name.clone(), arguments));
    }
    operand(tokens, at)
}

fn operand(tokens: &[Token], at: &mut usize) -> Result<Expression, String> {
    let token = tokens.get(*at).ok_or("an expression is missing")?;
    *at += 1;
    Ok(match token {
        Token::Constant(value) => Expression::Constant(value.clone()),
        Token::Field(path) => Expression::Field { of: None, path: path.clone() },
        Token::Variable(name, path) => Expression::Field { of: Some(name.clone()), path: path.clone() },
        Token::Word(name) => Expression::Call(name.clone(), Vec::new()),
        Token::Sign('(') => {
            let inner = pipeline(tokens, at)?;
            if tokens.get(*at) != Some(&Token::Sign(')')) {
                return Err("a bracket is not closed".to_owned());
            }
            *at += 1;
            inner
        }
        other => return Err(format!("`{other:?}` makes no sense there")),
    })
}
