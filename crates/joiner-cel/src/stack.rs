//! Room for reading what stands deep inside something else.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};

/// The library that reads rules takes more than 100 kB for each bracket inside another, and reads 96 of them.
const ROOM: usize = 256 << 20;

/// Does something on a stack of its own. What is not used of it takes no memory.
pub fn with_room<T: Send>(work: impl Fn() -> T + Sync) -> T {
    let done = scope(|threads| match Builder::new().stack_size(ROOM).spawn_scoped(threads, &work) {
        Ok(thread) => Some(thread.join().unwrap_or_else(|panic| resume_unwind(panic))),
        Err(_) => None,
    });
    // Without a thread there is less room, and most rules need none.
    done.unwrap_or_else(work)
}
