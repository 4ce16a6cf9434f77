//! Packing: one scratch state, and strategies that place pods on it.
//!
//! [`prepared`] is what a snapshot says before any pod is looked at; [`scratch`] holds the state with its undo log; [`template`] what a pool can launch; [`groups`] the topology counts, [`opened`] what new machines change about them, [`suitors`] who waits for whom; [`finder`]
//! finds the next machine worth trying without looking at all of them; [`place`] tries one pod; [`upstream`] is the queue of the
//! original, [`trimming`] what happens between its passes; [`caps`] says what machines count as against limits, [`sharing`] serves pods within limits shared out exactly, [`ceilings`] with smaller machines; [`cheapest`] divides its result over machines anew. A further strategy stands beside them, over the same scratch.

pub(crate) mod caps;
pub(crate) mod ceilings;
pub mod cheapest;
pub mod finder;
pub mod groups;
pub(crate) mod opened;
pub mod place;
pub mod prepared;
pub mod scratch;
pub(crate) mod sharing;
pub(crate) mod suitors;
pub mod template;
pub(crate) mod trimming;
pub mod upstream;
