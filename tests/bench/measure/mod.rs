//! What is counted: [`cpu`] and memory of a process, [`stats`] over samples, and on which [`machine`].

pub mod cpu;
pub mod machine;
pub mod stats;
