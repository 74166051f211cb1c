//! The memory available to this process: the limit of its cgroup, or else all memory of the machine.
//!
//! Linux exposes both in files. Where there are none, a small machine is assumed.

use std::path::{Path, PathBuf};

/// Assumed where the limit cannot be read.
const SMALL_MACHINE: u64 = 2 << 30;

/// Bytes of memory available to this process.
pub(crate) fn memory_limit() -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    find_limit(&read).unwrap_or(SMALL_MACHINE)
}

fn find_limit(read: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let machine = read(Path::new("/proc/meminfo")).as_deref().and_then(machine_memory);
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|path| cgroup_limit(&read(&path)?));
    limits.chain(machine).min()
}

fn machine_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1_024)
}

/// "max" (cgroup v2) and a number beyond all memory (cgroup v1) mean no limit.
fn cgroup_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| (1..1 << 60).contains(bytes))
}

/// The limit files of a process in these cgroups. A cgroup's limit also applies to its descendants, so every ancestor
/// is included. Inside a container, the container's own cgroup is the root.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (root, name) = if number == "0" && controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        let inside = Path::new(path.trim_start_matches('/'));
        files.extend(inside.ancestors().map(|group| Path::new(root).join(group).join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::{find_limit, memory_limit};
    use std::path::Path;

    fn limit_in(files: &[(&str, &str)]) -> Option<u64> {
        find_limit(&|path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        })
    }

    const MACHINE: (&str, &str) = ("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");

    #[test]
    fn the_tightest_limit_counts_of_a_group_and_those_around_it() {
        assert_eq!(limit_in(&[MACHINE]), Some(16 << 30));
        let own = ("/proc/self/cgroup", "0::/a/b\n");
        let outer = ("/sys/fs/cgroup/a/memory.max", "536870912\n");
        let inner = ("/sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(limit_in(&[MACHINE, own, outer, inner]), Some(512 << 20));
        let container =
            [MACHINE, ("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "1048576\n")];
        assert_eq!(limit_in(&container), Some(1 << 20));
        let older = [
            MACHINE,
            ("/proc/self/cgroup", "3:cpu,cpuacct:/x\n2:memory:/x\n"),
            ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648"),
        ];
        assert_eq!(limit_in(&older), Some(2 << 30));
    }

    #[test]
    fn nonsense_is_no_limit() {
        for text in ["", "0", "-1", "max", "12 kB", "18446744073709551616"] {
            let files = [MACHINE, ("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", text)];
            assert_eq!(limit_in(&files), Some(16 << 30), "{text}");
        }
        assert_eq!(
            limit_in(&[("/proc/meminfo", "MemTotal: many"), ("/proc/self/cgroup", "::::\n\n0")]),
            None
        );
        assert!(memory_limit() >= 16 << 20);
    }
}
