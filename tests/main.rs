//! The tests of Tidegate: real processes, spoken to through plain sockets, compared with the log.
//!
//! `harness` starts, breaks and speaks to the services; `features` holds one file per subject of the contract;
//! `crash` breaks the feed service and compares its log with what it acknowledged; `guarantees` compares traffic under faults with the log;
//! `interop` runs the clients of others; `tidy` and `coverage` test the sources themselves.
//! COVERAGE.md says which rule is shown by which test.

mod coverage;
mod crash;
mod features;
mod guarantees;
mod harness;
mod interop;
mod tidy;
