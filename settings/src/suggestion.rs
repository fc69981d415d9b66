//! What was meant by a name that does not exist.

/// Returns the candidate that the name is most like, if it is like one at all.
pub(crate) fn closest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = letters(name);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let full = letters(candidate);
        let distance = if full.ends_with(&wanted) && candidate_ends_with_words(candidate, name) {
            // `idle_timeout` for `session.idle_timeout`.
            1
        } else {
            strsim::damerau_levenshtein(&wanted, &full)
        };
        if distance <= allowed(&wanted) && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// How many letters may differ: a third of them, at least one.
fn allowed(name: &str) -> usize {
    (name.chars().count() / 3).max(1)
}

/// What joins the words of a name is mistaken often, so it does not count.
fn letters(name: &str) -> String {
    let letters = name
        .chars()
        .filter(|character| !matches!(character, '.' | '_' | '-' | '"'));
    letters.collect::<String>().to_lowercase()
}

fn candidate_ends_with_words(candidate: &str, name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    let candidate = candidate.to_lowercase();
    name.len() > 3
        && candidate
            .strip_suffix(&name)
            .is_some_and(|before| before.ends_with(['.', '_']))
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn what_was_meant_is_found() {
        let keys = [
            "listen",
            "data",
            "ring.bytes",
            "record.bytes",
            "session.idle_timeout",
        ];
        for (name, meant) in [
            ("lisen", Some("listen")),
            ("ring_bytes", Some("ring.bytes")),
            ("ring-bytes", Some("ring.bytes")),
            ("rnig.bytes", Some("ring.bytes")),
            ("\"ring.bytes\"", Some("ring.bytes")),
            ("Listen", Some("listen")),
            ("idle_timeout", Some("session.idle_timeout")),
            ("session.idletimeout", Some("session.idle_timeout")),
            ("record.byte", Some("record.bytes")),
            ("port", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(closest(name, keys.into_iter()), meant, "{name}");
        }
    }
}
