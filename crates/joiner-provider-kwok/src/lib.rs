//! The KWOK provider's catalogue: which machines there are, what they hold and what they cost.
//!
//! KWOK machines have no kubelet and no cloud behind them, so the list of machine types is data and nothing but
//! data. That makes this the provider of tests, demonstrations, what-if questions and benchmarks, and its list the
//! one thing about it that people want to change. A list comes from one of three places:
//!
//! * [`Catalogue::hypothetical`]: 144 types computed from a table of constants ([`hypothetical`]). Other constants
//!   give other clouds: more zones, uneven prices, GPUs.
//! * [`Catalogue::aws`]: the machines of an AWS region with their prices, from [`joiner_provider_aws`].
//! * [`Catalogue::from_text`]: a file of one's own, JSON or YAML ([`file`]).
//!
//! ```
//! use joiner_provider_kwok::Catalogue;
//!
//! let text = r#"
//! - name: big.large
//!   architecture: arm64
//!   operatingSystems: [linux]
//!   resources: {cpu: 64, memory: 256Gi}
//!   offerings:
//!   - {zone: cellar, capacityType: on-demand, price: 1.5}
//! "#;
//! let catalogue = Catalogue::from_text("machines.yaml", text)?;
//! let machine = &catalogue.types[0];
//! assert_eq!(machine.allocatable()["cpu"].to_string(), "63900m");
//! assert_eq!(machine.offerings[0].zone(), Some("cellar"));
//! # Ok::<(), joiner_provider_kwok::LoadError>(())
//! ```
//!
//! The first and the last meet in [`entry`], where labels ([`labels`]) and overhead are derived, so a list that was computed,
//! printed ([`write()`]) and loaded again is the same list. Machines of AWS have labels and overhead of their own.
//!
//! Two decisions shape the rest. **A list is refused whole or taken whole.** The original skips what it does not
//! understand and runs on with types nobody can use; a misspelt key then costs an afternoon. Here every problem of a
//! file is collected and named by file, entry, key and value. **Names of AWS shape carry AWS labels**, so that a
//! NodePool which asks for `karpenter.k8s.aws/instance-category In [c, m, r]` works against a simulated cluster as
//! it stands. A type that lacks such a label says so, because silence about a well-known label means "any value".
//!
//! [`launch`] makes a machine of a claim: which type, on which terms, and the Node that stands for it.
//!
//! Nothing here opens files, reads clocks or prints: text and values in, values out. The one exception is `live`, the provider at work over a
//! Kubernetes client; it is behind the feature of that name, so that who only wants the lists gets no async and no client.

mod catalogue;
pub mod chaos;
pub mod entry;
mod entry_reader;
pub mod file;
pub mod hypothetical;
pub mod labels;
pub mod launch;
#[cfg(feature = "live")]
pub mod live;
mod problem;
mod reader;
mod table;
mod tally;
mod tree;
mod write;

pub use catalogue::{Catalogue, well_known_labels};
pub use file::Availability;
pub use hypothetical::{GpuRow, MemoryFactor, ParameterError, Parameters, generate};
pub use problem::{EntryPlace, LoadError, Problem};
pub use table::{CheckReport, Filter, TypeRow, check, rows};
pub use write::{Format, WriteError, write};
