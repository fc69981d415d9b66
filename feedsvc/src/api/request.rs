//! What the fields that many requests have must look like.

use proto::feed::v1::{Principal, Target as TargetMessage};

use crate::access::{Action, Object, decide};
use crate::catalog::{Catalog, TableName};
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::store::Target;

/// The longest key of a record (feed.proto).
const KEY_LIMIT_BYTES: usize = 1_024;
/// The longest name of a principal.
const PRINCIPAL_LIMIT_BYTES: usize = 1_024;

/// Checks feed and principal of a request, and that the principal may do what it asks for; returns its name.
pub(super) fn admit(
    feed: &Feed,
    name: &str,
    principal: Option<Principal>,
    action: Action,
    object: Object<'_>,
) -> Result<String, Refusal> {
    feed.check_name(name)?;
    let principal = principal.unwrap_or_default().name;
    if principal.len() > PRINCIPAL_LIMIT_BYTES {
        return Err(Refusal::TooLarge {
            what: "the principal's name",
            limit: PRINCIPAL_LIMIT_BYTES,
        });
    }
    decide(&principal, action, object)?;
    Ok(principal)
}

/// Returns the refusal of a field.
pub(super) fn invalid(field: &'static str, problem: &'static str) -> Refusal {
    Refusal::InvalidArgument { field, problem }
}

/// Checks a record's key.
pub(super) fn check_key(key: &str) -> Result<(), Refusal> {
    if key.is_empty() {
        return Err(invalid("key", "it is empty"));
    }
    if key.len() > KEY_LIMIT_BYTES {
        return Err(Refusal::TooLarge {
            what: "the key",
            limit: KEY_LIMIT_BYTES,
        });
    }
    Ok(())
}

/// Finds the stored tables of targets; `None` for one that the store never had, which so has no change.
pub(super) fn find_targets(catalog: &Catalog, targets: Vec<TargetMessage>) -> Vec<Option<Target>> {
    let find = |target: TargetMessage| {
        let table = catalog.find_id(&TableName::new(target.database, target.table))?;
        Some(Target {
            table,
            key: target.key,
        })
    };
    targets.into_iter().map(find).collect()
}
