//! The guarantees by name: traffic with faults, and one validator for each name that compares what clients saw with the log.
//!
//! - `history`: what is recorded; `ledger`: the log, and what it makes of a history;
//! - `validate`: the validators, pure functions of the two;
//! - `run`: a run of random traffic; `traffic`: what its parts share; `stand`: its services, and what breaks them;
//! - `session`, `listener`: the clients; `connection`: how their streams are read;
//! - `report`, `metrics`: what happened in a run, and how often.
//!
//! `TIDEGATE_SEED=7` repeats the run of a seed that was printed, `TIDEGATE_SEEDS=30` makes so many runs.

mod connection;
mod history;
mod ledger;
mod listener;
mod metrics;
mod report;
mod run;
mod sabotage;
mod session;
mod stand;
mod traffic;
mod twins;
mod validate;

use crate::harness::random::seeds;

/// How many seeds a run of all tests tries.
const SEEDS: usize = 3;

#[test]
fn all_guarantees_hold_while_services_crash_and_wires_are_cut() {
    for seed in seeds(SEEDS) {
        println!("TIDEGATE_SEED={seed}");
        let outcome = run::run(run::Plan { seed, sabotage: None });
        println!("{}", outcome.report);
        let violations: Vec<String> = outcome.violations.iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "TIDEGATE_SEED={seed}: {violations:#?}");
        let untried = outcome.report.untried();
        assert!(
            untried.is_empty(),
            "TIDEGATE_SEED={seed}: never happened: {untried:?}"
        );
    }
}
