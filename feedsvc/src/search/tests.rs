//! Searches and counts on a real store, against a naive filter over a list.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::{
    AttributePath, Comparator, Comparison, Condition, PageBounds, Position, Query, Search, SearchError,
    SearchedTable, SortStep, Visibility,
};
use crate::catalog::json::{Json, JsonObject, object_to_text};
use crate::catalog::testing::table;
use crate::catalog::{CatalogTable, TableId};
use crate::revision::Revision;
use crate::store::sqlite;
use crate::store::{IndexWork, Interrupt, Reader, StoredRecord, Writer};

const SDL: &str = "
    type WithString @table(open: true) { id: String @primaryKey  a: Any @indexed  b: Any @indexed }
    type WithId @table(open: true) { id: ID @primaryKey  a: Any @indexed  b: Any @indexed }
";

/// A value whose place among all others is known without the code under test.
struct Known {
    text: String,
    kind: Kind,
    /// Values of one kind with the same class are equal.
    class: usize,
    /// Its place in an order; equal values have one, except lists.
    place: usize,
    /// For a list: its elements, as places in the pool.
    elements: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Boolean,
    Number,
    String,
    List,
}

/// Values in their order; those on one line are equal.
fn pool() -> Vec<Known> {
    let long = |end: &str| format!("\"{}{end}\"", "x".repeat(300));
    let (long_a, long_b) = (long("a"), long("b"));
    let lines: Vec<(Kind, Vec<&str>)> = vec![
        (Kind::Null, vec!["null"]),
        (Kind::Boolean, vec!["false"]),
        (Kind::Boolean, vec!["true"]),
        (Kind::Number, vec!["-1e400"]),
        (Kind::Number, vec!["-2.5", "-25e-1"]),
        (Kind::Number, vec!["0", "-0", "0.0"]),
        (Kind::Number, vec!["0.5"]),
        (Kind::Number, vec!["1", "1.0", "1e0", "10E-1"]),
        (Kind::Number, vec!["9007199254740992"]),
        (Kind::Number, vec!["9007199254740993", "9007199254740993.0"]),
        (Kind::Number, vec!["1e400"]),
        (Kind::String, vec!["\"\""]),
        (Kind::String, vec!["\"\\u0000\""]),
        (Kind::String, vec!["\"a\"", "\"\\u0061\""]),
        (Kind::String, vec!["\"ab\""]),
        (Kind::String, vec!["\"b\""]),
        (Kind::String, vec![&long_a]),
        (Kind::String, vec![&long_b]),
        (Kind::String, vec!["\"é\""]),
        (Kind::String, vec!["\"😀\""]),
    ];
    let mut pool = Vec::new();
    for (place, (kind, texts)) in lines.iter().enumerate() {
        for text in texts {
            pool.push(Known {
                text: (*text).to_owned(),
                kind: *kind,
                class: place,
                place,
                elements: Vec::new(),
            });
        }
    }
    let place_of = |text: &str| pool.iter().position(|known| known.text == text).unwrap();
    let (one, one_point, a) = (place_of("1"), place_of("1.0"), place_of("\"a\""));
    // By their text: a quote is below a digit, and a point is below a bracket.
    for (text, class, place, elements) in [
        ("[\"a\"]", 100, 100, vec![a]),
        ("[1.0]", 101, 101, vec![one_point]),
        ("[1]", 101, 102, vec![one]),
    ] {
        pool.push(Known {
            text: text.to_owned(),
            kind: Kind::List,
            class,
            place,
            elements,
        });
    }
    pool
}

fn parse(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

/// A record: places in the pool; `None` is absent.
#[derive(Clone, Debug)]
struct Row {
    key: String,
    a: Option<usize>,
    b: Option<usize>,
    c: Option<usize>,
}

impl Row {
    fn value(&self, pool: &[Known]) -> String {
        let mut object = JsonObject::new();
        object.insert("id".to_owned(), Json::String(self.key.clone()));
        for (name, place) in [("a", self.a), ("b", self.b)] {
            if let Some(place) = place {
                object.insert(name.to_owned(), parse(&pool[place].text));
            }
        }
        if let Some(place) = self.c {
            let inner = JsonObject::from_iter([("d".to_owned(), parse(&pool[place].text))]);
            object.insert("c".to_owned(), Json::Object(inner));
        }
        object_to_text(&object)
    }

    /// The value of an attribute as a place in the pool; the first one is null.
    fn get(&self, attribute: &str) -> usize {
        match attribute {
            "a" => self.a.unwrap_or(0),
            "b" => self.b.unwrap_or(0),
            "c.d" => self.c.unwrap_or(0),
            other => panic!("{other}"),
        }
    }
}

/// A condition of the model.
#[derive(Clone, Debug)]
enum Model {
    Compare(&'static str, Comparator, Vec<usize>),
    Key(Comparator, String, String),
    All(Vec<Model>),
    Any(Vec<Model>),
}

impl Model {
    fn holds(&self, row: &Row, pool: &[Known]) -> bool {
        match self {
            Model::All(models) => models.iter().all(|model| model.holds(row, pool)),
            Model::Any(models) => models.iter().any(|model| model.holds(row, pool)),
            Model::Key(comparator, low, high) => match comparator {
                Comparator::Equals => row.key == *low,
                Comparator::NotEquals => row.key != *low,
                Comparator::Contains => row.key.contains(low),
                Comparator::StartsWith => row.key.starts_with(low),
                Comparator::EndsWith => row.key.ends_with(low),
                Comparator::GreaterThan => row.key > *low,
                Comparator::GreaterThanEqual => row.key >= *low,
                Comparator::LessThan => row.key < *low,
                Comparator::LessThanEqual => row.key <= *low,
                Comparator::Between => row.key >= *low && row.key <= *high,
                Comparator::In => row.key == *low || row.key == *high,
            },
            Model::Compare(attribute, comparator, values) => {
                let found = &pool[row.get(attribute)];
                let first = values.first().map(|place| &pool[*place]);
                let second = values.get(1).map(|place| &pool[*place]);
                let equals = |value: Option<&Known>| {
                    value.is_some_and(|value| found.kind == value.kind && found.class == value.class)
                };
                let ordered = |value: Option<&Known>| {
                    let value = value.filter(|value| value.kind == found.kind)?;
                    let has_order = matches!(found.kind, Kind::Boolean | Kind::Number | Kind::String);
                    has_order.then(|| found.place.cmp(&value.place))
                };
                let text = |known: &Known| match parse(&known.text) {
                    Json::String(text) => Some(text),
                    _ => None,
                };
                let texts = first.and_then(|first| Some((text(found)?, text(first)?)));
                match comparator {
                    Comparator::Equals => equals(first),
                    Comparator::NotEquals => !equals(first),
                    Comparator::In => values.iter().any(|value| equals(Some(&pool[*value]))),
                    Comparator::Contains if found.kind == Kind::List => {
                        found.elements.iter().any(|element| {
                            let element = &pool[*element];
                            first.is_some_and(|first| {
                                first.kind == element.kind && first.class == element.class
                            })
                        })
                    }
                    Comparator::Contains => texts.is_some_and(|(found, part)| found.contains(&part)),
                    Comparator::StartsWith => texts.is_some_and(|(found, start)| found.starts_with(&start)),
                    Comparator::EndsWith => texts.is_some_and(|(found, end)| found.ends_with(&end)),
                    Comparator::GreaterThan => ordered(first) == Some(Ordering::Greater),
                    Comparator::GreaterThanEqual => ordered(first).is_some_and(Ordering::is_ge),
                    Comparator::LessThan => ordered(first) == Some(Ordering::Less),
                    Comparator::LessThanEqual => ordered(first).is_some_and(Ordering::is_le),
                    Comparator::Between => {
                        ordered(first).is_some_and(Ordering::is_ge)
                            && ordered(second).is_some_and(Ordering::is_le)
                    }
                }
            }
        }
    }

    /// The condition that is searched by; `None` where the contract has no such comparison.
    fn condition(&self, pool: &[Known]) -> Option<Condition> {
        let all = |models: &[Model]| {
            models
                .iter()
                .map(|model| model.condition(pool))
                .collect::<Option<Vec<_>>>()
        };
        let (attribute, comparator, value) = match self {
            Model::All(models) => return Some(Condition::All(all(models)?)),
            Model::Any(models) => return Some(Condition::Any(all(models)?)),
            Model::Key(comparator, low, high) => {
                let (low, high) = (Json::String(low.clone()), Json::String(high.clone()));
                let value = match comparator {
                    Comparator::Between | Comparator::In => Json::Array(vec![low, high]),
                    _ => low,
                };
                ("id", *comparator, value)
            }
            Model::Compare(attribute, comparator, values) => {
                let mut values = values.iter().map(|place| parse(&pool[*place].text));
                let value = match comparator {
                    Comparator::Between | Comparator::In => Json::Array(values.collect()),
                    _ => values.next()?,
                };
                (*attribute, *comparator, value)
            }
        };
        let path = AttributePath::parse("", attribute).unwrap();
        Comparison::new("", path, comparator, value)
            .ok()
            .map(Condition::Comparison)
    }
}

/// A step of the model's order; "id" means the key.
type ModelStep = (&'static str, bool);

fn compare(left: &Row, right: &Row, steps: &[ModelStep], pool: &[Known]) -> Ordering {
    for (attribute, descending) in steps {
        let order = match *attribute {
            "id" => left.key.cmp(&right.key),
            other => pool[left.get(other)].place.cmp(&pool[right.get(other)].place),
        };
        let order = if *descending { order.reverse() } else { order };
        if order != Ordering::Equal {
            return order;
        }
    }
    left.key.cmp(&right.key)
}

/// When the table gets its indexes.
#[derive(Clone, Copy, Debug)]
enum Indexed {
    Never,
    BeforeTheRecords,
    AfterTheRecords,
    /// Not built to the end, so not usable yet.
    Partly,
}

/// A store with one table, and the rows that it has.
struct Bed {
    reader: Arc<dyn Reader>,
    writer: Box<dyn Writer>,
    schema: Arc<CatalogTable>,
    id: TableId,
    rows: BTreeMap<String, Row>,
    pool: Vec<Known>,
    _directory: tempfile::TempDir,
}

impl Bed {
    fn new(table_name: &str, rows: Vec<Row>, indexed: Indexed) -> Bed {
        let directory = tempfile::tempdir().unwrap();
        let store = sqlite::open(directory.path()).unwrap();
        let schema = table(SDL, table_name);
        let mut bed = Bed {
            reader: store.reader,
            writer: Box::new(store.writer),
            id: schema.id,
            schema,
            rows: BTreeMap::new(),
            pool: pool(),
            _directory: directory,
        };
        let name = bed.schema.name.clone();
        let head = bed.writer.head().unwrap();
        let mut transaction = bed.writer.begin().unwrap();
        bed.id = transaction.create_table(&name).unwrap();
        transaction.commit(&head).unwrap();
        if matches!(indexed, Indexed::BeforeTheRecords) {
            bed.create_indexes();
        }
        bed.write(
            &rows
                .into_iter()
                .map(|row| (row.key.clone(), Some(row)))
                .collect::<Vec<_>>(),
        );
        match indexed {
            Indexed::Never | Indexed::BeforeTheRecords => {}
            Indexed::AfterTheRecords => {
                bed.create_indexes();
                while bed.work() == IndexWork::Left {}
            }
            Indexed::Partly => {
                bed.create_indexes();
                bed.work();
            }
        }
        bed
    }

    fn create_indexes(&mut self) {
        let head = self.writer.head().unwrap();
        let mut transaction = self.writer.begin().unwrap();
        for attribute in ["a", "b"] {
            transaction.create_index(self.id, attribute).unwrap();
        }
        transaction.commit(&head).unwrap();
    }

    fn work(&mut self) -> IndexWork {
        let head = self.writer.head().unwrap();
        let mut transaction = self.writer.begin().unwrap();
        let work = transaction.work_on_indexes(3).unwrap();
        transaction.commit(&head).unwrap();
        work
    }

    /// Puts and removes records, in one transaction.
    fn write(&mut self, changes: &[(String, Option<Row>)]) {
        let mut head = self.writer.head().unwrap();
        let mut transaction = self.writer.begin().unwrap();
        for (key, row) in changes {
            head.revision = head.revision.next();
            let existed = self.rows.contains_key(key);
            match row {
                Some(row) => {
                    let record = StoredRecord {
                        revision: head.revision,
                        value: row.value(&self.pool).into(),
                    };
                    transaction.write_record(self.id, key, &record, existed).unwrap();
                    self.rows.insert(key.clone(), row.clone());
                }
                None if existed => {
                    transaction.remove_record(self.id, key).unwrap();
                    self.rows.remove(key);
                }
                None => {}
            }
        }
        transaction.commit(&head).unwrap();
    }

    fn search(&self, condition: Option<Condition>, steps: &[ModelStep], scan_max: u64) -> Search {
        let sort = steps.iter().map(|(attribute, descending)| SortStep {
            attribute: AttributePath::parse("", attribute).unwrap(),
            descending: *descending,
        });
        Search {
            query: Query {
                table: SearchedTable {
                    id: self.id,
                    name: self.schema.name.clone(),
                    schema: Some(Arc::clone(&self.schema)),
                },
                condition,
                sort: sort.collect(),
                attributes: Vec::new(),
            },
            visibility: Visibility::default(),
            scan_max,
        }
    }

    /// The keys of a page, its plan, and where the next one begins.
    fn page(
        &self,
        search: &Search,
        bounds: &PageBounds,
    ) -> Result<(Vec<String>, String, Option<Position>), SearchError> {
        let mut outcome = None;
        self.reader
            .view(&mut |view| {
                outcome = Some(search.find_page(view, bounds, &Interrupt::default()));
                Ok(())
            })
            .unwrap();
        let page = outcome.unwrap()?;
        for record in &page.value.records {
            let row = &self.rows[&record.key];
            assert_eq!(record.value, row.value(&self.pool).as_bytes());
        }
        let keys = page.value.records.into_iter().map(|record| record.key).collect();
        Ok((keys, page.value.plan, page.value.next))
    }

    fn count(&self, search: &Search) -> Result<u64, SearchError> {
        let mut outcome = None;
        self.reader
            .view(&mut |view| {
                outcome = Some(search.count(view, &Interrupt::default()));
                Ok(())
            })
            .unwrap();
        Ok(outcome.unwrap()?.value)
    }

    /// The keys that a naive filter finds, in their order.
    fn expected(&self, model: &Model, steps: &[ModelStep]) -> Vec<String> {
        let mut rows: Vec<&Row> = self
            .rows
            .values()
            .filter(|row| model.holds(row, &self.pool))
            .collect();
        rows.sort_by(|left, right| compare(left, right, steps, &self.pool));
        rows.into_iter().map(|row| row.key.clone()).collect()
    }
}

fn bounds(start: Position, limit: usize) -> PageBounds {
    PageBounds {
        start,
        limit,
        limit_bytes: 1 << 24,
    }
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        (0_u8..24).prop_map(|number| format!("k{number}")),
        Just("é".to_owned()),
        Just("k".repeat(1_024)),
        Just("k1\u{0}x".to_owned()),
    ]
}

fn row() -> impl Strategy<Value = Row> {
    let value = || proptest::option::weighted(0.9, 0..pool().len());
    (key(), value(), value(), value()).prop_map(|(key, a, b, c)| Row { key, a, b, c })
}

fn comparator() -> impl Strategy<Value = Comparator> {
    proptest::sample::select(Comparator::ALL)
}

fn model() -> impl Strategy<Value = Model> {
    let values = proptest::collection::vec(0..pool().len(), 2);
    let attribute = proptest::sample::select(&["a", "b", "c.d"][..]);
    let comparison = prop_oneof![
        6 => (attribute, comparator(), values)
            .prop_map(|(attribute, comparator, values)| Model::Compare(attribute, comparator, values))
            .prop_filter("the contract has it", |model| model.condition(&pool()).is_some()),
        1 => (comparator(), key(), key()).prop_map(|(comparator, low, high)| Model::Key(comparator, low, high)),
    ];
    comparison.prop_recursive(3, 12, 3, |inner| {
        let group = proptest::collection::vec(inner, 0..4);
        prop_oneof![group.clone().prop_map(Model::All), group.prop_map(Model::Any),]
    })
}

fn steps() -> impl Strategy<Value = Vec<ModelStep>> {
    let attribute = proptest::sample::select(&["a", "b", "c.d", "id"][..]);
    proptest::collection::vec((attribute, any::<bool>()), 0..4)
}

fn indexed() -> impl Strategy<Value = Indexed> {
    proptest::sample::select(
        &[
            Indexed::Never,
            Indexed::BeforeTheRecords,
            Indexed::AfterTheRecords,
            Indexed::Partly,
        ][..],
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn a_search_finds_what_a_naive_filter_finds(
        table_name in proptest::sample::select(&["WithString", "WithId"][..]),
        rows in proptest::collection::vec(row(), 0..40),
        indexed in indexed(),
        queries in proptest::collection::vec((model(), steps(), 1_usize..6), 4),
    ) {
        let bed = Bed::new(table_name, rows, indexed);
        for (model, steps, limit) in queries {
            let search = bed.search(model.condition(&bed.pool), &steps, u64::MAX);
            let expected = bed.expected(&model, &steps);
            prop_assert_eq!(bed.count(&search).unwrap(), expected.len() as u64, "{:?}", model);
            let (mut found, mut start) = (Vec::new(), Position::default());
            loop {
                let (keys, plan, next) = bed.page(&search, &bounds(start, limit)).unwrap();
                prop_assert!(keys.len() == limit || next.is_none(), "{}", plan);
                found.extend(keys);
                let Some(next) = next else { break };
                start = next;
            }
            prop_assert_eq!(found, expected, "{:?} {:?}", model, steps);
        }
    }

    #[test]
    fn what_is_unchanged_while_pages_are_read_comes_exactly_once(
        table_name in proptest::sample::select(&["WithString", "WithId"][..]),
        rows in proptest::collection::vec(row(), 10..40),
        indexed in indexed(),
        model in model(),
        steps in steps(),
        limit in 1_usize..6,
        changes in proptest::collection::vec(
            proptest::collection::vec((row(), proptest::bool::weighted(0.7)), 0..4), 1..8,
        ),
    ) {
        let mut bed = Bed::new(table_name, rows, indexed);
        let before = bed.rows.clone();
        let search = bed.search(model.condition(&bed.pool), &steps, u64::MAX);
        let (mut found, mut start) = (Vec::new(), Position::default());
        let mut touched = BTreeSet::new();
        let mut changes = changes.into_iter();
        loop {
            let (keys, _, next) = bed.page(&search, &bounds(start, limit)).unwrap();
            let page: Vec<&Row> = keys.iter().map(|key| &bed.rows[key]).collect();
            for row in &page {
                prop_assert!(model.holds(row, &bed.pool));
            }
            for pair in page.windows(2) {
                prop_assert_eq!(compare(pair[0], pair[1], &steps, &bed.pool), Ordering::Less);
            }
            found.extend(keys);
            let Some(next) = next else { break };
            start = next;
            let batch: Vec<(String, Option<Row>)> = changes
                .next()
                .unwrap_or_default()
                .into_iter()
                .map(|(row, is_put)| (row.key.clone(), is_put.then_some(row)))
                .collect();
            touched.extend(batch.iter().map(|(key, _)| key.clone()));
            bed.write(&batch);
            if matches!(indexed, Indexed::Partly) {
                // The index may become usable between two pages.
                bed.work();
            }
        }
        bed.rows = before;
        let is_unchanged = |key: &String| !touched.contains(key);
        let expected: Vec<String> = bed.expected(&model, &steps).into_iter().filter(is_unchanged).collect();
        let found: Vec<String> = found.into_iter().filter(is_unchanged).collect();
        prop_assert_eq!(found, expected);
    }
}

/// A bed with so many records: `a` is their number, `b` one of two values.
fn numbered(count: usize, indexed: Indexed) -> Bed {
    let pool = pool();
    let numbers: Vec<usize> = (0..pool.len())
        .filter(|place| pool[*place].kind == Kind::Number)
        .collect();
    let rows = (0..count).map(|number| Row {
        key: format!("k{number:05}"),
        a: Some(numbers[number % numbers.len()]),
        b: Some(number % 2),
        c: None,
    });
    Bed::new("WithId", rows.collect(), indexed)
}

fn condition(text: &str) -> Option<Condition> {
    Some(Condition::from_json("condition", &parse(text)).unwrap())
}

/// The plan of the first page, or what the search is refused with.
fn outcome(bed: &Bed, text: &str, steps: &[ModelStep], scan_max: u64) -> String {
    let search = bed.search(
        (!text.is_empty()).then(|| condition(text)).flatten(),
        steps,
        scan_max,
    );
    match bed.page(&search, &bounds(Position::default(), 2)) {
        Ok((_, plan, _)) => plan,
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_search_says_how_it_found_its_records() {
    let bed = numbered(50, Indexed::BeforeTheRecords);
    for (condition, steps, plan) in [
        ("", &[][..], "key"),
        (r#"{"attribute":"id","value":"k00007"}"#, &[], "key"),
        (
            r#"{"attribute":"id","comparator":"starts_with","value":"k0000"}"#,
            &[("c.d", false)],
            "key",
        ),
        (r#"{"attribute":"c.d","value":1}"#, &[], "scan"),
        (
            r#"{"attribute":"a","comparator":"contains","value":"x"}"#,
            &[],
            "scan",
        ),
        ("", &[("c.d", true)], "scan"),
        (r#"{"attribute":"a","value":1}"#, &[], "index:a"),
        (
            r#"{"attribute":"a","comparator":"between","value":[0,1]}"#,
            &[("c.d", false)],
            "index:a",
        ),
        ("", &[("b", true)], "index:b"),
        (
            r#"{"conditions":[{"attribute":"a","value":1},{"attribute":"b","value":null}]}"#,
            &[],
            "index:a",
        ),
    ] {
        assert_eq!(
            outcome(&bed, condition, steps, 1_000),
            plan,
            "{condition} {steps:?}"
        );
    }
}

#[test]
fn a_search_that_would_look_at_too_much_is_refused_and_says_what_to_do() {
    const WOULD: &str = "it would look at more than 20 records of table data.WithId; ";
    let none = numbered(50, Indexed::Never);
    let ready = numbered(50, Indexed::AfterTheRecords);
    let building = numbered(50, Indexed::Partly);
    let rare = r#"{"attribute":"a","comparator":"less_than","value":-1e399}"#;
    for (bed, condition, steps, expected) in [
        (&none, "", &[][..], "key".to_owned()),
        (&none, r#"{"attribute":"b","value":null}"#, &[], "scan".to_owned()),
        (
            &none,
            rare,
            &[("b", false)],
            format!("{WOULD}declare `a` or `b` @indexed, or narrow the condition"),
        ),
        (
            &none,
            "",
            &[("b", true)],
            format!("{WOULD}declare `b` @indexed, or narrow the condition"),
        ),
        (
            &none,
            r#"{"attribute":"c.d","value":1}"#,
            &[],
            format!("{WOULD}narrow the condition by an indexed attribute or by the primary key"),
        ),
        (&ready, rare, &[("b", false)], "index:a".to_owned()),
        (&ready, "", &[("b", true)], "index:b".to_owned()),
        (
            &ready,
            r#"{"attribute":"b","value":null}"#,
            &[("c.d", false)],
            format!("{WOULD}narrow the condition by an indexed attribute or by the primary key"),
        ),
        (
            &building,
            rare,
            &[("c.d", false)],
            format!(
                "{WOULD}the index on `a` is still being built: search again later, or narrow the condition"
            ),
        ),
    ] {
        assert_eq!(
            outcome(bed, condition, steps, 20),
            expected,
            "{condition} {steps:?}"
        );
    }
    let limits = |bed: &Bed, text: &str| bed.count(&bed.search(condition(text), &[], 20)).is_err();
    assert!(limits(&none, r#"{"attribute":"b","value":null}"#));
    assert!(limits(&building, rare));
    let counted = ready.count(&ready.search(condition(r#"{"attribute":"b","value":null}"#), &[], 20));
    assert_eq!(counted.unwrap(), 25, "the index alone tells it");
    assert_eq!(
        none.count(&none.search(None, &[], 0)).unwrap(),
        50,
        "nothing is looked at"
    );
}

#[test]
fn a_page_ends_at_its_bytes_and_has_at_least_one_record() {
    let bed = numbered(20, Indexed::BeforeTheRecords);
    for steps in [&[][..], &[("a", false)], &[("c.d", true)]] {
        let search = bed.search(None, steps, 1_000);
        let (mut found, mut start, mut pages) = (Vec::new(), Position::default(), 0);
        loop {
            let small = PageBounds {
                limit_bytes: 1,
                ..bounds(start, 10)
            };
            let (keys, _, next) = bed.page(&search, &small).unwrap();
            assert_eq!(keys.len(), 1);
            found.extend(keys);
            pages += 1;
            let Some(next) = next else { break };
            start = next;
        }
        assert_eq!(
            (pages, found),
            (20, bed.expected(&Model::All(vec![]), steps)),
            "{steps:?}"
        );
    }
}

#[test]
fn a_search_of_which_nobody_waits_for_the_answer_ends() {
    let bed = numbered(20, Indexed::Never);
    let interrupt = Interrupt::default();
    interrupt.set();
    let search = bed.search(condition(r#"{"attribute":"a","value":7}"#), &[], 1_000);
    bed.reader
        .view(&mut |view| {
            for ended in [
                search
                    .find_page(view, &bounds(Position::default(), 1), &interrupt)
                    .is_err(),
                search.count(view, &interrupt).is_err(),
            ] {
                assert!(ended);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_row_filter_is_part_of_every_condition() {
    let bed = numbered(10, Indexed::BeforeTheRecords);
    let mut search = bed.search(None, &[("b", true)], 1_000);
    search.visibility.filter = condition(r#"{"attribute":"b","value":null}"#);
    assert_eq!(bed.count(&search).unwrap(), 5);
    let (keys, _, next) = bed.page(&search, &bounds(Position::default(), 100)).unwrap();
    assert_eq!((keys.len(), next), (5, None));
    let mut hidden = bed.search(None, &[], 1_000);
    hidden.visibility = search.visibility.clone();
    hidden.visibility.hidden = std::iter::once("b".to_owned()).collect();
    let mut plan = String::new();
    bed.reader
        .view(&mut |view| {
            let page = hidden.find_page(view, &bounds(Position::default(), 1), &Interrupt::default());
            plan = page.unwrap().value.plan;
            Ok(())
        })
        .unwrap();
    assert_eq!(plan, "index", "the name of a hidden attribute is not told");
    assert_eq!(bed.reader.bounds().unwrap().head, Revision(10));
}
