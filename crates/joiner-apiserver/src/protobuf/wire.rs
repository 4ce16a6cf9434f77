//! The wire format of protobuf: numbered fields, each a number or some bytes.

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    /// A whole number of any kind.
    Number(u64),
    /// Eight bytes, a floating point number.
    Eight([u8; 8]),
    /// Four bytes.
    Four([u8; 4]),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
}

/// Reads fields one after the other.
pub(super) struct Wire<'a> {
    rest: &'a [u8],
}

impl<'a> Wire<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// A number in groups of seven bits.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn chunk<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let (chunk, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*chunk)
    }

    fn field(&mut self) -> Option<(u32, Field<'a>)> {
        let tag = self.number()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        let content = match tag & 7 {
            0 => Field::Number(self.number()?),
            1 => Field::Eight(self.chunk()?),
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Field::Bytes(bytes)
            }
            5 => Field::Four(self.chunk()?),
            _ => return None,
        };
        Some((number, content))
    }
}

impl<'a> Iterator for Wire<'a> {
    type Item = Result<(u32, Field<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or_else(|| "unexpected EOF".to_owned()))
    }
}
