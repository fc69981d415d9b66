//! CPU time and memory of another process, as the kernel counts them.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

/// A thread's time is brought up to date when it sleeps or at a timer tick (4 ms at 250 Hz): a server is read once it
/// had the time to fall asleep.
const SETTLE: Duration = Duration::from_millis(5);

/// The CPU time that each thread of a process has used so far, in nanoseconds.
#[derive(Debug)]
pub struct CpuReading {
    by_thread: HashMap<String, u64>,
}

impl CpuReading {
    /// Waits until the process can have fallen asleep, then reads its threads.
    ///
    /// # Errors
    /// The process is gone.
    pub fn take(pid: u32) -> anyhow::Result<CpuReading> {
        thread::sleep(SETTLE);
        let folder = PathBuf::from(format!("/proc/{pid}/task"));
        let mut by_thread = HashMap::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            // A thread may end between the listing and the reading; its time is lost then, and it was idle before.
            let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else {
                continue;
            };
            let nanoseconds = text
                .split(' ')
                .next()
                .unwrap_or_default()
                .parse()
                .context("no schedstat")?;
            by_thread.insert(entry.file_name().to_string_lossy().into_owned(), nanoseconds);
        }
        Ok(CpuReading { by_thread })
    }

    /// Returns what the process used since an earlier reading.
    pub fn since(&self, earlier: &CpuReading) -> Duration {
        let used = self.by_thread.iter().map(|(thread, nanoseconds)| {
            nanoseconds.saturating_sub(earlier.by_thread.get(thread).copied().unwrap_or(0))
        });
        Duration::from_nanos(used.sum())
    }
}

/// Reads the resident memory of a process.
///
/// # Errors
/// The process is gone.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().context("no VmRSS")?;
    Ok(kibibytes * 1024)
}
