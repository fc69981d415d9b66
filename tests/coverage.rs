//! COVERAGE.md tells the truth: each of its tests exists, and no rule stands in it twice.

use std::collections::HashSet;

use crate::tidy::{sources, workspace};

/// One row of the tables in COVERAGE.md: `| rule | what | tests |`.
struct Row {
    rule: String,
    tests: Vec<String>,
}

/// Reads the rows of every table; the first two lines of each are its head.
fn rows(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut in_body = false;
    for line in text.lines() {
        let Some(cells) = line.strip_prefix('|') else {
            in_body = false;
            continue;
        };
        let cells: Vec<&str> = cells
            .trim_end()
            .trim_end_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        if cells[0].starts_with("---") {
            in_body = true;
        } else if in_body {
            let [rule, _, tests] = cells[..] else {
                panic!("a row has three cells: {line}")
            };
            let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            rows.push(Row {
                rule: rule.to_owned(),
                tests,
            });
        }
    }
    rows
}

/// Returns the names of all functions that are marked as tests.
fn test_names() -> HashSet<String> {
    let mut names = HashSet::new();
    for source in sources()
        .into_iter()
        .filter(|source| source.path.ends_with(".rs"))
    {
        let mut is_test = false;
        for line in source.text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some(name) = line.trim_start_matches("async ").strip_prefix("fn ") {
                if is_test {
                    names.insert(name.split('(').next().unwrap_or_default().to_owned());
                }
                is_test = false;
            }
        }
    }
    names
}

#[test]
fn every_test_that_coverage_names_exists() {
    let text = std::fs::read_to_string(workspace().join("tests/COVERAGE.md")).expect("COVERAGE.md");
    let (rows, existing) = (rows(&text), test_names());
    assert!(!rows.is_empty(), "the tables were found");
    let mut rules = HashSet::new();
    for row in rows {
        assert!(rules.insert(row.rule.clone()), "{} stands there twice", row.rule);
        assert!(!row.tests.is_empty(), "{} names no test", row.rule);
        for test in row.tests {
            assert!(
                existing.contains(&test),
                "{}: there is no test `{test}`",
                row.rule
            );
        }
    }
}

#[test]
fn every_test_of_a_rule_or_a_case_is_in_coverage() {
    let text = std::fs::read_to_string(workspace().join("tests/COVERAGE.md")).expect("COVERAGE.md");
    let named: HashSet<String> = rows(&text).into_iter().flat_map(|row| row.tests).collect();
    let mut missing: Vec<String> = test_names()
        .into_iter()
        .filter(|name| {
            name.starts_with("field_case_")
                || name
                    .strip_prefix("b_")
                    .is_some_and(|rest| rest.starts_with(char::is_numeric))
        })
        .filter(|name| !named.contains(name))
        .collect();
    missing.sort();
    assert!(missing.is_empty(), "not in COVERAGE.md: {missing:#?}");
}
