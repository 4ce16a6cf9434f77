//! A short provider (`provider.rs`), the cloud it talks to, and the suite that it passes.
//!
//! `docs/guide/write-a-provider.md` walks through it.

mod cloud;
mod provider;

use joiner_provider::conformance;

use crate::cloud::MemoryCloud;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    conformance::assert_conforms(async || MemoryCloud::default()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_provider_conforms() {
        conformance::assert_conforms(async || MemoryCloud::default()).await;
    }
}
