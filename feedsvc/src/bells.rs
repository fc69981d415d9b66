//! Wakes readers of some tables, and nobody else: a thousand watches on other tables cost a commit nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::catalog::TableId;

/// What a reader waits for: changes of a table, or with `None` session commands.
pub(crate) type Subject = Option<TableId>;

/// Who waits for what.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    /// Held to look up and to change, never across an await.
    registry: Mutex<Registry>,
}

/// Invariant: a number stands in `subjects` exactly where its reader asked for it.
#[derive(Debug, Default)]
struct Registry {
    next_number: u64,
    readers: HashMap<u64, Arc<Notify>>,
    subjects: HashMap<Subject, HashSet<u64>>,
}

/// One reader's bell; dropped, it is no longer rung.
#[derive(Debug)]
pub(crate) struct Bell {
    bells: Arc<Bells>,
    number: u64,
    subjects: Vec<Subject>,
    notify: Arc<Notify>,
}

/// The bells of one commit.
pub(crate) struct Rung(Vec<Arc<Notify>>);

impl Bells {
    /// Makes a bell for these subjects.
    pub(crate) fn listen(self: &Arc<Bells>, subjects: Vec<Subject>) -> Bell {
        let notify = Arc::new(Notify::new());
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let number = registry.next_number;
        registry.next_number += 1;
        registry.readers.insert(number, Arc::clone(&notify));
        for subject in &subjects {
            registry.subjects.entry(*subject).or_default().insert(number);
        }
        drop(registry);
        Bell {
            bells: Arc::clone(self),
            number,
            subjects,
            notify,
        }
    }

    /// Finds the bells of those who wait for one of these subjects, each once.
    pub(crate) fn find(&self, subjects: impl Iterator<Item = Subject>) -> Rung {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if registry.readers.is_empty() {
            return Rung(Vec::new());
        }
        let (mut seen, mut last) = (HashSet::new(), None);
        for subject in subjects {
            // Entries of one table mostly come one after the other.
            if last == Some(subject) {
                continue;
            }
            last = Some(subject);
            if let Some(numbers) = registry.subjects.get(&subject) {
                seen.extend(numbers.iter().copied());
            }
        }
        let bells = seen
            .into_iter()
            .filter_map(|number| registry.readers.get(&number));
        Rung(bells.cloned().collect())
    }

    /// Returns every bell.
    pub(crate) fn all(&self) -> Rung {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        Rung(registry.readers.values().cloned().collect())
    }
}

impl Rung {
    /// Rings them.
    pub(crate) fn ring(self) {
        for bell in self.0 {
            bell.notify_one();
        }
    }
}

impl Bell {
    /// Waits until it was rung since this was called last; cancelling loses nothing.
    pub(crate) async fn rung(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut registry = self.bells.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.readers.remove(&self.number);
        for subject in &self.subjects {
            if let Some(numbers) = registry.subjects.get_mut(subject) {
                numbers.remove(&self.number);
                if numbers.is_empty() {
                    registry.subjects.remove(subject);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Bell, Bells};
    use crate::catalog::TableId;

    /// Whether the bell was rung since the last look.
    async fn was_rung(bell: &Bell) -> bool {
        tokio::select! {
            biased;
            () = bell.rung() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn only_those_are_woken_who_wait_for_it() {
        let bells = Arc::new(Bells::default());
        let (one, two) = (Some(TableId(1)), Some(TableId(2)));
        let first = bells.listen(vec![one]);
        let both = bells.listen(vec![one, None]);
        bells.find([two, two].into_iter()).ring();
        assert!(!was_rung(&first).await && !was_rung(&both).await);
        bells.find([two, one, one].into_iter()).ring();
        assert!(was_rung(&first).await && was_rung(&both).await);
        assert!(!was_rung(&first).await, "once");
        bells.find([None].into_iter()).ring();
        assert!(!was_rung(&first).await && was_rung(&both).await);
        bells.all().ring();
        assert!(was_rung(&first).await && was_rung(&both).await);
        drop((first, both));
        let registry = bells.registry.lock().unwrap();
        assert!(registry.readers.is_empty() && registry.subjects.is_empty());
    }
}
