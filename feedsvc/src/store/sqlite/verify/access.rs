//! The access log: dense from its oldest number to its newest, its entries chained.

use super::report::Report;
use crate::access_log;
use crate::store::sqlite::read::SqliteReader;
use crate::store::{Place, StoreError};

/// Checks the access log up to its newest entry at this moment.
pub(super) fn check(reader: &SqliteReader, report: &mut Report<'_>) -> Result<(), StoreError> {
    let verified = access_log::verify(reader, &|| report.check_goes_on())?;
    report.verification.access_entries = verified.entries;
    if let Some(finding) = verified.finding {
        let place = Place::AccessLog {
            number: finding.number,
        };
        report.note(place, finding.problem);
    }
    Ok(())
}
