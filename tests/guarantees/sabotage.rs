//! The proof is proved: with any of these faults built in, the run of random traffic says what is broken.
//!
//! A run ends as soon as something is broken, so all ten take less than a minute. `TIDEGATE_SABOTAGE=keep_writing` tries that one.

use super::run::{Plan, run};
use crate::harness::random::{Random, seed};
use crate::tidy::sources;

/// How many seeds may pass before a fault must have shown.
const SEEDS: usize = 3;

/// The faults, and the guarantees one of which each breaks.
const SABOTAGES: [(&str, &[&str]); 10] = [
    ("lose_at_hand_over", &["reliable", "resumable"]),
    ("watch_late", &["reliable", "resumable", "bookmarkable"]),
    ("answer_early", &["reliable"]),
    ("ignore_fence", &["unique"]),
    ("fold_silently", &["reliable", "resumable"]),
    (
        "reuse_id",
        &["ordered", "unique", "filtered", "reliable", "bookmarkable"],
    ),
    ("keep_writing", &["unique"]),
    ("resume_from_now", &["reliable", "resumable"]),
    ("drop_last", &["reliable", "resumable"]),
    ("gap_as_resume", &["told"]),
];

/// Returns which faults to try: all, or the one that TIDEGATE_SABOTAGE names.
fn chosen() -> Vec<(&'static str, &'static [&'static str])> {
    let Ok(name) = std::env::var("TIDEGATE_SABOTAGE") else {
        return SABOTAGES.to_vec();
    };
    let chosen = SABOTAGES.into_iter().filter(|(known, _)| *known == name);
    let chosen: Vec<_> = chosen.collect();
    assert!(!chosen.is_empty(), "TIDEGATE_SABOTAGE: {name} is none");
    chosen
}

#[test]
fn only_the_programs_of_the_tests_can_switch_a_sabotage_on() {
    // In two parts, so that this file is none of those that are found.
    let (call, feature) = (concat!("install_", "sabotage("), concat!("[\"sabot", "age\"]"));
    let naming = |text: &str| -> Vec<String> {
        let sources = sources().into_iter().filter(|source| source.text.contains(text));
        sources.map(|source| source.path).collect()
    };
    assert_eq!(
        naming(call),
        [
            "tests/bin/feedsvc_under_test.rs",
            "tests/bin/gateway_under_test.rs"
        ]
    );
    assert_eq!(naming(feature), ["tests/Cargo.toml"]);
}

#[test]
fn each_sabotage_breaks_a_guarantee_within_three_seeds() {
    let mut random = Random(seed());
    for (sabotage, guarantees) in chosen() {
        let mut tried = Vec::new();
        // A run that finds nothing goes on to its end, and to the next seed.
        let has_shown = (0..SEEDS).any(|_| {
            let seed = random.below(1 << 32);
            let outcome = run(Plan {
                seed,
                sabotage: Some(sabotage),
            });
            for violation in outcome.violations.iter().take(2) {
                println!("{sabotage}, TIDEGATE_SEED={seed}: {violation}");
            }
            tried.push(format!("TIDEGATE_SEED={seed}: {}", outcome.report));
            outcome
                .violations
                .iter()
                .any(|violation| guarantees.contains(&violation.guarantee))
        });
        assert!(has_shown, "{sabotage} was not found: {tried:#?}");
    }
}
