//! What the gateways count about themselves, summed up over all processes of a run.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::harness::http::Request;

/// Counters by name and labels, as they stand in the text.
#[derive(Debug, Default)]
pub struct Counters(pub BTreeMap<String, f64>);

impl Counters {
    /// Adds what a gateway has counted since it started.
    pub fn add(&mut self, admin: SocketAddr) {
        let answer = Request::get("/metrics").send(admin);
        if answer.status == 200 {
            self.add_text(&answer.text());
        }
    }

    fn add_text(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, value)) = line.rsplit_once(' ')
                && let Ok(value) = value.parse::<f64>()
            {
                *self.0.entry(name.to_owned()).or_default() += value;
            }
        }
    }

    /// Returns the sum of those of this name whose labels have this in them.
    pub fn sum(&self, name: &str, labels: &str) -> f64 {
        let of_name = self.0.iter().filter(|(key, _)| {
            key.strip_prefix(name)
                .is_some_and(|rest| (rest.is_empty() || rest.starts_with('{')) && rest.contains(labels))
        });
        of_name.map(|(_, value)| value).sum()
    }
}

#[test]
fn counters_are_summed_up_by_name_and_label() {
    let mut counters = Counters::default();
    for _ in 0..2 {
        counters.add_text("# TYPE a counter\na{b=\"x\"} 1\na{b=\"y\"} 2\naa 5\n");
    }
    assert_eq!(counters.sum("a", ""), 6.0);
    assert_eq!(counters.sum("a", "b=\"x\""), 2.0);
    assert_eq!(counters.sum("aa", ""), 10.0);
}
