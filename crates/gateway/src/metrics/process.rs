//! Resource usage of this process, read from `/proc`. Only Linux has it; elsewhere there are no values.

use std::time::Duration;

/// Resident memory in bytes.
pub(super) fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    resident(&status)
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1_024)
}

/// The unit of CPU times in `/proc`. It is the same on every architecture that Linux runs on today.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time in user and system mode.
pub(super) fn cpu_time() -> Option<Duration> {
    cpu_time_of(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// The name of the program is the second field; it is in parentheses, and may contain some.
fn cpu_time_of(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let ticks = user.checked_add(system)?;
    Some(Duration::from_millis(ticks.checked_mul(1_000 / TICKS_PER_SECOND)?))
}

/// Open file descriptors, without the one that reading the list opens.
pub(super) fn open_files() -> Option<u64> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    Some((open as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::{cpu_time_of, resident};
    use std::time::Duration;

    #[test]
    fn cpu_time_is_read_behind_whatever_name_the_program_has() {
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 75 0 0 20 0";
        assert_eq!(cpu_time_of(stat), Some(Duration::from_millis(2_250)));
        for nonsense in ["", "7 (a) S 1", "7 (a) S 1 2 3 4 5 6 7 8 9 10 x 75"] {
            assert_eq!(cpu_time_of(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn memory_is_read_in_bytes_and_nonsense_is_nothing() {
        assert_eq!(resident("Name:\tseawall\nVmRSS:\t   12345 kB\nVmData: 1 kB\n"), Some(12_345 * 1_024));
        for nonsense in ["", "VmRSS:", "VmRSS: 1 MB", "VmRSS: -1 kB", "VmRSS: 18446744073709551615 kB"] {
            assert_eq!(resident(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory_and_open_files() {
        let before = super::open_files().unwrap();
        let kept: Vec<_> = (0..8).map(|_| std::fs::File::open("/proc/self/status").unwrap()).collect();
        // Other tests open and close files meanwhile.
        assert!(super::open_files().unwrap() > 0 && before > 0);
        drop(kept);
        assert!(super::memory().unwrap() > 1 << 20);
    }
}
