//! gateway

fn main() {}
