//! Random numbers that can be had again: a test prints its seed and takes it from TIDEGATE_SEED.

/// Pseudo-random numbers from a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The seed that was given, to repeat a run that failed, or another one each time.
pub fn seed() -> u64 {
    match std::env::var("TIDEGATE_SEED") {
        Ok(text) => text.parse().expect("TIDEGATE_SEED is a number"),
        Err(_) => std::time::UNIX_EPOCH
            .elapsed()
            .expect("a clock after 1970")
            .subsec_nanos()
            .into(),
    }
}

/// The seed that was given, or as many others as TIDEGATE_SEEDS says, or `count` of them.
pub fn seeds(count: usize) -> Vec<u64> {
    let count = match std::env::var("TIDEGATE_SEEDS") {
        Ok(text) => text.parse().expect("TIDEGATE_SEEDS is a number"),
        Err(_) => count,
    };
    let is_given = std::env::var_os("TIDEGATE_SEED").is_some();
    let mut random = Random(seed());
    match is_given {
        true => vec![random.0],
        false => (0..count).map(|_| random.below(1 << 32)).collect(),
    }
}
