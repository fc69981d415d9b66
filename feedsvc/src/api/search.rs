//! The calls that read many records: GetMany, Search and Count.

use prost::Message;
use proto::feed::v1::search_condition::Kind;
use proto::feed::v1::{
    Comparator as ComparatorMessage, Comparison as ComparisonMessage, ConditionGroup, CountRequest,
    CountResponse, GetManyRequest, GetManyResponse, GetRequest, GetResponse, Record, SearchCondition,
    SearchRequest, SearchResponse, SortStep as SortStepMessage,
};
use sha2::{Digest, Sha256};

use super::request::{Caller, admit, check_key, hash_principal};
use crate::access::{Action, Object, Principal};
use crate::catalog::TableName;
use crate::catalog::json::Json;
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::sealing::current_seal;
use crate::search::{
    AttributePath, Comparator, Comparison, Condition, ConditionFault, Fingerprint, PageBounds, Position,
    Query, SORT_STEPS_MAX, Search, SearchError, SearchedTable, SortStep, Visibility,
};
use crate::store::{RecordView, StoreError, StoredRecord};

/// The most keys of GetMany, and the most records of a page (feed.proto).
const RECORDS_MAX: usize = 1_000;
/// How many records a page has if the request does not say (feed.proto).
const RECORDS_DEFAULT: u32 = 100;
/// How large an answer becomes, as the sum of its values (feed.proto).
const ANSWER_LIMIT_BYTES: usize = 16 * 1024 * 1024;
/// How large a condition may be, as it is sent: a large condition is evaluated as often as records are looked at.
const CONDITION_LIMIT_BYTES: usize = 1024 * 1024;
/// The most levels of a condition's message that are read; deeper ones are refused by the check of the whole tree or here.
const LEVELS_READ_MAX: usize = 16;

/// A table that a principal reads, and what it sees of it.
struct Reading {
    caller: Caller,
    table: SearchedTable,
    visibility: Visibility,
}

/// Checks what all reads of records have in common. Everything that reads records for a caller comes through here: this is
/// where a role's row filter and its rights on attributes belong, in the `Visibility`.
fn admit_reading(
    feed: &Feed,
    name: &str,
    principal: Option<proto::feed::v1::Principal>,
    database: String,
    table: String,
) -> Result<Reading, Refusal> {
    let table = TableName::new(database, table);
    let caller = admit(feed, name, principal, Action::Read, Object::Table(&table))?;
    let visibility = caller.view(&table).visibility();
    Ok(Reading {
        caller,
        table: find_table(feed, table)?,
        visibility,
    })
}

/// Finds a table of the catalogue, or one of the service's own.
fn find_table(feed: &Feed, name: TableName) -> Result<SearchedTable, Refusal> {
    let own = (name == TableName::system_table())
        .then(|| feed.catalog().find_id(&name))
        .flatten();
    if let Some(id) = own {
        return Ok(SearchedTable {
            id,
            name,
            schema: None,
        });
    }
    let schema = feed.get_table(&name)?;
    Ok(SearchedTable {
        id: schema.id,
        name,
        schema: Some(schema),
    })
}

/// Returns one record, or its absence.
pub(super) async fn get(feed: &Feed, request: GetRequest) -> Result<GetResponse, Refusal> {
    let reading = admit_reading(
        feed,
        &request.feed,
        request.principal,
        request.database,
        request.table,
    )?;
    check_key(&request.key)?;
    let Reading {
        table, visibility, ..
    } = reading;
    let key = request.key.clone();
    let found = feed
        .reads
        .run(move |reader| {
            let found = reader.find_record(table.id, &key)?;
            let shown = found.value.map(|record| visibility.show(record)).transpose()?;
            Ok((shown.flatten(), found.revision))
        })
        .await?;
    Ok(GetResponse {
        record: found.0.map(|record| record_message(request.key, record)),
        revision: found.1.0,
    })
}

/// Returns many records of one moment.
pub(super) async fn get_many(feed: &Feed, request: GetManyRequest) -> Result<GetManyResponse, Refusal> {
    let reading = admit_reading(
        feed,
        &request.feed,
        request.principal,
        request.database,
        request.table,
    )?;
    let keys = request.keys;
    if keys.is_empty() || keys.len() > RECORDS_MAX {
        let problem = format!("there are {}; allowed are 1 to {RECORDS_MAX}", keys.len());
        return Err(ConditionFault::new("keys", problem).into());
    }
    for key in &keys {
        check_key(key)?;
    }
    let Reading {
        table, visibility, ..
    } = reading;
    let answer = feed.reads.run(move |reader| {
        let mut answer = GetManyResponse::default();
        reader.view(&mut |view| {
            let mut used_bytes = 0;
            answer = GetManyResponse {
                revision: view.head().0,
                ..GetManyResponse::default()
            };
            for key in &keys {
                let found = view.find_record(table.id, key)?;
                let shown = found.map(|record| visibility.show(record)).transpose()?.flatten();
                let size_bytes = shown.as_ref().map_or(0, |record| record.value.len());
                if answer.answered > 0 && used_bytes + size_bytes > ANSWER_LIMIT_BYTES {
                    break;
                }
                used_bytes += size_bytes;
                answer.answered += 1;
                answer
                    .records
                    .extend(shown.map(|record| record_message(key.clone(), record)));
            }
            Ok(())
        })?;
        Ok(answer)
    });
    Ok(answer.await?)
}

/// Returns a page of the records that a condition holds for.
pub(super) async fn search(feed: &Feed, request: SearchRequest) -> Result<SearchResponse, Refusal> {
    let fingerprint_fields = SearchRequest {
        database: request.database.clone(),
        table: request.table.clone(),
        condition: request.condition.clone(),
        sort: request.sort.clone(),
        ..SearchRequest::default()
    };
    let reading = admit_reading(
        feed,
        &request.feed,
        request.principal,
        request.database,
        request.table,
    )?;
    let limit = match request.limit {
        0 => RECORDS_DEFAULT,
        limit => limit,
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit > RECORDS_MAX {
        let problem = format!("it is {limit}; allowed are 1 to {RECORDS_MAX}");
        return Err(ConditionFault::new("limit", problem).into());
    }
    if request.attributes.len() > RECORDS_MAX {
        let problem = format!(
            "there are {}; allowed are {RECORDS_MAX}",
            request.attributes.len()
        );
        return Err(ConditionFault::new("attributes", problem).into());
    }
    let fingerprint = fingerprint(&feed.store_id, &reading.caller.principal, &fingerprint_fields);
    let query = Query {
        table: reading.table,
        condition: request.condition.map(read_condition).transpose()?,
        sort: read_sort(request.sort)?,
        attributes: request.attributes,
    };
    query.check(&reading.visibility)?;
    let start = match request.cursor.as_str() {
        "" => Position::default(),
        cursor => current_seal(feed).await?.open(cursor, &fingerprint)?,
    };
    let search = Search {
        query,
        visibility: reading.visibility,
        scan_max: feed.limits.search_scan_max,
    };
    let bounds = PageBounds {
        start,
        limit,
        limit_bytes: ANSWER_LIMIT_BYTES,
    };
    let page = run(feed, move |view, interrupt| {
        search.find_page(view, &bounds, interrupt)
    })
    .await?;
    let next_cursor = match page.value.next {
        Some(next) => current_seal(feed)
            .await?
            .seal(&next, &fingerprint)
            .ok_or(Refusal::Unavailable)?,
        None => String::new(),
    };
    let records = page.value.records.into_iter().map(|record| Record {
        key: record.key,
        revision: record.revision.0,
        value: record.value,
    });
    Ok(SearchResponse {
        records: records.collect(),
        next_cursor,
        revision: page.revision.0,
        plan: page.value.plan,
    })
}

/// Returns how many records a condition holds for.
pub(super) async fn count(feed: &Feed, request: CountRequest) -> Result<CountResponse, Refusal> {
    let reading = admit_reading(
        feed,
        &request.feed,
        request.principal,
        request.database,
        request.table,
    )?;
    let query = Query {
        table: reading.table,
        condition: request.condition.map(read_condition).transpose()?,
        sort: Vec::new(),
        attributes: Vec::new(),
    };
    query.check(&reading.visibility)?;
    let search = Search {
        query,
        visibility: reading.visibility,
        scan_max: feed.limits.search_scan_max,
    };
    let count = run(feed, move |view, interrupt| search.count(view, interrupt)).await?;
    Ok(CountResponse {
        count: count.value,
        revision: count.revision.0,
    })
}

/// Runs a search in one snapshot, off the runtime.
async fn run<T: Send + 'static>(
    feed: &Feed,
    search: impl Fn(&dyn RecordView, &crate::store::Interrupt) -> Result<T, SearchError> + Send + 'static,
) -> Result<T, Refusal> {
    let outcome = feed.reads.run_search(move |reader, interrupt| {
        let mut outcome = None;
        reader.view(&mut |view| match search(view, interrupt) {
            Err(SearchError::Store(error)) => Err(error),
            answered => {
                outcome = Some(answered);
                Ok(())
            }
        })?;
        // The view was shown, or it was an error.
        outcome.ok_or(StoreError::Interrupted)
    });
    Ok(outcome.await??)
}

fn record_message(key: String, record: StoredRecord) -> Record {
    Record {
        key,
        revision: record.revision.0,
        value: record.value,
    }
}

/// Hashes what a cursor is bound to: the store, which is another one after a restore; and as they were sent the search, and the principal with all that decides what it sees, since pages of
/// different views are not pages of one search.
fn fingerprint(store_id: &str, principal: &Principal, search: &SearchRequest) -> Fingerprint {
    let mut hasher = Sha256::new();
    hasher.update((store_id.len() as u64).to_be_bytes());
    hasher.update(store_id);
    hash_principal(&mut hasher, principal);
    hasher.update(search.encode_to_vec());
    hasher.finalize().into()
}

fn read_condition(message: SearchCondition) -> Result<Condition, Refusal> {
    if message.encoded_len() > CONDITION_LIMIT_BYTES {
        return Err(Refusal::TooLarge {
            what: "the condition",
            limit: CONDITION_LIMIT_BYTES,
        });
    }
    let condition = read_tree("condition", message, LEVELS_READ_MAX)?;
    condition.check_size("condition")?;
    Ok(condition)
}

fn read_tree(place: &str, message: SearchCondition, levels_left: usize) -> Result<Condition, ConditionFault> {
    let Some(levels_left) = levels_left.checked_sub(1) else {
        return Err(ConditionFault::new(
            "condition",
            "it has more than 8 levels; allowed are 8",
        ));
    };
    let read_all = |group: ConditionGroup| {
        let conditions = group.conditions.into_iter().enumerate();
        conditions
            .map(|(index, condition)| {
                read_tree(&format!("{place}.conditions[{index}]"), condition, levels_left)
            })
            .collect::<Result<Vec<_>, _>>()
    };
    match message.kind {
        Some(Kind::Comparison(comparison)) => Ok(Condition::Comparison(read_comparison(place, &comparison)?)),
        Some(Kind::All(group)) => Ok(Condition::All(read_all(group)?)),
        Some(Kind::Any(group)) => Ok(Condition::Any(read_all(group)?)),
        None => Err(ConditionFault::new(
            place,
            "it is empty; set `comparison`, `all` or `any`, or leave the condition out",
        )),
    }
}

fn read_comparison(place: &str, message: &ComparisonMessage) -> Result<Comparison, ConditionFault> {
    let attribute = AttributePath::parse(&format!("{place}.attribute"), &message.attribute)?;
    let comparator = match ComparatorMessage::try_from(message.comparator) {
        Ok(ComparatorMessage::Unspecified | ComparatorMessage::Equals) => Comparator::Equals,
        Ok(ComparatorMessage::NotEquals) => Comparator::NotEquals,
        Ok(ComparatorMessage::Contains) => Comparator::Contains,
        Ok(ComparatorMessage::StartsWith) => Comparator::StartsWith,
        Ok(ComparatorMessage::EndsWith) => Comparator::EndsWith,
        Ok(ComparatorMessage::GreaterThan) => Comparator::GreaterThan,
        Ok(ComparatorMessage::GreaterThanEqual) => Comparator::GreaterThanEqual,
        Ok(ComparatorMessage::LessThan) => Comparator::LessThan,
        Ok(ComparatorMessage::LessThanEqual) => Comparator::LessThanEqual,
        Ok(ComparatorMessage::Between) => Comparator::Between,
        Ok(ComparatorMessage::In) => Comparator::In,
        Err(_) => {
            let problem = format!("{} is no comparator; use one of the contract", message.comparator);
            return Err(ConditionFault::new(format!("{place}.comparator"), problem));
        }
    };
    let value = Json::parse(&message.value).map_err(|fault| {
        let problem = format!("it is no JSON value: {fault}");
        ConditionFault::new(format!("{place}.value"), problem)
    })?;
    Comparison::new(place, attribute, comparator, value)
}

fn read_sort(messages: Vec<SortStepMessage>) -> Result<Vec<SortStep>, Refusal> {
    if messages.len() > SORT_STEPS_MAX {
        let problem = format!("it has {} steps; allowed are {SORT_STEPS_MAX}", messages.len());
        return Err(ConditionFault::new("sort", problem).into());
    }
    let steps = messages.into_iter().enumerate().map(|(index, step)| {
        Ok(SortStep {
            attribute: AttributePath::parse(&format!("sort[{index}].attribute"), &step.attribute)?,
            descending: step.descending,
        })
    });
    steps.collect()
}
