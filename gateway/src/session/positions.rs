//! The positions of frames that wait in one stream.

use std::collections::VecDeque;

/// From this capacity on the memory of a queue that became empty is given back.
const KEPT_CAPACITY: usize = 64;

/// Rising positions, the oldest first.
///
/// Mostly there is none or one, so the first has its place beside the rest of the stream's state: a queue of its own is
/// another line of the cache to wait for, for every frame of every stream.
///
/// Invariant: `rest` is empty while `first` is `None`.
#[derive(Debug, Default)]
pub(super) struct Positions {
    first: Option<u64>,
    rest: VecDeque<u64>,
}

impl Positions {
    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Says whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the oldest.
    pub(super) fn first(&self) -> Option<u64> {
        self.first
    }

    /// Returns all of them, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.first.into_iter().chain(self.rest.iter().copied())
    }

    /// Appends positions that rise among themselves and are all at or after `pass_start`, as everything is that was
    /// appended in the same pass; keeps the whole in order.
    pub(super) fn append(&mut self, positions: &[u64], pass_start: u64) {
        let last = self.rest.back().copied().or(self.first);
        let is_ordered = last
            .zip(positions.first())
            .is_none_or(|(last, first)| last < *first);
        let mut positions = positions.iter().copied();
        if self.first.is_none() {
            self.first = positions.next();
        }
        self.rest.extend(positions);
        if !is_ordered {
            self.restore_order(pass_start);
        }
    }

    /// Sorts what was appended in the present pass; everything before is in order and below.
    fn restore_order(&mut self, pass_start: u64) {
        let start = self.rest.partition_point(|&position| position < pass_start);
        let Some(pass) = self.rest.make_contiguous().get_mut(start..) else {
            return;
        };
        pass.sort_unstable();
        if let (Some(first), Some(least)) = (&mut self.first, pass.first_mut())
            && *least < *first
        {
            std::mem::swap(first, least);
            pass.sort_unstable();
        }
    }

    /// Removes the oldest `count`.
    pub(super) fn remove_first(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.rest.drain(..(count - 1).min(self.rest.len()));
        self.first = self.rest.pop_front();
        if self.first.is_none() && self.rest.capacity() > KEPT_CAPACITY {
            self.rest = VecDeque::new();
        }
    }

    /// Keeps only those for which `keep` holds.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(u64) -> bool) {
        self.rest.retain(|position| keep(*position));
        if self.first.is_some_and(|first| !keep(first)) {
            self.first = self.rest.pop_front();
        }
    }

    /// Removes all.
    pub(super) fn clear(&mut self) {
        *self = Positions::default();
    }
}

#[cfg(test)]
impl FromIterator<u64> for Positions {
    fn from_iter<T: IntoIterator<Item = u64>>(positions: T) -> Positions {
        let mut all = Positions::default();
        all.append(&positions.into_iter().collect::<Vec<_>>(), 0);
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Act {
        /// The gaps between the positions of each batch of one pass.
        Pass(Vec<Vec<u8>>),
        Remove(usize),
        KeepEven,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            proptest::collection::vec(proptest::collection::vec(1..5u8, 1..4), 1..4).prop_map(Act::Pass),
            (0..6usize).prop_map(Act::Remove),
            Just(Act::KeepEven),
        ]
    }

    proptest! {
        #[test]
        fn they_are_what_a_sorted_list_is(acts in proptest::collection::vec(act(), 0..40)) {
            let mut positions = Positions::default();
            let mut model: Vec<u64> = Vec::new();
            let mut end = 0;
            for act in acts {
                match act {
                    Act::Pass(batches) => {
                        let start = end;
                        let count = batches.len() as u64;
                        for (number, gaps) in (0..).zip(&batches) {
                            // Each batch has residues of its own, so that no position comes twice.
                            let mut place = 0;
                            let batch: Vec<u64> = gaps
                                .iter()
                                .map(|gap| {
                                    place += u64::from(*gap);
                                    start + place * count + number
                                })
                                .collect();
                            end = end.max(batch.last().map_or(end, |last| last + 1));
                            positions.append(&batch, start);
                            model.extend(batch);
                        }
                        model.sort_unstable();
                    }
                    Act::Remove(count) => {
                        let count = count.min(positions.len());
                        positions.remove_first(count);
                        model.drain(..count);
                    }
                    Act::KeepEven => {
                        positions.retain(|position| position % 2 == 0);
                        model.retain(|position| position % 2 == 0);
                    }
                }
                prop_assert_eq!(positions.iter().collect::<Vec<_>>(), model.clone());
                prop_assert_eq!((positions.len(), positions.first()), (model.len(), model.first().copied()));
                prop_assert_eq!(positions.is_empty(), model.is_empty());
            }
        }
    }
}
