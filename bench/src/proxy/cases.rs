//! The benchmark's parts, their cases, and the targets of each case.

use super::requests::{BenchCredential, BenchDialect, BenchRequest, BenchRequestKind, CALLERS};
use super::target::{DIRECT, HOP, HYPER_HOP, NGINX, NO_LOG, SEAWALL, SHARED};

/// A part of the run that can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProxyPart {
    /// Anthropic's dialect: plain and streamed, saturated and not, and memory.
    Core,
    /// The other dialects, without translation.
    Dialects,
    /// A JSON Web Token instead of a key.
    Token,
    /// Caller and model with different dialects.
    Cross,
    /// Many callers compared with one, with and without sockets.
    Callers,
    /// System calls.
    Calls,
}

impl ProxyPart {
    pub(crate) const ALL: [Self; 6] =
        [Self::Core, Self::Dialects, Self::Token, Self::Cross, Self::Callers, Self::Calls];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Dialects => "dialects",
            Self::Token => "token",
            Self::Cross => "cross",
            Self::Callers => "callers",
            Self::Calls => "calls",
        }
    }
}

impl ProxyPart {
    /// A description for the progress output.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Core => "one dialect, all request kinds",
            Self::Dialects => "the other dialects",
            Self::Token => "a token instead of a key",
            Self::Cross => "caller and model with different dialects",
            Self::Callers => "many callers compared with one",
            Self::Calls => "system calls",
        }
    }
}

/// The maximum CPU time per request, relative to nginx.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) gate: f64,
    pub(crate) aim: f64,
}

/// One case: the request, how it is sent, and to which targets.
#[derive(Clone, Copy)]
pub(crate) struct ProxyCase {
    pub(crate) part: ProxyPart,
    pub(crate) name: &'static str,
    pub(crate) request: BenchRequest,
    /// Requests per second; without it, the load is closed-loop and saturates the target.
    pub(crate) rate: Option<f64>,
    pub(crate) connections: u32,
    pub(crate) callers: usize,
    pub(crate) targets: &'static [&'static str],
    /// The goal for Seawall's CPU time relative to nginx's.
    pub(crate) cpu: Option<Goal>,
}

pub(crate) const PLAIN: &str = "plain, saturated";
pub(crate) const BURST: &str = "burst stream, saturated";
/// The same in OpenAI's dialect, whose events have no names.
pub(crate) const OPENAI_BURST: &str = "OpenAI, burst stream";
pub(crate) const STEADY: &str = "plain, 1,000 a second";
pub(crate) const PACED: &str = "paced stream, 200 starts a second";
pub(crate) const ONE_CALLER: &str = "one key, plain";
pub(crate) const MANY_CALLERS: &str = "10,000 keys, plain";

const BOTH: &[&str] = &[NGINX, SEAWALL];
const GOAL_PLAIN: Goal = Goal { gate: 1.8, aim: 1.5 };
const GOAL_BURST: Goal = Goal { gate: 2.8, aim: 1.2 };
const GOAL_PACED: Goal = Goal { gate: 1.3, aim: 1.2 };
const GOAL_CROSS: Goal = Goal { gate: 3.0, aim: 2.2 };

/// Saturated, in one dialect, with rotating keys.
const fn plain(part: ProxyPart, name: &'static str, dialect: BenchDialect) -> ProxyCase {
    ProxyCase {
        part,
        name,
        request: BenchRequest {
            kind: BenchRequestKind::Plain,
            dialect,
            model: dialect,
            credential: BenchCredential::Key,
        },
        rate: None,
        connections: 32,
        callers: CALLERS,
        targets: BOTH,
        cpu: Some(GOAL_PLAIN),
    }
}

/// A stream takes 250 ms, so some fifty are open at once.
const fn paced(part: ProxyPart, name: &'static str, dialect: BenchDialect) -> ProxyCase {
    let case = plain(part, name, dialect);
    ProxyCase {
        request: BenchRequest { kind: BenchRequestKind::Paced, ..case.request },
        rate: Some(200.0),
        connections: 128,
        cpu: Some(GOAL_PACED),
        ..case
    }
}

const fn cross(name: &'static str, dialect: BenchDialect, model: BenchDialect) -> ProxyCase {
    let case = plain(ProxyPart::Cross, name, dialect);
    ProxyCase { request: BenchRequest { model, ..case.request }, cpu: Some(GOAL_CROSS), ..case }
}

/// All cases, in the order in which they are measured.
pub(crate) fn all() -> Vec<ProxyCase> {
    use BenchDialect::{Anthropic, Converse, Invoke, Openai};
    let core = plain(ProxyPart::Core, PLAIN, Anthropic);
    let burst = BenchRequest { kind: BenchRequestKind::Burst, ..core.request };
    let openai = plain(ProxyPart::Dialects, OPENAI_BURST, Openai);
    let token = plain(ProxyPart::Token, "token, plain", Anthropic);
    let with_token = BenchRequest { credential: BenchCredential::Token, ..token.request };
    let callers = |name, callers| ProxyCase {
        callers,
        targets: &[SEAWALL],
        cpu: None,
        ..plain(ProxyPart::Callers, name, Anthropic)
    };
    vec![
        ProxyCase { targets: &[DIRECT, NGINX, HOP, HYPER_HOP, SEAWALL, NO_LOG, SHARED], ..core },
        ProxyCase {
            name: BURST,
            request: burst,
            targets: &[NGINX, HOP, HYPER_HOP, SEAWALL],
            cpu: Some(GOAL_BURST),
            ..core
        },
        ProxyCase {
            name: STEADY,
            rate: Some(1_000.0),
            targets: &[DIRECT, NGINX, SEAWALL],
            cpu: None,
            ..core
        },
        paced(ProxyPart::Core, PACED, Anthropic),
        plain(ProxyPart::Dialects, "OpenAI, plain", Openai),
        ProxyCase {
            request: BenchRequest { kind: BenchRequestKind::Burst, ..openai.request },
            cpu: Some(GOAL_BURST),
            ..openai
        },
        paced(ProxyPart::Dialects, "OpenAI, paced stream", Openai),
        plain(ProxyPart::Dialects, "Bedrock invoke, plain", Invoke),
        paced(ProxyPart::Dialects, "Bedrock invoke, paced stream", Invoke),
        plain(ProxyPart::Dialects, "Bedrock converse, plain", Converse),
        paced(ProxyPart::Dialects, "Bedrock converse, paced stream", Converse),
        // Few enough that all tokens were verified once before the first round: real callers send a token many times.
        ProxyCase { request: with_token, callers: 1_000, ..token },
        cross("OpenAI to Anthropic, plain", Openai, Anthropic),
        cross("Anthropic to converse, plain", Anthropic, Converse),
        cross("Converse to OpenAI, plain", Converse, Openai),
        callers(ONE_CALLER, 1),
        callers(MANY_CALLERS, CALLERS),
    ]
}

#[cfg(test)]
mod tests {
    use super::{ProxyPart, all};

    #[test]
    fn names_are_unique_and_every_goal_has_both_sides() {
        let cases = all();
        for case in &cases {
            assert_eq!(cases.iter().filter(|other| other.name == case.name).count(), 1, "{}", case.name);
            if let Some(goal) = case.cpu {
                assert!(goal.aim < goal.gate, "{}", case.name);
                for side in [super::NGINX, super::SEAWALL] {
                    assert!(case.targets.contains(&side), "{}", case.name);
                }
            }
        }
        for part in ProxyPart::ALL {
            let is_counted = part == ProxyPart::Calls;
            assert!(is_counted != cases.iter().any(|case| case.part == part), "{}", part.name());
        }
    }
}
