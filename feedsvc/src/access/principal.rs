//! Who asks.

use std::collections::BTreeMap;

/// The caller of a request, as the gateway vouches for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Principal {
    /// Empty: anonymous.
    pub(crate) name: String,
    /// The role that the caller found for it; empty: that of `system.user`.
    pub(crate) role: String,
    /// What row filters may compare with.
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Principal {
    /// Makes a principal that is known by its name alone.
    #[cfg(test)]
    pub(crate) fn named(name: impl Into<String>) -> Principal {
        Principal {
            name: name.into(),
            ..Principal::default()
        }
    }
}
