//! `feedsvc` as it was just built, for the tests to start, with the fault that they ask for (see `sabotage`).

fn main() -> std::process::ExitCode {
    // Not TIDEGATE_…: those are keys of the configuration.
    if let Ok(name) = std::env::var("SABOTAGE") {
        feedsvc::install_sabotage(&name);
    }
    feedsvc::run()
}
