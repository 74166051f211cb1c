//! What the system's process table (/proc) reports about a process.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// Clock ticks per second in /proc; the same on every Linux that Rust supports.
const TICKS_PER_SECOND: u64 = 100;

/// Resident memory of a process in bytes; `None` if it is gone.
#[must_use]
pub fn resident_bytes(id: u32) -> Option<u64> {
    resident_bytes_in(&fs::read_to_string(format!("/proc/{id}/status")).ok()?)
}

fn resident_bytes_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

/// CPU time that a process has used so far; `None` if it is gone.
#[must_use]
pub fn cpu_time(id: u32) -> Option<Duration> {
    let ticks = ticks_in(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?;
    Some(Duration::from_micros(ticks * (1_000_000 / TICKS_PER_SECOND)))
}

/// User and system time from `/proc/PID/stat`. The process name before them may contain anything, even parentheses.
fn ticks_in(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(field()? + field()?)
}

/// Open file descriptors of a process, without connections to these ports; `None` if it is gone.
#[must_use]
pub fn open_descriptors(id: u32, excluded_ports: &[u16]) -> Option<u64> {
    let table = fs::read_to_string(format!("/proc/{id}/net/tcp")).unwrap_or_default();
    let excluded_sockets = sockets_to(&table, excluded_ports);
    let entries = fs::read_dir(format!("/proc/{id}/fd")).ok()?;
    let is_counted = |entry: &fs::DirEntry| {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        let socket = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        socket.is_none_or(|socket| !excluded_sockets.contains(socket))
    };
    Some(entries.flatten().filter(is_counted).count() as u64)
}

/// The inodes of sockets connected to one of these ports, from the system's table.
fn sockets_to(table: &str, ports: &[u16]) -> BTreeSet<String> {
    let socket = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let remote = fields.nth(2)?.rsplit_once(':')?.1;
        let remote = u16::from_str_radix(remote, 16).ok()?;
        ports.contains(&remote).then(|| fields.nth(6).map(str::to_owned))?
    };
    table.lines().skip(1).filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::{cpu_time, open_descriptors, resident_bytes, resident_bytes_in, sockets_to, ticks_in};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(resident_bytes_in("VmPeak:\t  99 kB\nVmRSS:\t    12 kB\nThreads:\t3\n"), Some(12_288));
        assert_eq!(resident_bytes_in("VmPeak:\t  99 kB\n"), None);
        assert!(resident_bytes(std::process::id()) > Some(100_000));
    }

    #[test]
    fn the_times_are_found_behind_any_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 1 0 99 1000 10";
        assert_eq!((ticks_in(stat), ticks_in("42")), (Some(12), None));
        assert!(cpu_time(std::process::id()).is_some());
    }

    #[test]
    fn sockets_are_found_by_where_they_lead() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 0100007F:1F91 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n   \
            1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n";
        assert_eq!(sockets_to(table, &[0x1F91]).into_iter().collect::<Vec<_>>(), ["4711"]);
        assert!(sockets_to(table, &[1]).is_empty() && sockets_to("", &[1]).is_empty());
    }

    #[test]
    fn connections_that_are_kept_are_not_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _lines: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
        let id = std::process::id();
        let (all, rest) = (open_descriptors(id, &[]), open_descriptors(id, &[address.port()]));
        let (all, rest) = (all.unwrap(), rest.unwrap());
        // Other tests open and close theirs meanwhile.
        assert!(all >= 43 && rest >= 3 && all >= rest + 20, "{all}, {rest}");
    }
}
