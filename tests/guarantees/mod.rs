//! The guarantees by name: traffic with faults, and one validator for each name that compares what sessions saw with the log.
//!
//! - `traffic`: sessions that break off and go on anywhere, while services are killed and wires are cut;
//! - `validate`: the validators, pure functions of what was seen and the log.

mod traffic;
mod validate;
