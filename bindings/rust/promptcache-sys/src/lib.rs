//! The C interface of promptcache, as its headers
//! declare it, with their comments. [`headers`] has what they say beside declarations: begin with
//! [`headers::promptcache`], which has the conventions. The crate `promptcache` has a safe
//! interface over this one.
//!
//! Structs with `struct_size` are made by `Default`, which does what their INIT macros do.
#![allow(non_camel_case_types)]
#![allow(clippy::missing_safety_doc)]

#[rustfmt::skip]
mod bindings;
pub use bindings::*;
