//! The tests of the crate: one program, so that it is linked once.
mod answer;
mod batch;
mod common;
mod states;
mod task;
mod threads;
