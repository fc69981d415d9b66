//! The guarantees by name: traffic with faults, and one validator for each name that compares what sessions saw with the log.
//!
//! - `traffic`: sessions that break off and go on anywhere, while services are killed and wires are cut;
//! - `listens`: clients of the era without sessions within that traffic;
//! - `validate`: the validators, pure functions of what was seen and the log.

mod listens;
mod traffic;
mod validate;
