//! `feedsvc` as it was just built, for the tests to start.

fn main() -> std::process::ExitCode {
    feedsvc::run()
}
