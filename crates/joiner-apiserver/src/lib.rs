//! A Kubernetes API server inside the process.
//!
//! It answers as Kubernetes 1.35.4 does: the same paths, the same objects, the same refusals with the same words where clients
//! match on them. It is one thing, [`service::ApiServer`], a tower service from HTTP request to HTTP response, and has two doors for those.
//! Controllers of a simulation reach it without a socket (`kube::Client::new(server, "default")`); a listener ([`serve`], with the
//! token and certificates of [`credentials`]) gives the very same service to kubectl. A third door, [`direct`], is for programs that
//! have parsed objects at hand and no use for requests.
//!
//! A request passes these stations:
//!
//! - [`service`] reads the request line and headers and hands the request to [`rest`].
//! - [`rest`] knows paths, verbs and options. For a write it brings the body into shape with [`patch`] or [`apply`], reports fields
//!   nobody knows with [`fields`] (bodies may be [`protobuf`]), fills in what Kubernetes fills in ([`defaults`], `admission`), and says no with a `Status`.
//! - [`store`] keeps the objects: one counter of revisions, an ordered map per resource, a bounded history for watches; and all of it
//!   in a folder, if it is given one.
//! - On the way out [`table`] makes the columns that kubectl prints, and [`rest`] frames lists and watch streams.
//!
//! What kinds exist is data: [`resources`] for the built-in ones, [`crd`] for those that users register; [`discovery`] and
//! [`openapi`] tell clients about both. [`schema`] holds the facts about built-in fields that patches and apply need.
//!
//! Time and chance come from outside: the caller hands in a clock and a seed, and the same requests in the same order give the
//! same answers.

mod admission;
pub mod apply;
pub mod clock;
pub mod crd;
pub mod credentials;
pub mod defaults;
pub mod direct;
pub mod discovery;
pub mod fields;
mod gc;
mod json_text;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod resources;
pub mod rest;
pub mod schema;
pub mod selector;
pub mod serve;
pub mod service;
pub mod store;
pub mod table;
mod tokens;
mod validation;

/// The version of Kubernetes that the server answers as.
pub const VERSION: &str = "v1.35.4";
