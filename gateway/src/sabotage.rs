//! Faults that a test build can switch on, to prove that the tests of the guarantees find them.
//!
//! Without the feature `sabotage` nothing of it is in the program: [`is`] is the constant `false`. Only the crate of the tests asks
//! for the feature, and only its programs call `install`, so no variable or option of the service's own program can switch one on.

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "sabotage"),
    allow(dead_code, reason = "named where it would act")
)]
pub(crate) enum Sabotage {
    /// The last frame between a catch-up and the live frames is lost.
    LoseAtHandOver,
    /// A watch that broke goes on one revision late.
    WatchLate,
    /// A subscribe is answered before it is committed.
    AnswerEarly,
    /// Missed frames are folded although they are few.
    FoldSilently,
    /// Some changes get the id of the one before.
    ReuseId,
    /// A stream goes on although another instance took it over.
    KeepWriting,
    /// What was missed is not sent.
    ResumeFromNow,
    /// The last frame before an open is not sent.
    DropLast,
    /// A gap is taken for a resume that missed nothing.
    GapAsResume,
}

#[cfg(feature = "sabotage")]
static INSTALLED: std::sync::OnceLock<Sabotage> = std::sync::OnceLock::new();

/// Faults by their names.
#[cfg(feature = "sabotage")]
const NAMES: [(&str, Sabotage); 9] = [
    ("lose_at_hand_over", Sabotage::LoseAtHandOver),
    ("watch_late", Sabotage::WatchLate),
    ("answer_early", Sabotage::AnswerEarly),
    ("fold_silently", Sabotage::FoldSilently),
    ("reuse_id", Sabotage::ReuseId),
    ("keep_writing", Sabotage::KeepWriting),
    ("resume_from_now", Sabotage::ResumeFromNow),
    ("drop_last", Sabotage::DropLast),
    ("gap_as_resume", Sabotage::GapAsResume),
];

/// Switches the fault of this name on for the life of the process; a name that is not known here is left to others.
#[cfg(feature = "sabotage")]
pub fn install(name: &str) {
    if let Some((_, sabotage)) = NAMES.iter().find(|(known, _)| *known == name) {
        // The first one stands.
        let _ = INSTALLED.set(*sabotage);
    }
}

/// Says whether this fault is switched on.
#[cfg(feature = "sabotage")]
pub(crate) fn is(sabotage: Sabotage) -> bool {
    INSTALLED.get() == Some(&sabotage)
}

/// Says whether this fault is switched on: it is not there.
#[cfg(not(feature = "sabotage"))]
pub(crate) const fn is(_sabotage: Sabotage) -> bool {
    false
}
