//! What a principal sees of a table's records: the one place where row filters and rights on attributes come in.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::condition::Condition;
use super::evaluate::evaluate;
use crate::catalog::json::{Json, JsonObject, object_to_text};
use crate::store::{StoreError, StoredRecord};

/// What is seen of records: those that the filter holds for, without what is hidden.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visibility {
    /// A record for which it does not hold is absent. `None`: every record is there.
    pub(crate) filter: Option<Condition>,
    /// Attributes of the record itself that are left out of every value and cannot be searched by.
    pub(crate) hidden: BTreeSet<String>,
}

impl Visibility {
    /// Whether an attribute may be seen.
    pub(crate) fn shows(&self, attribute: &str) -> bool {
        !self.hidden.contains(attribute)
    }

    /// Returns a record as it is seen; `None`: it is absent.
    ///
    /// # Errors
    /// The stored record is damaged.
    pub(crate) fn show(&self, record: StoredRecord) -> Result<Option<StoredRecord>, StoreError> {
        if self.filter.is_none() && self.hidden.is_empty() {
            return Ok(Some(record));
        }
        let object = parse_record(&record)?;
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| !evaluate(filter, &object))
        {
            return Ok(None);
        }
        Ok(Some(StoredRecord {
            value: self.cut(object, &[]),
            revision: record.revision,
        }))
    }

    /// Returns what is seen of a record, cut down to some attributes if any are named.
    pub(super) fn cut(&self, mut object: JsonObject, attributes: &[String]) -> Bytes {
        object.retain(|name, _| self.shows(name) && (attributes.is_empty() || attributes.contains(name)));
        object_to_text(&object).into()
    }

    /// Whether a record is seen as it is stored.
    pub(super) fn is_whole(&self) -> bool {
        self.hidden.is_empty()
    }
}

fn parse_record(record: &StoredRecord) -> Result<JsonObject, StoreError> {
    match Json::parse(&record.value) {
        Ok(Json::Object(object)) => Ok(object),
        Ok(Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) | Err(_) => {
            Err(StoreError::Damaged {
                problem: "a record that is no JSON object",
                revision: record.revision,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Visibility;
    use crate::catalog::json::Json;
    use crate::revision::Revision;
    use crate::search::condition::Condition;
    use crate::store::StoredRecord;

    #[test]
    fn a_record_is_shown_through_filter_and_rights() {
        let filter = Json::parse(br#"{"attribute":"owner","value":"alice"}"#).unwrap();
        let visibility = Visibility {
            filter: Some(Condition::from_json("row_filter", &filter).unwrap()),
            hidden: std::iter::once("owner".to_owned()).collect(),
        };
        let show = |value: &'static str| {
            let record = StoredRecord {
                revision: Revision(1),
                value: value.into(),
            };
            visibility.show(record).unwrap().map(|record| record.value)
        };
        assert_eq!(
            show(r#"{"id":"1","owner":"alice","n":1.0}"#).as_deref(),
            Some(br#"{"id":"1","n":1.0}"#.as_slice())
        );
        assert_eq!(show(r#"{"id":"1","owner":"bob"}"#), None);
        assert_eq!(show(r#"{"id":"1"}"#), None);
    }
}
