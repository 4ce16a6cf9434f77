//! What expressions are made of: names, calls, lists, maps, messages and literals.

use kube_cel::cel::common::ast::{
    EntryExpr, Expr, IdedEntryExpr, IdedExpr, ListExpr, LiteralValue, MapEntryExpr, MapExpr, StructExpr,
    StructFieldExpr,
};

use super::lexer::Word;
use super::macros;
use super::parser::Parser;

/// Names that mean something in languages, and cannot be names here.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

impl Parser {
    pub fn primary(&mut self) -> Option<IdedExpr> {
        let place = self.place();
        if self.take("(") {
            let inside = self.expression()?;
            self.expect(")")?;
            return Some(inside);
        }
        if self.take("[") {
            return self.list(place);
        }
        if self.take("{") {
            return self.map(place);
        }
        let dotted = self.after(usize::from(self.word() == &Word::Sign(".")));
        if matches!(dotted, Word::Name(_)) { self.named(place) } else { self.literal(place) }
    }

    /// A variable, a function or a message; its name may begin with a dot.
    fn named(&mut self, place: usize) -> Option<IdedExpr> {
        let mut name = if self.take(".") { ".".to_owned() } else { String::new() };
        if let Some(length) = self.message_name() {
            for _ in 0..length {
                match self.word() {
                    Word::Name(part) => name.push_str(part),
                    _ => name.push('.'),
                }
                self.at += 1;
            }
            return self.message(name);
        }
        let own = self.place();
        let bare = self.name()?;
        let reserved = RESERVED.contains(&bare.as_str());
        let fault = format!("reserved identifier: {bare}");
        name.push_str(&bare);
        let open = self.place();
        if self.take("(") {
            let args = self.arguments()?;
            return Some(if reserved {
                self.fault(place, fault)
            } else {
                macros::call(self, open, name, args)
            });
        }
        Some(if reserved { self.fault(place, fault) } else { self.part(own, Expr::Ident(name)) })
    }

    /// How many words the name of a message has, if one begins here: names and dots, then a brace.
    fn message_name(&self) -> Option<usize> {
        let mut length = 0;
        loop {
            if !matches!(self.after(length), Word::Name(_)) {
                return None;
            }
            match self.after(length + 1) {
                Word::Sign(".") => length += 2,
                Word::Sign("{") => return Some(length + 1),
                _ => return None,
            }
        }
    }

    fn message(&mut self, type_name: String) -> Option<IdedExpr> {
        let place = self.place();
        self.expect("{")?;
        let mut entries = Vec::new();
        while !self.take("}") {
            let optional = self.take("?");
            let (Word::Name(field) | Word::Quoted(field)) = self.word().clone() else { return None };
            self.at += 1;
            let colon = self.place();
            self.expect(":")?;
            let value = self.expression()?;
            let id = self.number(colon);
            let entry = EntryExpr::StructField(StructFieldExpr { field, value, optional });
            entries.push(IdedEntryExpr { id, expr: entry });
            self.end_of_entry("}")?;
        }
        Some(self.part(place, Expr::Struct(StructExpr { type_name, entries })))
    }

    /// A comma, or the end.
    fn end_of_entry(&mut self, end: &'static str) -> Option<()> {
        let more = self.take(",");
        (more || self.word() == &Word::Sign(end)).then_some(())
    }

    fn list(&mut self, place: usize) -> Option<IdedExpr> {
        let (mut elements, mut optional_indices) = (Vec::new(), Vec::new());
        while !self.take("]") {
            if self.take("?") {
                optional_indices.push(elements.len());
            }
            elements.push(self.expression()?);
            self.end_of_entry("]")?;
        }
        Some(self.part(place, Expr::List(ListExpr { elements, optional_indices })))
    }

    fn map(&mut self, place: usize) -> Option<IdedExpr> {
        let mut entries = Vec::new();
        while !self.take("}") {
            let optional = self.take("?");
            let key = self.expression()?;
            let colon = self.place();
            self.expect(":")?;
            let value = self.expression()?;
            let id = self.number(colon);
            let entry = EntryExpr::MapEntry(MapEntryExpr { key, value, optional });
            entries.push(IdedEntryExpr { id, expr: entry });
            self.end_of_entry("}")?;
        }
        Some(self.part(place, Expr::Map(MapExpr { entries })))
    }

    fn literal(&mut self, place: usize) -> Option<IdedExpr> {
        let negative = self.take("-");
        let word = self.word().clone();
        self.at += 1;
        let literal = match word {
            Word::Int(digits) => match whole(&digits, negative) {
                Some(number) => LiteralValue::Int(number.into()),
                None => return Some(self.fault(place, "invalid int literal".to_owned())),
            },
            Word::Double(digits) => {
                let number: f64 = digits.parse().ok()?;
                if number.is_infinite() {
                    return Some(self.fault(place, "invalid double literal".to_owned()));
                }
                LiteralValue::Double(if negative { -number } else { number }.into())
            }
            _ if negative => return None,
            Word::Uint(digits) => match unsigned(&digits) {
                Some(number) => LiteralValue::UInt(number.into()),
                None => return Some(self.fault(place, "invalid uint literal".to_owned())),
            },
            Word::Text(text) => LiteralValue::String(text.into()),
            Word::Bytes(bytes) => LiteralValue::Bytes(bytes.into()),
            Word::Sign("true") => LiteralValue::Boolean(true.into()),
            Word::Sign("false") => LiteralValue::Boolean(false.into()),
            Word::Sign("null") => LiteralValue::Null,
            _ => return None,
        };
        Some(self.part(place, Expr::Literal(literal)))
    }
}

fn whole(digits: &str, negative: bool) -> Option<i64> {
    let number = i128::from(unsigned(digits)?);
    i64::try_from(if negative { -number } else { number }).ok()
}

fn unsigned(digits: &str) -> Option<u64> {
    match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}
