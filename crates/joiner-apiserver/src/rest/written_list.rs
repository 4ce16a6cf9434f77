//! A list of objects that are written already: it is put together piece by piece, while it is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

/// Items are sent together up to about this length.
const PIECE: usize = 128 * 1024;

/// The text of a list, as the body of an answer. Its length is known before the first piece.
#[derive(Debug)]
pub struct WrittenList {
    /// Everything before the first item.
    beginning: Bytes,
    items: std::vec::IntoIter<Bytes>,
    /// What every item begins with.
    item_beginning: &'static [u8],
    /// Bytes not yet sent.
    left: u64,
    state: State,
    /// Whether an item was sent already.
    begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Beginning,
    Items,
    Done,
}

const END: &[u8] = b"]}\n";

impl WrittenList {
    /// A list from the text up to and including `"items":[`, and its items. `item_beginning` comes before each of them.
    pub(crate) fn new(beginning: Bytes, items: Vec<Bytes>, item_beginning: &'static [u8]) -> Self {
        let commas = items.len().saturating_sub(1);
        let content: usize = items.iter().map(|item| item_beginning.len() + item.len()).sum();
        let length = beginning.len() + content + commas + END.len();
        Self {
            beginning,
            items: items.into_iter(),
            item_beginning,
            left: u64::try_from(length).unwrap_or(u64::MAX),
            state: State::Beginning,
            begun: false,
        }
    }

    /// The next piece; nothing at the end.
    fn next(&mut self) -> Option<Bytes> {
        if self.state == State::Done {
            return None;
        }
        let room = usize::try_from(self.left).unwrap_or(PIECE).min(PIECE + PIECE / 8);
        let mut piece = BytesMut::with_capacity(room);
        if self.state == State::Beginning {
            piece.put_slice(&self.beginning);
            self.state = State::Items;
        }
        while piece.len() < PIECE {
            let Some(item) = self.items.next() else {
                piece.put_slice(END);
                self.state = State::Done;
                break;
            };
            if self.begun {
                piece.put_u8(b',');
            }
            self.begun = true;
            piece.put_slice(self.item_beginning);
            piece.put_slice(&item);
        }
        self.left = self.left.saturating_sub(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        Some(piece.freeze())
    }

    /// All of it at once.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next() {
            whole.extend_from_slice(&piece);
        }
        whole
    }
}

impl Body for WrittenList {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::Done
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_whole_and_its_length_is_told_before() {
        for (count, length) in [(0, 0), (1, 10), (2, PIECE), (7, PIECE / 3), (100, 5000)] {
            let item = Bytes::from(format!("\"a\":\"{}\"}}", "x".repeat(length)));
            let items = vec![item; count];
            let mut list = WrittenList::new(Bytes::from_static(b"{\"items\":["), items, b"{");
            let told = list.size_hint().exact().unwrap();
            let mut whole = Vec::new();
            while let Some(piece) = list.next() {
                whole.extend_from_slice(&piece);
                assert_eq!(list.size_hint().exact(), Some(told - u64::try_from(whole.len()).unwrap()));
            }
            assert_eq!(u64::try_from(whole.len()).unwrap(), told);
            let read: serde_json::Value = serde_json::from_slice(&whole).unwrap();
            assert_eq!(read["items"].as_array().unwrap().len(), count);
        }
    }
}
