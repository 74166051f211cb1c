//! Resource usage of this process, read from `/proc`. Only Linux has it; elsewhere there are no values.

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

/// Open file descriptors, without the one that reading the list opens.
pub(super) fn open_files() -> Option<u64> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    Some((open as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::resident;

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
