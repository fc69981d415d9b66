//! feedsvc

fn main() {}
