//! What joiner knows of AWS without asking it.
//!
//! The planner judges by what machines offer to pods, so it must know that before there are any: which types a region sells in which zones, what they hold, what
//! the kubelet keeps of it under the settings of an EC2NodeClass, which labels they carry, what they cost.
//!
//! * [`world`] has 1,386 machine types, 32 regions and the list prices, embedded.
//! * [`class`] reads what an EC2NodeClass says about all this, and what in it makes no sense.
//! * [`resources`] and [`requirements`] are the rules: capacity, overhead, labels.
//! * [`prices`] tells what a machine costs and how well that is known; [`price_file`] reads prices of one's own.
//! * [`catalogue`] puts them together: the types of a region for a class.
//! * [`labels`] tells what a type's name says, for lists of machines that somebody else wrote.
//!
//! ```
//! use joiner_provider_aws::{catalogue, class::Class, prices::Prices, resources::Settings, world::world};
//!
//! let class = Class::read(&serde_json::json!({
//!     "metadata": {"name": "default"},
//!     "spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}]},
//! })).class;
//! let region = world().region("us-east-1").ok_or("unknown")?;
//! let types = catalogue::types(region, &class, Settings::default(), &Prices::default());
//! let machine = types.iter().find(|of| of.name == "c6a.large").ok_or("not sold")?;
//! assert_eq!(machine.allocatable()["memory"].to_string(), "3114Mi");
//! assert_eq!(machine.allocatable()["pods"].to_string(), "29");
//! # Ok::<(), &str>(())
//! ```
//!
//! Values in, values out; nothing here opens files, reads clocks or calls anybody. What only AWS can tell is left open and never guessed: ids of zones
//! differ between accounts, reservations have so many machines left as somebody has counted, subnets are where the class's status says. A price that
//! is guessed says so ([`joiner_api::instance_type::PriceSource`]).

pub mod catalogue;
pub mod class;
pub mod family;
pub mod labels;
pub mod price_file;
pub mod prices;
pub mod requirements;
pub mod resources;
pub mod world;
