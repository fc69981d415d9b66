//! File systems of a test's own, and tools that may be missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Says why a test is left out on this machine. In CI nothing may be left out.
pub fn skip(test: &str, why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{test} cannot run: {why}");
    println!("{test} is left out: {why}");
}

/// Whether a program can be started.
pub fn has_tool(name: &str) -> bool {
    Command::new(name)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// A small file system in memory, mounted below a temporary directory for as long as this lives.
pub struct SmallDisk {
    point: PathBuf,
    _directory: TempDir,
}

impl SmallDisk {
    /// Mounts one of so many MiB; the error says why that is not possible here.
    pub fn mount(size_mib: u32) -> Result<SmallDisk, String> {
        let directory = TempDir::new().expect("a temporary directory");
        let point = directory.path().join("disk");
        std::fs::create_dir(&point).expect("a directory");
        run(
            "mount",
            &["-t", "tmpfs", "-o", &format!("size={size_mib}m"), "tidegate-test"],
            &point,
        )?;
        Ok(SmallDisk {
            point,
            _directory: directory,
        })
    }

    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Mounts it again with other options, for example `size=64m` or `ro`.
    pub fn remount(&self, options: &str) {
        run("mount", &["-o", &format!("remount,{options}")], &self.point)
            .expect("a mounted disk can be remounted");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a service that a failing test left behind must not keep the mount.
        let _ = run("umount", &["-l"], &self.point);
    }
}

fn run(program: &str, arguments: &[&str], point: &Path) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .arg(point)
        .output()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}
