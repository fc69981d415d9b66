//! The feed service's process; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    feedsvc::run()
}
