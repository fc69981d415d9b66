//! Runs the benchmark of resumes and shows its report.

use std::process::ExitCode;

use bench::resume::{self, Plan};
use clap::Parser as _;

fn main() -> ExitCode {
    match run(&Plan::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("no result: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &Plan) -> anyhow::Result<ExitCode> {
    bench::raise_file_limit()?;
    let report = resume::run(plan)?;
    println!("{report}");
    if let Some(folder) = &plan.out {
        println!("written to {}", report.write(folder, &plan.name)?.display());
    }
    let missed = plan.enforce && report.misses_a_bar();
    Ok(if missed {
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    })
}
