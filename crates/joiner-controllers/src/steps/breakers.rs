//! Breakers: what stops joiner from going on with something that does harm. Each is a rule over facts; what it remembers stands on the objects, so a
//! restart forgets nothing.
//!
//! | breaker | remembered |
//! |---|---|
//! | [`runaway`]: machines that help nobody | annotation of the pool: how many, for which kind of pods, when last |
//! | [`registration`]: machines that do not join | annotation of the pool: how many in a row |
//! | [`cluster_health`]: too many nodes not ready | the conditions of nodes say since when they are ready |
//!
//! The other two stand where their facts are: lists of machines that lack many at once in [`collect`](crate::collect), offerings without capacity in
//! [`Health`](joiner_provider::Health).

pub mod cluster_health;
pub mod registration;
pub mod runaway;
