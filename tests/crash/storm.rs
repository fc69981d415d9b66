//! Commit storms: writers whose service is killed at any moment, and who send again what they got no answer to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use proto::feed::v1::entry::Body;
use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::precondition::Condition;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::{CommitRequest, CommitResponse, Precondition, RecordOperation};
use tempfile::TempDir;
use tokio::sync::watch;
use tonic::Code;
use tonic::transport::Channel;

use super::replay::{Place, Replay};
use crate::harness::RUNTIME;
use crate::harness::random::{Random, seed};
use crate::harness::stack::Feed;
use crate::harness::truth::{Truth, delete, put};

const STORMS: u64 = 50;
const WRITERS: u64 = 6;
/// Few keys, so that preconditions and orders matter.
const KEYS: u64 = 8;
/// A storm is cut after at most so many acknowledged commits.
const COMMITS_MAX: u64 = 60;

/// A commit that a writer sent, by its trace id, which is in its entries.
struct Sent {
    request: CommitRequest,
    outcome: Outcome,
}

/// What a writer was told in the end.
#[derive(Clone, Debug)]
enum Outcome {
    Acknowledged(CommitResponse),
    /// A precondition did not hold: nothing of it may be in the log.
    Refused,
}

#[test]
fn no_acknowledged_commit_is_lost_and_none_applied_twice_in_fifty_storms() {
    let seed = seed();
    println!("TIDEGATE_SEED={seed}");
    let mut random = Random(seed);
    let directory = TempDir::new().expect("a temporary directory");
    let mut feed = Feed::start(directory.path());
    let truth = Truth::of(feed.address);
    let mut sent: HashMap<String, Sent> = HashMap::new();
    for storm in 0..STORMS {
        let unanswered = blow(&mut feed, &truth, storm, &mut random, &mut sent);
        feed.restart();
        // Every other storm first looks what is there, so that a retry meets both states.
        if storm % 2 == 0 {
            Replay::of(&mut truth.client());
        }
        for (trace, request) in unanswered {
            let outcome = RUNTIME.block_on(send_until_answered(&truth, &request));
            sent.insert(trace, Sent { request, outcome });
        }
        if storm % 10 == 9 {
            check(&truth, &sent);
        }
    }
    let acknowledged = sent
        .values()
        .filter(|sent| matches!(sent.outcome, Outcome::Acknowledged(_)));
    println!("{} commits, {} acknowledged", sent.len(), acknowledged.count());
}

/// Lets writers write until the service is killed; returns what had no answer.
fn blow(
    feed: &mut Feed,
    truth: &Truth,
    storm: u64,
    random: &mut Random,
    sent: &mut HashMap<String, Sent>,
) -> Vec<(String, CommitRequest)> {
    let (answered, mut count) = watch::channel(0_u64);
    let answered = Arc::new(answered);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, answered) = (truth.client(), Arc::clone(&answered));
            let random = Random(random.below(u64::MAX));
            RUNTIME.spawn(write_until_cut(
                client,
                storm * WRITERS + writer,
                random,
                answered,
            ))
        })
        .collect();
    let (commits, microseconds) = (random.below(COMMITS_MAX), random.below(2_000));
    RUNTIME.block_on(async {
        count
            .wait_for(|count| *count >= commits)
            .await
            .expect("the writers live");
        // Not a wait for something: the moment is to be any.
        tokio::time::sleep(Duration::from_micros(microseconds)).await;
    });
    feed.kill();
    let mut unanswered = Vec::new();
    for writer in writers {
        let (done, cut) = RUNTIME.block_on(writer).expect("a writer ends");
        sent.extend(done);
        unanswered.push(cut);
    }
    unanswered
}

type Written = (Vec<(String, Sent)>, (String, CommitRequest));

/// Commits one batch after the other; returns what was answered and what was cut off.
async fn write_until_cut(
    mut client: FeedClient<Channel>,
    writer: u64,
    mut random: Random,
    answered: Arc<watch::Sender<u64>>,
) -> Written {
    let mut done = Vec::new();
    for step in 0.. {
        let (trace, request) = random_commit(writer, step, &mut random);
        let outcome = match client.commit(request.clone()).await {
            Ok(answer) => Outcome::Acknowledged(answer.into_inner()),
            Err(status) if status.code() == Code::FailedPrecondition => Outcome::Refused,
            Err(_) => return (done, (trace, request)),
        };
        answered.send_modify(|count| *count += 1);
        done.push((trace, Sent { request, outcome }));
    }
    unreachable!("the service is killed")
}

async fn send_until_answered(truth: &Truth, request: &CommitRequest) -> Outcome {
    loop {
        match truth.client().commit(request.clone()).await {
            Ok(answer) => return Outcome::Acknowledged(answer.into_inner()),
            Err(status) if status.code() == Code::FailedPrecondition => return Outcome::Refused,
            // The connection of before; the next attempt makes a new one.
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
        }
    }
}

/// A batch that is told apart from every other by its trace id.
fn random_commit(writer: u64, step: u64, random: &mut Random) -> (String, CommitRequest) {
    let trace = format!("00-{writer:016x}{:016x}-0000000000000001-01", step + 1);
    let operations = (0..=random.below(4)).map(|index| {
        let key = random.below(KEYS).to_string();
        let table = ["Item", "Unseen"][usize::from(random.below(4) == 0)];
        let record = format!(r#"{{"id":"{key}","name":"{writer}.{step}.{index}"}}"#);
        let mut operation = match random.below(4) {
            0 => delete(table, &key),
            _ => put(table, &key, &record),
        };
        let condition = match random.below(12) {
            0 => Some(Condition::Exists(true)),
            1 => Some(Condition::Exists(false)),
            // Nearly always refused; the model knows when not.
            2 => Some(Condition::Revision(random.below(200))),
            _ => None,
        };
        operation.precondition = condition.map(|condition| Precondition {
            condition: Some(condition),
        });
        operation
    });
    let request = CommitRequest {
        operations: operations.collect(),
        idempotency_key: format!("{writer}-{step}"),
        traceparent: trace.clone(),
        ..Default::default()
    };
    (trace, request)
}

/// Compares the log with what the writers sent and were told.
fn check(truth: &Truth, sent: &HashMap<String, Sent>) {
    let mut client = truth.client();
    let replay = Replay::of(&mut client);
    replay.check_tables(&mut client);

    let mut records: BTreeMap<Place, u64> = BTreeMap::new();
    let mut applied: HashMap<&str, u64> = HashMap::new();
    let mut rest = replay.entries.as_slice();
    while let Some(first) = rest.first() {
        let length = usize::try_from(first.commit_end - first.revision).expect("a small commit") + 1;
        let (commit, others) = rest.split_at(length);
        rest = others;
        if first.traceparent.is_empty() {
            // The tables of the schema.
            continue;
        }
        let trace = first.traceparent.as_str();
        let Sent { request, outcome } = &sent[trace];
        let Outcome::Acknowledged(answer) = outcome else {
            panic!("{trace} was refused and is in the log at {}", first.revision)
        };
        let earlier = applied.insert(trace, first.revision);
        assert_eq!(
            earlier, None,
            "{trace} was applied twice, again at {}",
            first.revision
        );
        let expected = apply(&mut records, &request.operations, first.revision);
        let revisions: Vec<u64> = answer.results.iter().map(|result| result.revision).collect();
        assert_eq!(Some(revisions), expected, "the results of {trace}");
        assert_eq!(
            (answer.head, answer.commit_time_ms),
            (first.commit_end, first.commit_time_ms),
            "{trace}"
        );
        for entry in commit {
            assert_eq!(entry.traceparent, trace, "one commit is one request");
            let Some(Body::Change(change)) = &entry.body else {
                panic!("{entry:?}")
            };
            let operation = answer
                .results
                .iter()
                .position(|result| result.revision == entry.revision)
                .map(|index| &request.operations[index]);
            let operation = operation.expect("a result for the entry");
            assert_eq!((&change.table, &change.key), (&operation.table, &operation.key));
            let value = match &operation.action {
                Some(Action::Put(put)) => put.value.as_ref(),
                _ => b"",
            };
            assert_eq!(change.after, value, "{trace}");
        }
    }
    for (trace, Sent { outcome, .. }) in sent {
        if let Outcome::Acknowledged(answer) = outcome {
            let has_changed = answer.results.iter().any(|result| result.revision > 0);
            assert_eq!(
                applied.contains_key(trace.as_str()),
                has_changed,
                "{trace} was acknowledged: {answer:?}"
            );
        }
    }
}

/// Applies a batch whose first change has the revision `first`; returns the revision of each operation, 0 where nothing changed, or
/// nothing if a precondition does not hold.
fn apply(records: &mut BTreeMap<Place, u64>, operations: &[RecordOperation], first: u64) -> Option<Vec<u64>> {
    let mut next = first;
    let mut revisions = Vec::new();
    for operation in operations {
        let place = (operation.table.clone(), operation.key.clone());
        let present = records.get(&place).copied();
        let holds = match operation
            .precondition
            .as_ref()
            .and_then(|precondition| precondition.condition)
        {
            None => true,
            Some(Condition::Exists(wanted)) => present.is_some() == wanted,
            Some(Condition::Revision(wanted)) => present == Some(wanted),
        };
        if !holds {
            return None;
        }
        let is_put = matches!(operation.action, Some(Action::Put(_)));
        if !is_put && present.is_none() {
            revisions.push(0);
            continue;
        }
        match is_put {
            true => records.insert(place, next),
            false => records.remove(&place),
        };
        revisions.push(next);
        next += 1;
    }
    Some(revisions)
}
