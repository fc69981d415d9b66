//! What the process tells of itself: [`logs`], and [`metrics`].

mod logs;
mod metrics;

pub(crate) use logs::start;
pub(crate) use metrics::{Metrics, TEXT_FORMAT};
