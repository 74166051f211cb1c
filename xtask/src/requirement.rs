//! Programs that the tests need and cargo cannot install.
//!
//! Runs before the tests, so that a fresh machine or container needs one command. It installs only as root and only
//! through apt; otherwise it reports what is missing and why, and stops.

use anyhow::{Context as _, bail, ensure};
use std::env;
use std::process::Command;

/// A required program.
pub(crate) struct Requirement {
    /// The name of the executable.
    pub(crate) program: &'static str,
    /// Arguments that must succeed, where its presence is not enough.
    pub(crate) probe: &'static [&'static str],
    /// The Debian package that contains it.
    pub(crate) package: &'static str,
    /// Its use.
    pub(crate) why: &'static str,
}

impl Requirement {
    fn is_met(&self) -> bool {
        is_on_path(self.program)
            && (self.probe.is_empty()
                || Command::new(self.program)
                    .args(self.probe)
                    .output()
                    .is_ok_and(|output| output.status.success()))
    }
}

/// The requirements of the tests.
const FOR_TESTS: &[Requirement] = &[
    Requirement {
        program: "python3",
        // Debian ships Python without the part that puts pip into a virtual environment.
        probe: &["-c", "import ensurepip, venv"],
        package: "python3-venv",
        why: "the tests with the vendors' Python clients",
    },
    Requirement {
        program: "node",
        probe: &[],
        package: "nodejs",
        why: "the tests with the vendors' JavaScript clients",
    },
    Requirement {
        program: "npm",
        probe: &[],
        package: "npm",
        why: "installing the vendors' JavaScript clients",
    },
    Requirement {
        program: "strace",
        probe: &[],
        package: "strace",
        why: "the test that counts system calls",
    },
    Requirement {
        program: "redis-server",
        probe: &[],
        package: "redis-server",
        why: "the tests of stores that a fleet shares",
    },
    Requirement {
        program: "redis-cli",
        probe: &[],
        package: "redis-tools",
        why: "creating a cluster for those tests",
    },
];

/// The requirements of the benchmark of whole requests.
const FOR_PROXY_BENCH: &[Requirement] = &[
    Requirement {
        program: "nginx",
        probe: &[],
        package: "nginx-light",
        why: "the peer that Seawall is compared with",
    },
    Requirement { program: "strace", probe: &[], package: "strace", why: "counts system calls" },
    Requirement { program: "taskset", probe: &[], package: "util-linux", why: "pins each program to a core" },
];

/// The requirements of profile-guided optimisation, beside those of the benchmark that is its load.
const FOR_DIST: &[Requirement] = &[Requirement {
    program: "llvm-profdata-19",
    probe: &[],
    package: "llvm-19",
    why: "merges PGO profiles",
}];

/// The requirements of coverage: LLVM's tools of the compiler's own version, which alone read its counters.
const FOR_COVERAGE: &[Requirement] = &[Requirement {
    program: "llvm-cov-22",
    probe: &[],
    package: "llvm-22",
    why: "reads coverage counters",
}];

/// What to do about missing programs.
#[derive(Debug, PartialEq, Eq)]
enum InstallDecision {
    /// Everything is installed.
    Nothing,
    /// Install these packages.
    Install(Vec<&'static str>),
    /// Stop with this message: they cannot be installed from here.
    Report(String),
}

fn decide(
    table: &[Requirement],
    is_met: impl Fn(&Requirement) -> bool,
    may_install: bool,
) -> InstallDecision {
    let missing: Vec<_> = table.iter().filter(|requirement| !is_met(requirement)).collect();
    if missing.is_empty() {
        return InstallDecision::Nothing;
    }
    // Two programs may be in one package; the order of the table is kept.
    let mut packages = Vec::new();
    for requirement in &missing {
        if !packages.contains(&requirement.package) {
            packages.push(requirement.package);
        }
    }
    if may_install {
        return InstallDecision::Install(packages);
    }
    let reasons: String = missing
        .iter()
        .map(|requirement| {
            format!("\n  {} (package {}): {}", requirement.program, requirement.package, requirement.why)
        })
        .collect();
    InstallDecision::Report(format!(
        "missing programs:{reasons}\ninstall them as root, then try again:\n  \
         apt-get update && apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    ))
}

/// Installs the requirements of the tests, or fails with what to install.
pub(crate) fn install_missing() -> anyhow::Result<()> {
    install(FOR_TESTS)
}

/// The same for the benchmark of whole requests.
pub(crate) fn install_missing_for_proxy_bench() -> anyhow::Result<()> {
    install(FOR_PROXY_BENCH)
}

/// The same for profile-guided optimisation.
pub(crate) fn install_missing_for_dist() -> anyhow::Result<()> {
    install_missing_for_proxy_bench()?;
    install(FOR_DIST)
}

/// The same for coverage.
pub(crate) fn install_missing_for_coverage() -> anyhow::Result<()> {
    install(FOR_COVERAGE)
}

fn install(table: &[Requirement]) -> anyhow::Result<()> {
    match decide(table, Requirement::is_met, is_root() && is_on_path("apt-get")) {
        InstallDecision::Nothing => {
            println!("nothing is missing");
            Ok(())
        }
        InstallDecision::Report(message) => bail!(message),
        InstallDecision::Install(packages) => {
            apt_get(&["update"])?;
            apt_get(&[&["install", "-y", "--no-install-recommends"][..], &packages].concat())
        }
    }
}

fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("apt-get");
    // A package that asks a question would wait forever without a terminal.
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    let status = command.status().context("cannot start apt-get")?;
    ensure!(status.success(), "apt-get {} failed with {status}", arguments.join(" "));
    Ok(())
}

fn is_on_path(program: &str) -> bool {
    // Debian keeps servers off the path of ordinary users.
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(["/usr/sbin".into()]).any(|directory| directory.join(program).is_file())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::{InstallDecision, Requirement, decide, is_on_path};

    const TABLE: &[Requirement] = &[
        requirement("redis-server", "redis-server", "the store's conformance tests"),
        requirement("redis-cli", "redis-tools", "the failover test"),
        requirement("redis-benchmark", "redis-tools", "the store's benchmark"),
    ];

    const fn requirement(program: &'static str, package: &'static str, why: &'static str) -> Requirement {
        Requirement { program, probe: &[], package, why }
    }

    #[test]
    fn nothing_is_done_when_nothing_is_missing() {
        assert_eq!(decide(TABLE, |_| true, false), InstallDecision::Nothing);
        assert_eq!(decide(TABLE, |_| true, true), InstallDecision::Nothing);
        assert_eq!(decide(&[], |_| false, false), InstallDecision::Nothing);
    }

    #[test]
    fn root_installs_each_missing_package_once() {
        assert_eq!(
            decide(TABLE, |_| false, true),
            InstallDecision::Install(vec!["redis-server", "redis-tools"])
        );
        let only_server = |requirement: &Requirement| requirement.program == "redis-server";
        assert_eq!(decide(TABLE, only_server, true), InstallDecision::Install(vec!["redis-tools"]));
    }

    #[test]
    fn other_users_see_what_is_missing_why_and_what_to_run() {
        let expected = "missing programs:\n  redis-server (package redis-server): the store's conformance tests\n\
            install them as root, then try again:\n  \
            apt-get update && apt-get install -y --no-install-recommends redis-server";
        let all_but_server = |requirement: &Requirement| requirement.program != "redis-server";
        assert_eq!(decide(TABLE, all_but_server, false), InstallDecision::Report(expected.to_owned()));
    }

    #[test]
    fn a_program_that_fails_its_probe_is_missing() {
        let shell = |probe| Requirement { probe, ..requirement("sh", "dash", "everything") };
        assert!(shell(&[]).is_met() && shell(&["-c", "exit 0"]).is_met());
        assert!(!shell(&["-c", "exit 1"]).is_met());
    }

    #[test]
    fn a_program_is_looked_for_on_the_path() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("no-such-program"));
    }
}
