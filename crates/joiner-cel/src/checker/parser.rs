//! Reads a rule into a tree that knows where everything stands.
//!
//! The library that runs rules reads them too, but keeps no places; a fault without its place is no help. What this parser cannot read is
//! left to the library's, whose words about syntax are those of Kubernetes.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::depth::{self, DEEPEST};
use super::faults::Fault;
use super::lexer::{Word, words};
use super::macros;

/// How many parts there may be. Some macros write a part out twice, so a short text can become a large tree.
const MOST_PARTS: usize = 20_000;

/// A rule that was read.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The expression, macros written out.
    pub root: IdedExpr,
    /// Where the parts stand: the byte offset by number of the part.
    pub places: Places,
}

/// The byte offset of each part, by its number.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<usize>);

impl Places {
    pub fn of(&self, id: u64) -> usize {
        usize::try_from(id).ok().and_then(|id| self.0.get(id)).copied().unwrap_or_default()
    }
}

/// Why there is no tree.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It was read, and is wrong.
    Wrong(Vec<Fault>),
    /// It was read as far as anybody goes: what Kubernetes says of that.
    TooDeep(&'static str),
    /// It could not be read to the end.
    Unknown,
}

/// Reads an expression.
pub(crate) fn parse(text: &str) -> Result<Tree, Unread> {
    let words = words(text).ok_or(Unread::Unknown)?;
    let mut parser =
        Parser { words, at: 0, depth: 0, too_deep: None, places: Places::default(), faults: Vec::new() };
    let read = parser.expression().filter(|_| parser.word() == &Word::End);
    if let Some(message) = parser.too_deep {
        return Err(Unread::TooDeep(message));
    }
    let root = read.filter(|_| !parser.is_full()).ok_or(Unread::Unknown)?;
    if depth::is_too_deep(&root) {
        return Err(Unread::TooDeep(depth::TREE_TOO_DEEP));
    }
    if parser.faults.is_empty() {
        Ok(Tree { root, places: parser.places })
    } else {
        Err(Unread::Wrong(parser.faults))
    }
}

/// Reads from the front to the back; each step gives nothing where the text goes on otherwise than it must.
pub(super) struct Parser {
    words: Vec<(Word, usize)>,
    pub at: usize,
    depth: usize,
    too_deep: Option<&'static str>,
    places: Places,
    faults: Vec<Fault>,
}

impl Parser {
    /// A part that stands at a place.
    pub fn part(&mut self, place: usize, expr: Expr) -> IdedExpr {
        IdedExpr { id: self.number(place), expr }
    }

    /// The number of a new part.
    pub fn number(&mut self, place: usize) -> u64 {
        self.places.0.push(place);
        self.places.0.len() as u64 - 1
    }

    /// Whether there are more parts than are looked at.
    pub fn is_full(&self) -> bool {
        self.places.0.len() > MOST_PARTS
    }

    pub fn place_of(&self, part: &IdedExpr) -> usize {
        self.places.of(part.id)
    }

    /// Notes a fault; reading goes on with a part that means nothing.
    pub fn fault(&mut self, place: usize, message: String) -> IdedExpr {
        self.faults.push(Fault { place, message });
        self.part(place, Expr::Unspecified)
    }

    pub fn call(&mut self, place: usize, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.part(place, Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
    }

    pub fn word(&self) -> &Word {
        self.words.get(self.at).map_or(&Word::End, |(word, _)| word)
    }

    pub fn after(&self, count: usize) -> &Word {
        self.words.get(self.at + count).map_or(&Word::End, |(word, _)| word)
    }

    pub fn place(&self) -> usize {
        self.words.get(self.at).map_or(0, |(_, place)| *place)
    }

    /// Takes a sign if it stands here.
    pub fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.word(), Word::Sign(here) if *here == sign);
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, sign: &str) -> Option<()> {
        self.take(sign).then_some(())
    }

    pub fn name(&mut self) -> Option<String> {
        let Word::Name(name) = self.word() else { return None };
        let name = name.clone();
        self.at += 1;
        Some(name)
    }

    /// What follows stands inside something; nothing where that is too deep.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= DEEPEST {
            self.too_deep = Some(depth::TEXT_TOO_DEEP);
            return None;
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    pub fn expression(&mut self) -> Option<IdedExpr> {
        self.deeper(|parser| {
            let condition = parser.either()?;
            let place = parser.place();
            if !parser.take("?") {
                return Some(condition);
            }
            let met = parser.either()?;
            parser.expect(":")?;
            let unmet = parser.expression()?;
            Some(parser.call(place, "_?_:_", vec![condition, met, unmet]))
        })
    }

    fn either(&mut self) -> Option<IdedExpr> {
        self.logical("||", "_||_", |parser| parser.logical("&&", "_&&_", |parser| parser.binary(0)))
    }

    /// Terms between equal signs become a tree that is as flat as can be.
    fn logical(
        &mut self,
        sign: &str,
        name: &str,
        term: impl Fn(&mut Self) -> Option<IdedExpr>,
    ) -> Option<IdedExpr> {
        let (mut terms, mut places) = (vec![term(self)?], Vec::new());
        loop {
            let place = self.place();
            if !self.take(sign) {
                break;
            }
            places.push(place);
            terms.push(term(self)?);
        }
        Some(self.balanced(name, terms, &places))
    }

    fn balanced(&mut self, name: &str, mut terms: Vec<IdedExpr>, places: &[usize]) -> IdedExpr {
        if places.is_empty() {
            return terms.pop().unwrap_or_default();
        }
        let middle = places.len() / 2;
        let right = terms.split_off(middle + 1);
        let left = self.balanced(name, terms, &places[..middle]);
        let right = self.balanced(name, right, &places[middle + 1..]);
        self.call(places[middle], name, vec![left, right])
    }

    /// Relations, sums and products, from the weakest to the strongest.
    fn binary(&mut self, level: usize) -> Option<IdedExpr> {
        const LEVELS: [&[(&str, &str)]; 3] = [
            &[
                ("<", "_<_"),
                ("<=", "_<=_"),
                (">=", "_>=_"),
                (">", "_>_"),
                ("==", "_==_"),
                ("!=", "_!=_"),
                ("in", "@in"),
            ],
            &[("+", "_+_"), ("-", "_-_")],
            &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
        ];
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        let mut length = 0;
        loop {
            let place = self.place();
            let Word::Sign(sign) = self.word() else { return Some(left) };
            let Some((_, name)) = signs.iter().find(|(known, _)| known == sign) else { return Some(left) };
            self.at += 1;
            length += 1;
            self.goes_on(length)?;
            let right = self.deeper(|parser| parser.binary(level + 1))?;
            left = self.call(place, name, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Option<IdedExpr> {
        let number = matches!(self.after(1), Word::Int(_) | Word::Double(_));
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            let place = self.place();
            let mut count = 0;
            // A sign before a number belongs to the number.
            while !(sign == "-" && count == 0 && number) && self.take(sign) {
                count += 1;
            }
            if count > 0 {
                let operand = self.member()?;
                return Some(if count % 2 == 0 { operand } else { self.call(place, name, vec![operand]) });
            }
        }
        self.member()
    }

    fn member(&mut self) -> Option<IdedExpr> {
        let mut operand = self.primary()?;
        let mut length = 0;
        loop {
            length += 1;
            let place = self.place();
            if self.take(".") {
                operand = self.selection(place, operand)?;
            } else if self.take("[") {
                let name = if self.take("?") { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]")?;
                operand = self.call(place, name, vec![operand, index]);
            } else {
                return Some(operand);
            }
            self.goes_on(length)?;
        }
    }

    /// A chain of so many parts; nothing where that is too many.
    fn goes_on(&mut self, length: usize) -> Option<()> {
        if length > DEEPEST {
            self.too_deep = Some(depth::TREE_TOO_DEEP);
        }
        self.too_deep.is_none().then_some(())
    }

    /// What follows a dot: a field, or a function.
    fn selection(&mut self, dot: usize, operand: IdedExpr) -> Option<IdedExpr> {
        let optional = self.take("?");
        let place = self.place();
        let field = match self.word() {
            Word::Name(name) | Word::Quoted(name) => name.clone(),
            _ => return None,
        };
        let callable = matches!(self.word(), Word::Name(_));
        if !callable {
            self.fault(place, "unsupported syntax: '`'".to_owned());
        }
        self.at += 1;
        if optional {
            let field = self.part(place, Expr::Literal(LiteralValue::String(field.into())));
            return Some(self.call(dot, "_?._", vec![operand, field]));
        }
        let open = self.place();
        if callable && self.take("(") {
            let args = self.arguments()?;
            return Some(macros::member_call(self, open, field, operand, args));
        }
        let select = SelectExpr { operand: Box::new(operand), field, test: false };
        Some(self.part(dot, Expr::Select(select)))
    }

    /// Arguments to the closing bracket.
    pub fn arguments(&mut self) -> Option<Vec<IdedExpr>> {
        let mut args = Vec::new();
        if self.take(")") {
            return Some(args);
        }
        loop {
            args.push(self.expression()?);
            if !self.take(",") {
                self.expect(")")?;
                return Some(args);
            }
        }
    }
}
