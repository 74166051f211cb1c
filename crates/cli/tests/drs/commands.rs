//! The commands, their output and their exit codes.

use seawall_drs::SystemRuntime;
use seawall_drs::fake::{FakeCloud, FakeFault, FakeSettings};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const ACCOUNT: &str = "111122223333";
const REGION: &str = "eu-west-1";

fn start(settings: FakeSettings) -> FakeCloud {
    let fake = FakeCloud::start(SystemRuntime::new(), settings).unwrap();
    fake.add_key("AKIAFAKE", "secret", ACCOUNT);
    fake.add_servers(ACCOUNT, REGION, ["s-1", "s-2"]);
    fake
}

/// The program with credentials for the fake, and nothing of this machine.
fn command(fake: &FakeCloud, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    command.env_clear().arg("drs").args(arguments);
    for (name, value) in [
        ("AWS_ENDPOINT_URL", fake.url().as_str()),
        ("AWS_ACCESS_KEY_ID", "AKIAFAKE"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", REGION),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("HOME", env!("CARGO_TARGET_TMPDIR")),
    ] {
        command.env(name, value);
    }
    command
}

fn run(fake: &FakeCloud, arguments: &[&str]) -> Output {
    command(fake, arguments).output().unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn servers_jobs_and_capacity_are_listed() {
    let fake = start(FakeSettings::default());
    fake.add_jobs(ACCOUNT, REGION, "STARTED", 3);
    fake.add_jobs(ACCOUNT, REGION, "COMPLETED", 2);
    let servers = run(&fake, &["servers"]);
    let text = String::from_utf8(servers.stdout.clone()).unwrap();
    assert_eq!(code(&servers), Some(0), "{servers:?}");
    assert!(text.starts_with("id ") && text.contains("\ns-1 ") && text.contains("\ns-2 "), "{text}");
    assert_eq!(json(&run(&fake, &["servers", "s-2", "--json"]))[0]["sourceServerId"], "s-2");
    assert_eq!(json(&run(&fake, &["jobs", "--json"])).as_array().unwrap().len(), 5);
    assert_eq!(json(&run(&fake, &["jobs", "--active", "--json"])).as_array().unwrap().len(), 3);
    let capacity = json(&run(&fake, &["capacity", "--json"]));
    assert_eq!((&capacity["currentJobs"], &capacity["availableSlots"]), (&3.into(), &17.into()));
    assert_eq!((&capacity["throttlingActive"], &capacity["atCapacity"]), (&false.into(), &false.into()));
}

#[test]
fn a_recovery_is_started_once_and_followed_to_its_end() {
    let times = Some((Duration::ZERO, Duration::ZERO));
    let fake = start(FakeSettings { job_times: times, ..FakeSettings::default() });
    fake.add_fault(Some("StartRecovery"), FakeFault::execute_then_500(), 1);
    let output = run(&fake, &["recover", "s-1", "s-2", "--drill", "--tag", "plan=a", "--wait", "--json"]);
    assert_eq!(code(&output), Some(0), "{output:?}");
    let status = json(&output);
    assert_eq!((&status["progress"], &status["doneServers"]), (&"SUCCEEDED".into(), &2.into()));
    assert!(errors(&output).contains("no second one is started"), "{output:?}");
    assert_eq!(fake.calls_of("StartRecovery").len(), 1);
    let job = fake.with_region(ACCOUNT, REGION, |region| region.jobs[0].clone());
    assert_eq!((&job["tags"]["plan"], &job["initiatedBy"]), (&"a".into(), &"START_DRILL".into()));
    assert!(job["tags"]["seawall:call-id"].is_string());

    let instances = fake.with_region(ACCOUNT, REGION, |region| region.instances.clone());
    let id = instances[0]["recoveryInstanceID"].as_str().unwrap();
    let output = run(&fake, &["terminate", id]);
    assert_eq!(code(&output), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("started job drsjob-"), "{output:?}");
    let output = run(&fake, &["wave", "drsjob-none", "--once"]);
    assert_eq!(code(&output), Some(6), "{output:?}");
}

#[test]
fn failures_have_stable_exit_codes() {
    let fake = start(FakeSettings::default());
    for arguments in [
        &["recover"][..],
        &["recover", "s 1"],
        &["recover", "s-1", "--tag", "plan"],
        &["recover", "s-1", "s-2", "--snapshot", "snap-1"],
        &["servers", "--region", "EU WEST"],
        &["servers", "--account", "12"],
        &["servers", "--role", "recovery"],
    ] {
        assert_eq!(code(&run(&fake, arguments)), Some(2), "{arguments:?}");
    }
    assert!(fake.calls_of("StartRecovery").is_empty());

    // Throttled until all retries are used; the preset keeps it short.
    fake.add_fault(Some("DescribeSourceServers"), FakeFault::throttle(), 3);
    let output = run(&fake, &["servers", "--retry", "standard", "--log"]);
    assert_eq!(code(&output), Some(3), "{output:?}");
    let lines: Vec<Value> =
        errors(&output).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let severities: Vec<_> = lines.iter().map(|line| line["severity"].as_str().unwrap()).collect();
    assert_eq!(severities, ["WARNING", "WARNING", "ERROR", "CRITICAL"]);
    assert!(lines.iter().all(|line| line["account"] == ACCOUNT && line["region"] == REGION));

    // No capacity, and no time to wait for it.
    fake.add_jobs(ACCOUNT, REGION, "PENDING", 18);
    let mut full = command(&fake, &["recover", "s-1", "--json"]);
    let output = full.env("JOB_THROTTLE_TIMEOUT", "0").output().unwrap();
    assert_eq!(code(&output), Some(4), "{output:?}");
    let body = json(&output);
    assert_eq!((&body["error"], &body["currentJobs"]), (&"JOB_CAPACITY_TIMEOUT".into(), &18.into()));
    let output = command(&fake, &["capacity"]).env("JOB_POLL_INTERVAL", "soon").output().unwrap();
    assert_eq!(code(&output), Some(2), "{output:?}");

    // A refusal that no retry helps against.
    assert_eq!(code(&run(&fake, &["launch-config", "s-none"])), Some(1));
}

#[test]
fn another_account_is_reached_through_its_role() {
    let fake = start(FakeSettings::default());
    fake.add_role("arn:aws:iam::444455556666:role/recovery", Some("tenant-7"));
    fake.add_servers("444455556666", REGION, ["s-other"]);
    let access = ["servers", "--account", "444455556666", "--role", "recovery", "--json", "--external-id"];
    let output = run(&fake, &[&access[..], &["tenant-7"]].concat());
    assert_eq!(json(&output)[0]["sourceServerId"], "s-other");
    let output = run(&fake, &[&access[..], &["tenant-8"]].concat());
    assert_eq!(code(&output), Some(1), "{output:?}");
}

#[test]
fn a_launch_configuration_is_changed() {
    let fake = start(FakeSettings::default());
    let output =
        run(&fake, &["launch-config", "s-1", "--disposition", "stopped", "--copy-tags", "true", "--json"]);
    let view = json(&output);
    assert_eq!((&view["launchDisposition"], &view["copyTags"]), (&"STOPPED".into(), &true.into()));
    let text = String::from_utf8(run(&fake, &["launch-config", "s-1"]).stdout).unwrap();
    assert!(text.contains("STOPPED"), "{text}");
}

#[test]
fn metrics_and_a_notice_are_sent_before_the_program_ends() {
    let fake = start(FakeSettings::default());
    fake.add_fault(Some("DescribeSourceServers"), FakeFault::throttle(), 3);
    let mut failing = command(&fake, &["servers", "--retry", "standard", "--publish-metrics"]);
    let topic = "arn:aws:sns:eu-west-1:111122223333:alerts";
    let output = failing.env("DRS_ALERTS_TOPIC_ARN", topic).output().unwrap();
    assert_eq!(code(&output), Some(3), "{output:?}");
    assert_eq!(fake.metrics().len(), 3 + 3 + 2 + 1);
    assert_eq!(fake.notices().len(), 1);
    assert_eq!(fake.notices()[0].topic, topic);
    let template = run(&fake, &["alarms", "--topic", topic]);
    assert_eq!(json(&template)["Resources"].as_object().unwrap().len(), 4);
}

#[test]
fn metrics_can_be_scraped_while_a_command_runs() {
    let fake = start(FakeSettings::default());
    fake.add_jobs(ACCOUNT, REGION, "STARTED", 1);
    let job =
        fake.with_region(ACCOUNT, REGION, |region| region.jobs[0]["jobID"].as_str().unwrap().to_owned());
    // The job never ends, and neither does the command.
    let mut wave = command(&fake, &["wave", &job, "--interval", "1", "--metrics-listen", "127.0.0.1:0"]);
    let mut wave = wave.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    // Kept open: a program whose standard error is closed ends.
    let mut errors = BufReader::new(wave.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    let address =
        line.trim().strip_prefix("seawall: metrics at http://").and_then(|rest| rest.split('/').next());
    let address = address.unwrap_or_else(|| panic!("{line}"));
    let scrape = || {
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        seawall_testkit::exchange(address, request).unwrap().text().into_owned()
    };
    let counted = seawall_testkit::wait_until("the look at the job is counted", || {
        Ok(scrape().contains("operation=\"describe_jobs\""))
    });
    wave.kill().unwrap();
    wave.wait().unwrap();
    counted.unwrap();
}
