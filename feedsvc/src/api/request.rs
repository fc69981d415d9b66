//! What the fields that many requests have must look like.

use std::sync::Arc;

use proto::feed::v1::{Principal as PrincipalMessage, Target as TargetMessage};
use sha2::{Digest, Sha256};

use crate::access::{Action, Denied, Object, Principal, Rights, Role, TableView, decide};
use crate::catalog::{Catalog, TableName};
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::store::Target;

/// The longest key of a record (feed.proto).
const KEY_LIMIT_BYTES: usize = 1_024;
/// The longest name of a principal, of its role, and of an attribute's name and value (principal.proto).
const PRINCIPAL_LIMIT_BYTES: usize = 1_024;
/// The most attributes of a principal (principal.proto).
const PRINCIPAL_ATTRIBUTES_MAX: usize = 32;

/// Who makes a call, with the role that it has at the call's arrival.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) principal: Principal,
    pub(super) role: Arc<Role>,
    /// By which it has the role.
    pub(super) rights: Arc<Rights>,
}

impl Caller {
    pub(super) fn new(principal: Principal, rights: Arc<Rights>) -> Caller {
        Caller {
            role: rights.role_of(&principal),
            principal,
            rights,
        }
    }

    /// Decides whether the caller may do something.
    pub(super) fn check(&self, action: Action, object: Object<'_>) -> Result<(), Denied> {
        decide(&self.role, action, object)
    }

    /// Returns what the caller sees of a table's records; it must have the right to read the table.
    pub(super) fn view(&self, table: &TableName) -> TableView {
        TableView::new(&self.role, &self.principal, table)
    }
}

/// Checks feed and principal of a request, and that the principal may do what it asks for; returns who it is.
pub(super) fn admit(
    feed: &Feed,
    name: &str,
    principal: Option<PrincipalMessage>,
    action: Action,
    object: Object<'_>,
) -> Result<Caller, Refusal> {
    feed.check_name(name)?;
    let principal = check_principal(principal.unwrap_or_default())?;
    let caller = Caller::new(principal, feed.rights());
    caller.check(action, object)?;
    Ok(caller)
}

fn check_principal(principal: PrincipalMessage) -> Result<Principal, Refusal> {
    let PrincipalMessage {
        name,
        role,
        attributes,
    } = principal;
    if attributes.len() > PRINCIPAL_ATTRIBUTES_MAX {
        return Err(invalid("principal.attributes", "there are more than 32"));
    }
    let texts = attributes.iter().flat_map(|(name, value)| [name, value]);
    let named = [("the principal's name", &name), ("the principal's role", &role)];
    for (what, text) in named
        .into_iter()
        .chain(texts.map(|text| ("an attribute of the principal", text)))
    {
        if text.len() > PRINCIPAL_LIMIT_BYTES {
            return Err(Refusal::TooLarge {
                what,
                limit: PRINCIPAL_LIMIT_BYTES,
            });
        }
    }
    Ok(Principal {
        name,
        role,
        attributes: attributes.into_iter().collect(),
    })
}

/// Adds all that makes a principal who it is to a hash, each part with its length, which keeps them apart.
pub(super) fn hash_principal(hasher: &mut Sha256, principal: &Principal) {
    let Principal {
        name,
        role,
        attributes,
    } = principal;
    hasher.update((attributes.len() as u64).to_be_bytes());
    let attributes = attributes.iter().flat_map(|(name, value)| [name, value]);
    for part in [name, role].into_iter().chain(attributes) {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
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
