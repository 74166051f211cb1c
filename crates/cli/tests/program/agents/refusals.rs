//! The number of requests that each agent sends for each kind of refusal. No agent may storm: a refusal that no retry can
//! help costs one request wherever the agent can be told so, and a retryable one costs the waits that it names.

use super::{Agent, AgentRun, AgentStage, FINAL_TEXT, KEY, OTHER_KEY, PROMPT};
use anyhow::ensure;
use serde_json::{Value, json};

/// A kind of refusal, and how many requests it may cost Claude Code and Codex.
struct AgentRefusal {
    name: &'static str,
    /// Settings of the gateway.
    settings: &'static str,
    /// What the model does.
    faults: fn() -> Value,
    /// What happens before the agent starts.
    before: fn(&AgentStage) -> anyhow::Result<()>,
    key: &'static str,
    route: Option<&'static str>,
    /// Possible reasons of the rejections at the gateway; empty if the agent need not be rejected.
    reasons: &'static [&'static str],
    max_requests: [u64; 2],
    /// Whether the agent gets its answer in the end.
    is_answered: bool,
}

/// A refusal that no retry can help.
const FINAL: AgentRefusal = AgentRefusal {
    name: "",
    settings: "",
    faults: || json!([]),
    before: |_| Ok(()),
    key: KEY,
    route: None,
    reasons: &["upstream_failed"],
    max_requests: [1, 1],
    is_answered: false,
};

fn status(status: u16) -> Value {
    json!([{ "fault": { "kind": "status", "status": status } }])
}

/// The status of a request of another program with this key.
fn ask(stage: &AgentStage, route: &str, key: &str) -> anyhow::Result<u16> {
    let body = json!({
        "model": route, "max_tokens": 8, "messages": [{ "role": "user", "content": "hello" }],
    });
    let headers = format!("x-api-key: {key}\r\n");
    Ok(stage.gateway.send("POST", "/v1/messages", &headers, body.to_string().as_bytes())?.status)
}

/// A request that uses up a limit or a budget.
fn spend(stage: &AgentStage, key: &str) -> anyhow::Result<()> {
    let status = ask(stage, "to-anthropic", key)?;
    ensure!(status == 200, "{status}");
    Ok(())
}

/// Lets the targets of both agents fail until their breakers are open.
fn open_breaker(stage: &AgentStage) -> anyhow::Result<()> {
    stage.model.set_faults(&status(500))?;
    for route in ["to-anthropic", "to-responses"] {
        // Two attempts each. Failures of one caller alone would block only that caller.
        for key in [KEY, OTHER_KEY] {
            ask(stage, route, key)?;
        }
    }
    Ok(())
}

/// A request whose answer reports more tokens than the budget of the test is worth.
fn overspend(stage: &AgentStage, key: &str) -> anyhow::Result<()> {
    stage.model.set_faults(&json!([{ "fault": { "kind": "claim", "output": 200_000 } }]))?;
    spend(stage, key)
}

const REFUSALS: &[AgentRefusal] = &[
    AgentRefusal {
        name: "rate limit, long wait",
        reasons: &["rate_limited"],
        settings: "limits.tiers.prime = { minute = \"60/min\", burst = 0, hour = \"1/h\", day = \"1/day\" }\n",
        before: |stage| spend(stage, KEY),
        ..FINAL
    },
    AgentRefusal {
        name: "caller budget spent",
        reasons: &["budget_exhausted"],
        settings: "budget.caller_day = \"$0.24/day\"\n",
        before: |stage| overspend(stage, KEY),
        ..FINAL
    },
    AgentRefusal {
        name: "day budget spent",
        reasons: &["budget_exhausted"],
        settings: "budget = { day = \"$0.48/day\", caller_day = \"$0.48/day\" }\n",
        // Of the same tier, which has half of the day.
        before: |stage| overspend(stage, OTHER_KEY),
        ..FINAL
    },
    AgentRefusal {
        name: "request above the daily budget",
        // Codex offers a search of the web, for which the gateway has a reason of its own.
        reasons: &["exceeds_daily_budget", "untracked_input"],
        settings: "budget.caller_day = \"$0.001/day\"\n",
        ..FINAL
    },
    AgentRefusal { name: "target overloaded", faults: || status(503), ..FINAL },
    AgentRefusal { name: "target fails", faults: || status(500), ..FINAL },
    AgentRefusal { name: "target throttles", faults: || status(429), ..FINAL },
    AgentRefusal {
        name: "target unreachable",
        faults: || json!([{ "fault": { "kind": "reset" } }]),
        ..FINAL
    },
    AgentRefusal { name: "target rejects the key", faults: || status(401), ..FINAL },
    AgentRefusal {
        name: "unknown model",
        reasons: &["unknown_model"],
        route: Some("nobody"),
        // After a 404, Claude Code repeats the request once without a stream.
        max_requests: [2, 1],
        ..FINAL
    },
    AgentRefusal {
        name: "bad credential",
        reasons: &["unknown_caller"],
        key: "sk-nobody-0123456789abcdef",
        // Codex takes every 401 for a broken stream. It stays one, so that a program that fetches its credential by a
        // command fetches a new one.
        max_requests: [1, 6],
        ..FINAL
    },
    AgentRefusal {
        name: "body too large",
        reasons: &["too_large"],
        settings: "server.max_body_size = \"4KiB\"\n",
        ..FINAL
    },
    AgentRefusal {
        name: "no target, long wait",
        reasons: &["unavailable"],
        settings: "breakers.haiku.failure_threshold = 4\nlimits.retry_after.no_retry_above = \"1s\"\n",
        before: open_breaker,
        ..FINAL
    },
    AgentRefusal {
        name: "no target, short wait",
        reasons: &["unavailable"],
        settings: "breakers.haiku.failure_threshold = 4\nbreakers.haiku.open_for = \"4s\"\n",
        before: open_breaker,
        max_requests: [4, 4],
        is_answered: true,
        ..FINAL
    },
    AgentRefusal {
        name: "short wait named by the target",
        reasons: &[],
        faults: || json!([{ "to": "1s", "fault": { "kind": "status", "status": 429, "retry_after": "2s" } }]),
        max_requests: [2, 2],
        is_answered: true,
        ..FINAL
    },
    AgentRefusal {
        name: "rate limit, short wait",
        reasons: &[],
        settings: "limits.global.second = \"1/s\"\nlimits.global.second_burst = 1\n\
                   limits.retry_after.jitter = \"0s\"\n",
        before: |stage| spend(stage, KEY),
        max_requests: [3, 3],
        is_answered: true,
        ..FINAL
    },
    AgentRefusal {
        name: "stream cut once",
        reasons: &[],
        faults: || json!([{ "every_nth": 1_000, "fault": { "kind": "cut", "after": 3 } }]),
        max_requests: [2, 2],
        is_answered: true,
        ..FINAL
    },
    AgentRefusal {
        name: "every stream cut",
        reasons: &[],
        faults: || json!([{ "fault": { "kind": "cut", "after": 3 } }]),
        // Claude Code repeats it once, without a stream; Codex repeats it five times.
        max_requests: [2, 6],
        ..FINAL
    },
];

fn run(refusal: &AgentRefusal, number: usize, agent: Agent, test: &'static str) -> anyhow::Result<AgentRun> {
    let stage = AgentStage::start(test, refusal.settings)?;
    (refusal.before)(&stage)?;
    // Behind the faults of the kind, so that an answered agent ends with a text that is known.
    let mut faults = (refusal.faults)();
    if let Value::Array(rules) = &mut faults {
        rules.push(json!({ "fault": { "kind": "text", "text": FINAL_TEXT } }));
    }
    stage.model.set_faults(&faults)?;
    let route = match agent {
        Agent::Codex => "to-responses",
        _ => "to-anthropic",
    };
    let prompt = format!("{PROMPT} ({number})");
    let rejected = || -> anyhow::Result<u64> {
        let count = |reason: &&str| {
            let name = format!("seawall_requests_total{{outcome=\"rejected\",reason=\"{reason}\"}}");
            stage.gateway.counter(&name)
        };
        refusal.reasons.iter().map(count).sum()
    };
    let before = rejected()?;
    let run = stage.run(agent, refusal.route.unwrap_or(route), refusal.key, &prompt)?;
    ensure!(
        refusal.reasons.is_empty() || rejected()? > before,
        "{}: not rejected as {:?}: {run:?}",
        refusal.name,
        refusal.reasons
    );
    Ok(run)
}

/// Runs every kind, and reports all that cost too many requests.
fn count_requests(agent: Agent, column: usize, test: &'static str) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for (number, refusal) in REFUSALS.iter().enumerate() {
        let run = run(refusal, number, agent, test)?;
        let max = refusal.max_requests[column];
        println!("{agent:?}, {}: {} requests, at most {max}", refusal.name, run.requests);
        let is_answered = run.succeeded && run.output.contains(FINAL_TEXT);
        if run.requests == 0 || run.requests > max || run.timed_out || is_answered != refusal.is_answered {
            problems.push(format!("{}: at most {max} requests: {run:?}", refusal.name));
        }
    }
    ensure!(problems.is_empty(), "{agent:?}:\n{}", problems.join("\n"));
    Ok(())
}

#[test]
fn claude_code_does_not_storm() -> anyhow::Result<()> {
    count_requests(Agent::ClaudeCode, 0, "agents-refusals-claude-code")
}

#[test]
fn codex_does_not_storm() -> anyhow::Result<()> {
    count_requests(Agent::Codex, 1, "agents-refusals-codex")
}
