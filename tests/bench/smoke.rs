//! The benchmark itself works: a small run against the two servers to compare with.

use std::process::Command;

#[test]
fn a_quick_run_has_a_result() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--quick", "--servers", "floor,floor-bytes,rmcp"])
        .output()
        .unwrap();
    let (shown, log) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{log}");
    assert!(shown.contains("| CPU per frame, paced | 50 |"), "{shown}");
}

#[test]
fn a_program_that_is_missing_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--quick", "--floor", "/nowhere/floor"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no program"));
}

#[test]
fn a_feed_service_that_is_missing_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench-feed"))
        .args(["--quick", "--feedsvc", "/nowhere/feedsvc"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no program"));
}
