//! Runs the benchmark of the feed service and shows its report.

use std::process::ExitCode;

use bench::feed::{self, plan::Plan};

fn main() -> ExitCode {
    match run(&Plan::read()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("no result: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &Plan) -> anyhow::Result<ExitCode> {
    bench::raise_file_limit()?;
    if let Some(recording) = &plan.bare {
        feed::bare::serve(recording)?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = feed::run(plan)?;
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
