//! The log of a store against a naive one: random commits, trims and reads with every filter.

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

use super::{FeedHead, LogQuery, LogTrim, NewEntry, Reader, StoreError, Subject, Target, Writer, sqlite};
use crate::catalog::{TableId, TableName};
use crate::revision::Revision;

const TABLES: i64 = 3;

/// One entry as the naive log keeps it.
#[derive(Clone, Debug)]
struct ModelEntry {
    revision: u64,
    time_ms: i64,
    principal: String,
    /// `None`: a session command.
    table: Option<i64>,
    key: String,
    size_bytes: u64,
}

/// An entry to be committed.
#[derive(Clone, Debug)]
struct NewOne {
    table: Option<i64>,
    key: u8,
    principal: u8,
    later_ms: i64,
    size: usize,
}

#[derive(Clone, Debug)]
struct Selected {
    targets: Option<Vec<(i64, Option<u8>)>>,
    with_sessions: bool,
    principal: Option<u8>,
    times: (Option<i64>, Option<i64>),
    until: Option<u64>,
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<NewOne>),
    Trim {
        until: u64,
        keep_bytes: u64,
        floor: u64,
        entry_limit: usize,
    },
    Read {
        after: u64,
        selected: Selected,
        entry_limit: usize,
        scan_limit: usize,
        limit_bytes: usize,
    },
    Latest {
        targets: Vec<(i64, Option<u8>)>,
        after: u64,
        until: Option<u64>,
    },
    Before(i64),
    Reopen,
}

fn target() -> impl Strategy<Value = (i64, Option<u8>)> {
    (1..=TABLES, prop::option::of(0..4_u8))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let new_one = (
        prop::option::weighted(0.8, 1..=TABLES),
        0..4_u8,
        0..3_u8,
        0..3_i64,
        1..40_usize,
    )
        .prop_map(|(table, key, principal, later_ms, size)| NewOne {
            table,
            key,
            principal,
            later_ms,
            size,
        });
    let selected = (
        prop::option::of(prop::collection::vec(target(), 1..5)),
        any::<bool>(),
        prop::option::of(0..3_u8),
        (prop::option::of(0..60_i64), prop::option::of(0..60_i64)),
        prop::option::of(0..60_u64),
    )
        .prop_map(|(targets, with_sessions, principal, times, until)| Selected {
            targets,
            with_sessions,
            principal,
            times,
            until,
        });
    let step = prop_oneof![
        4 => prop::collection::vec(new_one, 1..8).prop_map(Step::Commit),
        2 => (0..60_u64, 0..6_000_u64, 0..70_u64, 1..6_usize).prop_map(|(until, keep_bytes, floor, entry_limit)| {
            Step::Trim { until, keep_bytes, floor, entry_limit }
        }),
        5 => (0..60_u64, selected, 1..6_usize, 1..12_usize, 1..100_usize).prop_map(
            |(after, selected, entry_limit, scan_limit, limit_bytes)| {
                Step::Read { after, selected, entry_limit, scan_limit, limit_bytes }
            }
        ),
        2 => (prop::collection::vec(target(), 0..5), 0..60_u64, prop::option::of(0..60_u64))
            .prop_map(|(targets, after, until)| Step::Latest { targets, after, until }),
        1 => (0..60_i64).prop_map(Step::Before),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..30)
}

/// A store with the log that it should have.
struct Pair {
    directory: tempfile::TempDir,
    store: sqlite::OpenedStore,
    model: Vec<ModelEntry>,
    oldest: u64,
    head: u64,
    time_ms: i64,
}

impl Pair {
    fn new() -> Pair {
        let directory = tempfile::tempdir().unwrap();
        let mut store = sqlite::open(directory.path()).unwrap();
        let head = store.writer.head().unwrap();
        let mut transaction = store.writer.begin().unwrap();
        for table in 1..=TABLES {
            let id = transaction
                .create_table(&TableName::new("data", table.to_string()))
                .unwrap();
            assert_eq!(id, TableId(table));
        }
        transaction.commit(&head).unwrap();
        Pair {
            directory,
            store,
            model: Vec::new(),
            oldest: 1,
            head: 0,
            time_ms: 0,
        }
    }

    fn take(mut self, step: Step) -> Pair {
        match step {
            Step::Commit(entries) => self.commit(entries),
            Step::Trim {
                until,
                keep_bytes,
                floor,
                entry_limit,
            } => self.trim(until, keep_bytes, floor, entry_limit),
            Step::Read {
                after,
                selected,
                entry_limit,
                scan_limit,
                limit_bytes,
            } => self.read(after, &selected, entry_limit, scan_limit, limit_bytes),
            Step::Latest {
                targets,
                after,
                until,
            } => self.latest(&targets, after, until),
            Step::Before(time_ms) => self.before(time_ms),
            Step::Reopen => {
                let Pair { directory, store, .. } = self;
                drop(store);
                let store = sqlite::open(directory.path()).unwrap();
                self = Pair {
                    directory,
                    store,
                    ..self
                };
            }
        }
        self.check_ages();
        self
    }

    fn commit(&mut self, entries: Vec<NewOne>) {
        let mut head = self.store.writer.head().unwrap();
        let mut transaction = self.store.writer.begin().unwrap();
        for new in entries {
            self.time_ms += new.later_ms;
            let encoded = vec![b'e'; new.size];
            let (key, principal) = (format!("k{}", new.key), format!("p{}", new.principal));
            head = FeedHead {
                revision: head.revision.next(),
                hash: head.hash.followed_by(&encoded, None, None),
                commit_time_ms: self.time_ms,
            };
            let subject = match new.table {
                Some(table) => Subject::Record {
                    table: TableId(table),
                    key: &key,
                },
                None => Subject::Session { id: &key },
            };
            let entry = NewEntry {
                revision: head.revision,
                commit_time_ms: self.time_ms,
                principal: &principal,
                subject,
                encoded: &encoded,
                before: None,
                after: None,
                hash: head.hash,
            };
            transaction.append(&entry).unwrap();
            self.head += 1;
            self.model.push(ModelEntry {
                revision: self.head,
                time_ms: self.time_ms,
                size_bytes: (new.size + principal.len() + 2 * key.len() + 128) as u64,
                principal,
                table: new.table,
                key,
            });
        }
        transaction.commit(&head).unwrap();
    }

    fn trim(&mut self, until: u64, keep_bytes: u64, floor: u64, entry_limit: usize) {
        let base = self
            .store
            .reader
            .hash_at(Revision(self.oldest - 1))
            .unwrap()
            .value;
        let trim = LogTrim {
            until: Revision(until),
            keep_bytes,
            floor: Revision(floor),
            entry_limit,
            limit_bytes: u64::MAX,
        };
        let head = self.store.writer.head().unwrap();
        let mut transaction = self.store.writer.begin().unwrap();
        let trimmed = transaction.trim_log(&trim).unwrap();
        transaction.commit(&head).unwrap();

        let (mut dropped, mut kept_bytes) = (0, self.model.iter().map(|entry| entry.size_bytes).sum::<u64>());
        let is_due = |model: &[ModelEntry], kept_bytes: u64| {
            model.first().is_some_and(|first| {
                first.revision <= floor && (first.revision <= until || kept_bytes > keep_bytes)
            })
        };
        while dropped < entry_limit && is_due(&self.model, kept_bytes) {
            kept_bytes -= self.model.remove(0).size_bytes;
            dropped += 1;
            self.oldest += 1;
        }
        assert_eq!((trimmed.oldest.0, trimmed.dropped), (self.oldest, dropped as u64));
        assert_eq!(trimmed.has_more, is_due(&self.model, kept_bytes));
        if dropped > 0 {
            assert_ne!(
                self.store
                    .reader
                    .hash_at(Revision(self.oldest - 1))
                    .unwrap()
                    .value,
                base
            );
        }
    }

    fn check_ages(&self) {
        let ages = self.store.reader.ages().unwrap();
        assert_eq!(
            (ages.bounds.oldest.0, ages.bounds.head.0),
            (self.oldest, self.head)
        );
        assert_eq!(
            ages.log_bytes,
            self.model.iter().map(|entry| entry.size_bytes).sum::<u64>()
        );
        assert_eq!(
            ages.oldest_entry_ms,
            self.model.first().map(|entry| entry.time_ms)
        );
    }

    /// Checks an error, and returns whether there was to be one.
    fn is_outside<T: std::fmt::Debug>(&self, after: u64, outcome: &Result<T, StoreError>) -> bool {
        if after > self.head {
            assert!(
                matches!(outcome, Err(StoreError::BeyondHead { head }) if head.0 == self.head),
                "{outcome:?}"
            );
            return true;
        }
        if after + 1 < self.oldest {
            assert!(
                matches!(outcome, Err(StoreError::Compacted { oldest }) if oldest.0 == self.oldest),
                "{outcome:?}"
            );
            return true;
        }
        false
    }

    /// Reads page after page; together they must bring what the naive log has, and none may skip or stand still.
    fn read(
        &self,
        after: u64,
        selected: &Selected,
        entry_limit: usize,
        scan_limit: usize,
        limit_bytes: usize,
    ) {
        let query = LogQuery {
            until: selected.until.map(Revision),
            entry_limit,
            scan_limit,
            limit_bytes,
            targets: selected
                .targets
                .as_ref()
                .map(|targets| targets.iter().map(to_target).collect()),
            with_sessions: selected.with_sessions,
            principal: selected.principal.map(|principal| format!("p{principal}")),
            from_time_ms: selected.times.0,
            until_time_ms: selected.times.1,
            ..LogQuery::after(Revision(after))
        };
        let first = self.store.reader.read_log(&query);
        if self.is_outside(after, &first) {
            return;
        }
        let end = selected.until.unwrap_or(self.head).min(self.head).max(after);
        let (mut found, mut progress) = (Vec::new(), after);
        loop {
            let page = self
                .store
                .reader
                .read_log(&LogQuery {
                    after: Revision(progress),
                    ..query.clone()
                })
                .unwrap();
            assert!(page.entries.len() <= entry_limit);
            let used: usize = page.entries.iter().map(|entry| entry.encoded.len()).sum();
            assert!(used <= limit_bytes || page.entries.len() == 1);
            for entry in &page.entries {
                assert!(entry.revision.0 > progress && entry.revision <= page.progress);
                found.push(entry.revision.0);
            }
            let hash = self.store.reader.hash_at(page.progress).unwrap().value;
            assert_eq!(page.progress_hash, hash);
            if page.progress.0 == end {
                break;
            }
            assert!(page.progress.0 > progress, "a page stands still");
            progress = page.progress.0;
        }
        let expected: Vec<u64> = self
            .model
            .iter()
            .filter(|entry| entry.revision > after && entry.revision <= end && selected.has(entry))
            .map(|entry| entry.revision)
            .collect();
        assert_eq!(found, expected);
    }

    fn latest(&self, targets: &[(i64, Option<u8>)], after: u64, until: Option<u64>) {
        let asked: Vec<Option<Target>> = targets.iter().map(|target| Some(to_target(target))).collect();
        let found = self
            .store
            .reader
            .find_latest(&asked, Revision(after), until.map(Revision));
        if self.is_outside(after, &found) {
            return;
        }
        let end = until.unwrap_or(self.head).min(self.head);
        let expected: Vec<Revision> = targets
            .iter()
            .map(|target| {
                let newest = self
                    .model
                    .iter()
                    .rfind(|entry| entry.revision > after && entry.revision <= end && is_of(entry, target));
                Revision(newest.map_or(0, |entry| entry.revision))
            })
            .collect();
        let found = found.unwrap();
        assert_eq!((found.value, found.revision), (expected, Revision(end)));
    }

    fn before(&self, time_ms: i64) {
        let newest = self.model.iter().rfind(|entry| entry.time_ms < time_ms);
        let expected = newest.map_or(self.oldest - 1, |entry| entry.revision);
        assert_eq!(
            self.store.reader.newest_before(time_ms).unwrap(),
            Revision(expected)
        );
    }
}

impl Selected {
    fn has(&self, entry: &ModelEntry) -> bool {
        let is_selected = match (&self.targets, entry.table) {
            (None, _) => true,
            (Some(_), None) => self.with_sessions,
            (Some(targets), Some(_)) => targets.iter().any(|target| is_of(entry, target)),
        };
        is_selected
            && self
                .principal
                .is_none_or(|principal| entry.principal == format!("p{principal}"))
            && self.times.0.is_none_or(|from| entry.time_ms >= from)
            && self.times.1.is_none_or(|until| entry.time_ms < until)
    }
}

fn is_of(entry: &ModelEntry, (table, key): &(i64, Option<u8>)) -> bool {
    entry.table == Some(*table) && key.is_none_or(|key| entry.key == format!("k{key}"))
}

fn to_target((table, key): &(i64, Option<u8>)) -> Target {
    Target {
        table: TableId(*table),
        key: key.map(|key| format!("k{key}")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_log_is_what_a_naive_one_says(steps in steps()) {
        let mut pair = Pair::new();
        for step in steps {
            pair = pair.take(step);
        }
    }
}
