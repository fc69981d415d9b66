//! Which part of an index, or of the keys, a condition leaves: ranges of bytes, joined and cut as the tree says.

use super::condition::{Comparator, Comparison, Condition};
use super::sort_key::{INDEX_KEY_LIMIT_BYTES, NESTED, OrderedType, STRING, encode_text_start, sort_key};
use crate::catalog::Scalar;
use crate::catalog::json::Json;
use crate::store::ByteRange;

/// Ranges that hold every record for which a condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranges {
    /// Invariant: rising, none of them empty, no two that touch.
    pub(super) ranges: Vec<ByteRange>,
    /// Whether the condition holds for every record in them.
    pub(super) is_exact: bool,
}

impl Ranges {
    pub(super) fn everything(is_exact: bool) -> Ranges {
        Ranges {
            ranges: vec![ByteRange {
                lower: Vec::new(),
                upper: None,
            }],
            is_exact,
        }
    }

    /// Returns one range, which holds all and only what is meant.
    pub(super) fn one(range: ByteRange) -> Ranges {
        Ranges::new(vec![range], true)
    }

    fn new(mut ranges: Vec<ByteRange>, is_exact: bool) -> Ranges {
        ranges.retain(|range| range.upper.as_ref().is_none_or(|upper| range.lower < *upper));
        ranges.sort_by(|left, right| left.lower.cmp(&right.lower));
        let mut joined: Vec<ByteRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.upper.as_ref().is_none_or(|upper| *upper >= range.lower) => {
                    last.upper = higher(last.upper.take(), range.upper);
                }
                Some(_) | None => joined.push(range),
            }
        }
        Ranges {
            ranges: joined,
            is_exact,
        }
    }

    pub(super) fn is_everything(&self) -> bool {
        matches!(self.ranges.as_slice(), [range] if range.lower.is_empty() && range.upper.is_none())
    }

    /// Returns what lies in both.
    pub(super) fn intersect(&self, other: &Ranges) -> Ranges {
        let mut common = Vec::new();
        let (mut left, mut right) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
            common.push(ByteRange {
                lower: first.lower.clone().max(second.lower.clone()),
                upper: lower_bound(first.upper.as_ref(), second.upper.as_ref()),
            });
            let first_ends_first = match (&first.upper, &second.upper) {
                (Some(first), Some(second)) => first <= second,
                (Some(_), None) => true,
                (None, Some(_) | None) => false,
            };
            if first_ends_first {
                left.next();
            } else {
                right.next();
            }
        }
        Ranges::new(common, self.is_exact && other.is_exact)
    }

    fn unite(&self, other: &Ranges) -> Ranges {
        let all = self.ranges.iter().chain(&other.ranges).cloned().collect();
        Ranges::new(all, self.is_exact && other.is_exact)
    }
}

/// The higher one of two upper bounds.
fn higher(left: Option<Vec<u8>>, right: Option<Vec<u8>>) -> Option<Vec<u8>> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.max(right)),
        (None, _) | (_, None) => None,
    }
}

/// The lower one of two upper bounds.
fn lower_bound(left: Option<&Vec<u8>>, right: Option<&Vec<u8>>) -> Option<Vec<u8>> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right).clone()),
        (Some(one), None) | (None, Some(one)) => Some(one.clone()),
        (None, None) => None,
    }
}

/// Returns the part of an index on an attribute that a condition leaves.
pub(super) fn index_ranges(condition: &Condition, attribute: &str) -> Ranges {
    ranges(condition, attribute, &comparison_in_index)
}

/// Returns the part of the keys that a condition on the primary key leaves.
pub(super) fn key_ranges(condition: &Condition, primary_key: &str, scalar: Scalar) -> Ranges {
    ranges(condition, primary_key, &|comparison| {
        comparison_in_keys(comparison, scalar)
    })
}

fn ranges(condition: &Condition, attribute: &str, compare: &dyn Fn(&Comparison) -> Ranges) -> Ranges {
    match condition {
        Condition::Comparison(comparison) if comparison.attribute.as_str() == attribute => {
            compare(comparison)
        }
        Condition::Comparison(_) => Ranges::everything(false),
        Condition::All(conditions) => conditions
            .iter()
            .map(|condition| ranges(condition, attribute, compare))
            .fold(Ranges::everything(true), |all, one| all.intersect(&one)),
        Condition::Any(conditions) => conditions
            .iter()
            .map(|condition| ranges(condition, attribute, compare))
            .fold(Ranges::new(Vec::new(), true), |any, one| any.unite(&one)),
    }
}

/// All sort keys that begin with these bytes.
fn beginning_with(start: &[u8]) -> ByteRange {
    ByteRange {
        lower: start.to_vec(),
        upper: successor(start),
    }
}

/// The lowest bytes above everything that begins with these.
pub(super) fn successor(start: &[u8]) -> Option<Vec<u8>> {
    let last = start.iter().rposition(|byte| *byte < 0xff)?;
    let mut above = start[..=last].to_vec();
    above[last] += 1;
    Some(above)
}

/// The entries of the values that are equal to one of these, or are taken for it.
fn points_in_index(values: &[Json]) -> Ranges {
    let mut is_exact = true;
    let points = values.iter().map(|value| match value {
        // Equal lists and objects may have different texts.
        Json::Array(_) | Json::Object(_) => {
            is_exact = false;
            beginning_with(&[NESTED])
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            let key = cut(sort_key(value));
            is_exact &= key.len() < INDEX_KEY_LIMIT_BYTES;
            point(&key)
        }
    });
    let points = points.collect();
    Ranges::new(points, is_exact)
}

fn cut(mut key: Vec<u8>) -> Vec<u8> {
    key.truncate(INDEX_KEY_LIMIT_BYTES);
    key
}

/// These bytes and no others. No sort key is the beginning of another.
fn point(bytes: &[u8]) -> ByteRange {
    ByteRange {
        lower: bytes.to_vec(),
        upper: Some(above(bytes)),
    }
}

/// The lowest bytes above these.
fn above(bytes: &[u8]) -> Vec<u8> {
    let mut above = bytes.to_vec();
    above.push(0);
    above
}

fn comparison_in_index(comparison: &Comparison) -> Ranges {
    let value = &comparison.value;
    match comparison.comparator {
        Comparator::Equals => points_in_index(std::slice::from_ref(value)),
        Comparator::In => match value {
            Json::Array(values) => points_in_index(values),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
                Ranges::everything(false)
            }
        },
        Comparator::NotEquals => {
            let points = points_in_index(std::slice::from_ref(value));
            match points.ranges.as_slice() {
                [point] if points.is_exact => Ranges::new(
                    vec![
                        ByteRange {
                            lower: Vec::new(),
                            upper: Some(point.lower.clone()),
                        },
                        ByteRange {
                            lower: point.upper.clone().unwrap_or_default(),
                            upper: None,
                        },
                    ],
                    true,
                ),
                _ => Ranges::everything(false),
            }
        }
        Comparator::StartsWith => match value {
            Json::String(start) => {
                let mut key = Vec::new();
                encode_text_start(STRING, start, &mut key);
                let is_exact = key.len() <= INDEX_KEY_LIMIT_BYTES;
                Ranges::new(vec![beginning_with(&cut(key))], is_exact)
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                Ranges::everything(false)
            }
        },
        Comparator::Contains | Comparator::EndsWith => Ranges::everything(false),
        Comparator::GreaterThan => ordered(value, |key| (Some(above(key)), None)),
        Comparator::GreaterThanEqual => ordered(value, |key| (Some(key.to_vec()), None)),
        Comparator::LessThan => ordered(value, |key| (None, Some(key.to_vec()))),
        Comparator::LessThanEqual => ordered(value, |key| (None, Some(above(key)))),
        Comparator::Between => match value {
            Json::Array(bounds) => match bounds.as_slice() {
                [low, high] => ordered(low, |key| (Some(key.to_vec()), None))
                    .intersect(&ordered(high, |key| (None, Some(above(key))))),
                _ => Ranges::everything(false),
            },
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
                Ranges::everything(false)
            }
        },
    }
}

/// The values of the same type that lie between the bounds that are made of the value's sort key.
fn ordered(value: &Json, bounds: impl Fn(&[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>)) -> Ranges {
    let Some(ordered) = OrderedType::find(value) else {
        return Ranges::new(Vec::new(), true);
    };
    let (first, last) = ordered.first_bytes();
    let key = sort_key(value);
    let is_exact = key.len() < INDEX_KEY_LIMIT_BYTES;
    let (lower, upper) = if is_exact {
        bounds(&key)
    } else {
        // What is cut off where the key is cut may lie on either side: both bounds take it in.
        let (lower, upper) = bounds(&[]);
        let key = cut(key);
        (lower.map(|_| key.clone()), upper.map(|_| above(&key)))
    };
    let range = ByteRange {
        lower: lower.unwrap_or_else(|| vec![first]),
        upper: upper.or_else(|| successor(&[last])),
    };
    Ranges::new(vec![range], is_exact)
}

fn comparison_in_keys(comparison: &Comparison, scalar: Scalar) -> Ranges {
    let value = &comparison.value;
    let everything = || Ranges::everything(false);
    let text = |value: &Json| match (value, scalar) {
        (Json::String(text), Scalar::Id | Scalar::String) => Some(text.clone().into_bytes()),
        _ => None,
    };
    match comparison.comparator {
        Comparator::Equals => points_in_keys(std::slice::from_ref(value), scalar),
        Comparator::In => match value {
            Json::Array(values) => points_in_keys(values, scalar),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => everything(),
        },
        Comparator::StartsWith => text(value).map_or_else(everything, |start| {
            Ranges::new(vec![beginning_with(&start)], false)
        }),
        Comparator::GreaterThan | Comparator::GreaterThanEqual => text(value)
            .map_or_else(everything, |lower| {
                Ranges::new(vec![ByteRange { lower, upper: None }], false)
            }),
        Comparator::LessThan | Comparator::LessThanEqual => text(value).map_or_else(everything, |upper| {
            let range = ByteRange {
                lower: Vec::new(),
                upper: Some(above(&upper)),
            };
            Ranges::new(vec![range], false)
        }),
        Comparator::Between => match value {
            Json::Array(bounds) => match bounds.as_slice() {
                [low, high] => match (text(low), text(high)) {
                    (Some(lower), Some(upper)) => {
                        let range = ByteRange {
                            lower,
                            upper: Some(above(&upper)),
                        };
                        Ranges::new(vec![range], false)
                    }
                    (_, _) => everything(),
                },
                _ => everything(),
            },
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => everything(),
        },
        Comparator::NotEquals | Comparator::Contains | Comparator::EndsWith => everything(),
    }
}

/// The keys under which a record with one of these primary keys can stand.
fn points_in_keys(values: &[Json], scalar: Scalar) -> Ranges {
    let mut points = Vec::new();
    for value in values {
        match (value, scalar) {
            (Json::String(text), Scalar::Id | Scalar::String) => points.push(point(text.as_bytes())),
            (Json::Number(text), Scalar::Id | Scalar::Int | Scalar::Long | Scalar::BigInt) => {
                points.extend(integer_forms(text).iter().map(|form| point(form.as_bytes())));
            }
            (_, _) => {}
        }
    }
    Ranges::new(points, false)
}

/// The texts of integers that are equal to a number; a record may have the number 0 as `-0` under the key `-0`.
fn integer_forms(text: &str) -> Vec<String> {
    /// Longer than the longest key.
    const DIGITS_MAX: i64 = 1_100;
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(magnitude) => ("-", magnitude),
        None => ("", text),
    };
    let (mantissa, exponent) = magnitude.split_once(['e', 'E']).unwrap_or((magnitude, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return vec!["0".to_owned(), "-0".to_owned()];
    }
    let fraction_digits = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let Some(zeros) = exponent
        .parse::<i64>()
        .ok()
        .and_then(|exponent| exponent.checked_sub(fraction_digits))
    else {
        return Vec::new();
    };
    let zeros_max = DIGITS_MAX - i64::try_from(significant.len()).unwrap_or(DIGITS_MAX);
    let integer = match usize::try_from(zeros) {
        Ok(_) if zeros > zeros_max => return Vec::new(),
        Ok(zeros) => format!("{significant}{}", "0".repeat(zeros)),
        Err(_) => {
            let cut = usize::try_from(zeros.unsigned_abs()).unwrap_or(usize::MAX);
            let Some(split) = significant.len().checked_sub(cut) else {
                return Vec::new();
            };
            let (integer, rest) = significant.split_at(split);
            if integer.is_empty() || rest.bytes().any(|digit| digit != b'0') {
                return Vec::new();
            }
            integer.to_owned()
        }
    };
    vec![format!("{sign}{integer}")]
}

#[cfg(test)]
mod tests {
    use super::{Ranges, index_ranges, integer_forms, point};
    use crate::catalog::json::Json;
    use crate::search::condition::Condition;
    use crate::search::sort_key::NULL;
    use crate::store::ByteRange;

    fn condition(text: &str) -> Condition {
        Condition::from_json("condition", &Json::parse(text.as_bytes()).unwrap()).unwrap()
    }

    fn range(lower: u8, upper: u8) -> ByteRange {
        ByteRange {
            lower: vec![lower],
            upper: Some(vec![upper]),
        }
    }

    #[test]
    fn ranges_are_joined_and_cut() {
        let ranges = |pairs: &[(u8, u8)]| {
            Ranges::new(
                pairs.iter().map(|(lower, upper)| range(*lower, *upper)).collect(),
                true,
            )
        };
        assert_eq!(
            ranges(&[(5, 7), (1, 3), (3, 4), (9, 9)]),
            ranges(&[(1, 4), (5, 7)])
        );
        let cut = ranges(&[(1, 4), (5, 7)]).intersect(&ranges(&[(2, 6)]));
        assert_eq!(cut, ranges(&[(2, 4), (5, 6)]));
        assert_eq!(cut.intersect(&Ranges::everything(true)), cut);
        assert!(ranges(&[(1, 2)]).intersect(&ranges(&[(2, 3)])).ranges.is_empty());
    }

    #[test]
    fn what_a_condition_says_of_other_attributes_narrows_nothing() {
        let both = condition(
            r#"{"conditions":[{"attribute":"a","value":null},{"attribute":"b","comparator":"less_than","value":1}]}"#,
        );
        let narrowed = index_ranges(&both, "a");
        assert_eq!(
            (narrowed.ranges, narrowed.is_exact),
            (vec![point(&[NULL])], false)
        );
        let either = condition(
            r#"{"operator":"or","conditions":[{"attribute":"a","value":null},{"attribute":"b","value":1}]}"#,
        );
        assert!(index_ranges(&either, "a").is_everything());
        assert!(index_ranges(&condition(r#"{"conditions":[]}"#), "a").is_exact);
        let never = condition(r#"{"conditions":[],"operator":"or"}"#);
        assert!(index_ranges(&never, "a").ranges.is_empty());
    }

    #[test]
    fn an_integer_is_found_in_every_form() {
        for (text, expected) in [
            ("7", &["7"][..]),
            ("7.0", &["7"]),
            ("0.7e1", &["7"]),
            ("-70e-1", &["-7"]),
            ("1e2", &["100"]),
            ("-0.0", &["0", "-0"]),
            ("1.5", &[]),
            ("15e-1", &[]),
            ("1e-5", &[]),
            ("1e1000000000000000000000", &[]),
            ("1e2000", &[]),
        ] {
            assert_eq!(integer_forms(text), expected, "{text}");
        }
    }
}
