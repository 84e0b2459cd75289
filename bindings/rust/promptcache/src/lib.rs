// the test of the pages runs the snippets
#![cfg_attr(not(doctest), doc = include_str!("../README.md"))]
//!
//! # Objects and threads
//!
//! | type | the header's rule | in Rust |
//! |---|---|---|
//! | [`Context`], [`Cache`], [`Memo`], [`Systems`] | internally locked | `Send`, `Sync`, `Clone` |
//! | [`Model`], [`Schema`], [`Prompt`], [`Segment`], [`ModelFile`] | immutable | `Send`, `Sync`, `Clone` |
//! | [`Sequence`], [`Batch`], [`Stream`], [`Plan`], [`Folder`], [`Load`], builders | one thread at a time | `Send` |
//! | [`Task`] | any thread, but it has a batch | `Send` |
//! | [`Canceller`], [`CancelToken`] | any thread | `Send`, `Sync`, `Clone` |
//!
//! A clone is a second reference to the same object. Objects hold each other, so they may be
//! dropped in any order.
//!
//! A sequence cannot be shared by threads, nor a batch:
//!
//! ```compile_fail
//! fn shared<T: Sync>() {}
//! shared::<promptcache::Sequence<'static>>();
//! ```
//!
//! ```compile_fail
//! fn shared<T: Sync>() {}
//! shared::<promptcache::Batch<'static>>();
//! ```
//!
//! They can be sent to another one, and a cache can be shared:
//!
//! ```
//! fn sent<T: Send>() {}
//! fn shared<T: Sync>() {}
//! sent::<promptcache::Sequence<'static>>();
//! sent::<promptcache::Batch<'static>>();
//! shared::<promptcache::Cache>();
//! shared::<promptcache::Canceller>();
//! ```
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(clippy::field_reassign_with_default)]

pub use promptcache_sys as sys;

#[macro_use]
#[rustfmt::skip]
mod docs;
#[macro_use]
mod call;
mod admin;
mod attend;
mod batch;
mod cache;
mod callbacks;
mod context;
mod embed;
mod error;
mod generate;
#[rustfmt::skip]
mod generated;
mod memo;
mod model;
mod prompt;
mod schema;
mod segment;
mod states;
mod task;

pub use admin::*;
pub use attend::*;
pub use batch::*;
pub use cache::*;
pub use callbacks::*;
pub use context::*;
pub use embed::*;
pub use error::{Error, Result};
pub use generate::*;
pub use generated::*;
pub use memo::*;
pub use model::*;
pub use prompt::*;
pub use schema::*;
pub use segment::*;
pub use states::*;
pub use task::*;

/// From position `first` on, states belong to the tenant of this salt instead of the cache's.
/// A part of the prompt belongs as a whole to the salt at its first token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salt {
    /// Position from which it holds.
    pub first: i64,
    /// Empty: no salt.
    pub data: Vec<u8>,
}
