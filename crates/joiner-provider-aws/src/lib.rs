//! What joiner knows of AWS without asking it.
//!
//! * [`shipped`] is a list of 848 real machines of one region with their prices, embedded: for plans, questions and simulated clusters that want machines as
//!   AWS has them.
//! * [`labels`] tells what a type's name and capacity say about a machine, as the labels `karpenter.k8s.aws/instance-*`.
//!
//! ```
//! use joiner_provider_aws::{labels::AwsName, shipped};
//!
//! let machine = shipped::machines().into_iter().find(|of| of.name == "c7g.4xlarge").ok_or("not shipped")?;
//! assert_eq!(machine.architecture, "arm64");
//! assert_eq!(AwsName::parse(&machine.name).and_then(|name| name.cpu_maker()), Some("aws"));
//! # Ok::<(), &str>(())
//! ```
//!
//! It stands apart from the KWOK provider, which only plays these machines: facts about AWS have one home, whoever uses them. Values
//! in, values out; nothing here opens files, reads clocks or calls anybody.

pub mod labels;
pub mod shipped;
